//! Settings of every client as its users have them, before and after they tell of us.

/// A client, its file below the user's home, what a user may have in it, and what is in it then.
pub(super) struct Case {
    pub(super) client: &'static str,
    pub(super) file: &'static str,
    pub(super) before: &'static str,
    pub(super) after: &'static str,
}

/// One of each client.
pub(super) const CASES: [Case; 7] = [
    Case {
        client: "claude-code",
        file: ".claude.json",
        before: r#"{
  "numStartups": 34,
  "tipsHistory": { "new-user-warmup": 2 },
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.example.org/mcp/"
    }
  },
  "projects": {
    "/home/me/notes": {
      "allowedTools": [],
      "mcpServers": {}
    }
  },
  "bigNumber": 12345678901234567890123
}
"#,
        after: r#"{
  "numStartups": 34,
  "tipsHistory": { "new-user-warmup": 2 },
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.example.org/mcp/"
    },
    "castellan": {
      "type": "stdio",
      "command": "[PROGRAM]",
      "args": ["mcp"]
    }
  },
  "projects": {
    "/home/me/notes": {
      "allowedTools": [],
      "mcpServers": {}
    }
  },
  "bigNumber": 12345678901234567890123
}
"#,
    },
    Case {
        client: "claude-desktop",
        file: ".config/Claude/claude_desktop_config.json",
        before: r#"{
    "mcpServers": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"]
        }
    },
    "globalShortcut": ""
}"#,
        after: r#"{
    "mcpServers": {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"]
        },
        "castellan": {
            "command": "[PROGRAM]",
            "args": ["mcp"]
        }
    },
    "globalShortcut": ""
}"#,
    },
    Case {
        client: "cursor",
        file: ".cursor/mcp.json",
        before: "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"a\" }\n\t}\n}\n",
        after: "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"a\" },\n\t\t\"castellan\": {\n\t\t\t\
                \"command\": \"[PROGRAM]\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t}\n}\n",
    },
    Case {
        client: "vscode",
        file: ".config/Code/User/mcp.json",
        before: r#"// Servers of mine.
{
  "inputs": [], // none yet
  "servers": {
    /* the old one */
    "memory": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "memory",],
    }, // stays
  },
}
"#,
        after: r#"// Servers of mine.
{
  "inputs": [], // none yet
  "servers": {
    /* the old one */
    "memory": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "memory",],
    }, // stays
    "castellan": {
      "type": "stdio",
      "command": "[PROGRAM]",
      "args": ["mcp"],
    },
  },
}
"#,
    },
    Case {
        client: "codex",
        file: ".codex/config.toml",
        before: r#"# My settings.
model = "gpt-5"   # the large one
approval_policy = "on-request"

[mcp_servers.docs]
command = "docs-server"
args = [
  "--port", # the usual one
  "4000",
]

[mcp_servers.docs.env]
PLACE = "here"

# About the look.
[tui]
notifications = true
"#,
        after: r#"# My settings.
model = "gpt-5"   # the large one
approval_policy = "on-request"

[mcp_servers.docs]
command = "docs-server"
args = [
  "--port", # the usual one
  "4000",
]

[mcp_servers.docs.env]
PLACE = "here"

[mcp_servers.castellan]
command = "[PROGRAM]"
args = ["mcp"]

# About the look.
[tui]
notifications = true
"#,
    },
    Case {
        client: "zed",
        file: ".config/zed/settings.json",
        before: r#"// Zed settings
//
// For information on how to configure Zed, see the Zed documentation.
{
  "ui_font_size": 16,
  "theme": {
    "mode": "system" // or "dark"
  }
}
"#,
        after: r#"// Zed settings
//
// For information on how to configure Zed, see the Zed documentation.
{
  "ui_font_size": 16,
  "theme": {
    "mode": "system" // or "dark"
  },
  "context_servers": {
    "castellan": {
      "source": "custom",
      "command": "[PROGRAM]",
      "args": ["mcp"]
    }
  }
}
"#,
    },
    Case {
        client: "gemini",
        file: ".gemini/settings.json",
        before: r#"{
  // What I like.
  "ui": { "theme": "GitHub" },
  "mcpServers": { "a": { "command": "a", "trust": false } }
}
"#,
        after: r#"{
  // What I like.
  "ui": { "theme": "GitHub" },
  "mcpServers": {
    "a": { "command": "a", "trust": false },
    "castellan": {
      "command": "[PROGRAM]",
      "args": ["mcp"]
    }
  }
}
"#,
    },
];
