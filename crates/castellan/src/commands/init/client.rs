//! The clients: where each keeps its configuration, and how it wants to be told of a server.

use std::path::{Path, PathBuf};

use castellan_host::Environment;
use clap::ValueEnum;

use super::syntax::{Dialect, Syntax};
use crate::error::CommandError;

/// A program that can be a client of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Zed,
    Gemini,
}

/// Where programs keep what is theirs. The rules differ by system and are data here, so that each
/// can be looked at on any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    Mac,
}

impl System {
    pub(super) const HERE: Self = if cfg!(target_os = "macos") {
        Self::Mac
    } else {
        Self::Linux
    };
}

/// The folders from which the clients' own are told.
#[derive(Debug)]
pub(super) struct Places<'a> {
    environment: &'a Environment,
    home: &'a Path,
    system: System,
}

impl<'a> Places<'a> {
    /// Those of this user on this system.
    ///
    /// # Errors
    /// A user without a home folder.
    pub(super) fn of(environment: &'a Environment, system: System) -> Result<Self, CommandError> {
        let home = environment.home().ok_or_else(|| {
            CommandError::failed("this user has no home folder, where clients keep their settings")
                .hint("set HOME to the folder of the user that runs the client")
        })?;
        Ok(Self {
            environment,
            home,
            system,
        })
    }

    /// The user's home folder.
    pub(super) const fn home(&self) -> &'a Path {
        self.home
    }

    /// The folder that a variable names; as the clients do, from the current one on where it is
    /// relative.
    fn named(&self, variable: &str) -> Option<PathBuf> {
        let folder = self.environment.get(variable)?;
        (!folder.is_empty()).then(|| self.environment.cwd().join(folder))
    }

    /// The base of settings that follows the desktop's rules: a relative path does not count there.
    pub(super) fn xdg_config(&self) -> PathBuf {
        self.environment
            .get("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
            .unwrap_or_else(|| self.home.join(".config"))
    }

    /// Where programs with windows keep their settings.
    fn applications(&self) -> PathBuf {
        match self.system {
            System::Linux => self.xdg_config(),
            System::Mac => self.home.join("Library/Application Support"),
        }
    }
}

impl Client {
    /// All of them, in the order in which they are told of.
    pub(super) const ALL: [Self; 7] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::Vscode,
        Self::Codex,
        Self::Zed,
        Self::Gemini,
    ];

    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Zed => "zed",
            Self::Gemini => "gemini",
        }
    }

    /// Its name in prose.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
            Self::Gemini => "Gemini CLI",
        }
    }

    /// Its folder; that it is there tells that the client is.
    fn folder(self, places: &Places<'_>) -> PathBuf {
        let home = places.home;
        match self {
            Self::ClaudeCode => places
                .named("CLAUDE_CONFIG_DIR")
                .unwrap_or_else(|| home.join(".claude")),
            Self::ClaudeDesktop => places.applications().join("Claude"),
            Self::Cursor => home.join(".cursor"),
            Self::Vscode => places.applications().join("Code"),
            Self::Codex => places
                .named("CODEX_HOME")
                .unwrap_or_else(|| home.join(".codex")),
            // On a Mac too.
            Self::Zed if places.system == System::Mac => home.join(".config/zed"),
            Self::Zed => places.xdg_config().join("zed"),
            Self::Gemini => places
                .named("GEMINI_CLI_HOME")
                .unwrap_or_else(|| home.to_owned())
                .join(".gemini"),
        }
    }

    /// The file with the servers of this user.
    pub(super) fn file(self, places: &Places<'_>) -> PathBuf {
        let folder = self.folder(places);
        match self {
            // It lies in the folder only where that was moved.
            Self::ClaudeCode => places
                .named("CLAUDE_CONFIG_DIR")
                .unwrap_or_else(|| places.home.to_owned())
                .join(".claude.json"),
            Self::ClaudeDesktop => folder.join("claude_desktop_config.json"),
            Self::Cursor => folder.join("mcp.json"),
            Self::Vscode => folder.join("User/mcp.json"),
            Self::Codex => folder.join("config.toml"),
            Self::Zed | Self::Gemini => folder.join("settings.json"),
        }
    }

    /// Whether it looks as if this user had it.
    pub(super) fn is_there(self, places: &Places<'_>) -> bool {
        self.folder(places).is_dir() || self.file(places).symlink_metadata().is_ok()
    }

    /// What it can read. What a client would not read itself is a flaw of the file, and said.
    pub(super) const fn syntax(self) -> Syntax {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop => Syntax::Json(Dialect::Strict),
            Self::Gemini => Syntax::Json(Dialect::Comments),
            Self::Cursor | Self::Vscode | Self::Zed => Syntax::Json(Dialect::Lenient),
            Self::Codex => Syntax::Toml,
        }
    }

    /// The key under which its servers stand by their names.
    pub(super) const fn servers(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::Gemini => "mcpServers",
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
        }
    }

    /// What it wants to be told of a program beside its command, or takes for granted.
    pub(super) const fn fixed(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::ClaudeCode | Self::Vscode => Some(("type", "stdio")),
            Self::Zed => Some(("source", "custom")),
            Self::ClaudeDesktop | Self::Cursor | Self::Codex | Self::Gemini => None,
        }
    }

    /// What to do so that it takes notice.
    pub(super) const fn next(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start Claude Code anew; /mcp lists its servers",
            Self::ClaudeDesktop => "quit Claude Desktop and start it again",
            Self::Cursor => "start Cursor anew; its settings list its MCP servers",
            Self::Vscode => "in VS Code, the command `MCP: List Servers` shows and starts it",
            Self::Codex => "start Codex anew; /mcp lists its servers",
            Self::Zed => "Zed takes it up by itself; the settings of its agent panel list it",
            Self::Gemini => "start Gemini CLI anew; /mcp lists its servers",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of all clients.
    fn files(system: System, variables: &[(&str, &str)]) -> Vec<String> {
        let variables = [("HOME", "/h")].iter().chain(variables);
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = Environment::new(variables, PathBuf::from("/srv"));
        let places = Places::of(&environment, system).unwrap();
        let file = |client: Client| client.file(&places).display().to_string();
        Client::ALL.map(file).to_vec()
    }

    #[test]
    fn every_client_has_its_file_on_every_system() {
        assert_eq!(
            files(System::Linux, &[]),
            [
                "/h/.claude.json",
                "/h/.config/Claude/claude_desktop_config.json",
                "/h/.cursor/mcp.json",
                "/h/.config/Code/User/mcp.json",
                "/h/.codex/config.toml",
                "/h/.config/zed/settings.json",
                "/h/.gemini/settings.json",
            ]
        );
        assert_eq!(
            files(System::Mac, &[("XDG_CONFIG_HOME", "/x")]),
            [
                "/h/.claude.json",
                "/h/Library/Application Support/Claude/claude_desktop_config.json",
                "/h/.cursor/mcp.json",
                "/h/Library/Application Support/Code/User/mcp.json",
                "/h/.codex/config.toml",
                "/h/.config/zed/settings.json",
                "/h/.gemini/settings.json",
            ]
        );
    }

    #[test]
    fn variables_move_the_files_as_they_move_the_clients_own() {
        let moved = [
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("CODEX_HOME", "codex"),
            ("GEMINI_CLI_HOME", "/g"),
            ("XDG_CONFIG_HOME", "/x"),
        ];
        assert_eq!(
            files(System::Linux, &moved),
            [
                "/c/.claude.json",
                "/x/Claude/claude_desktop_config.json",
                "/h/.cursor/mcp.json",
                "/x/Code/User/mcp.json",
                "/srv/codex/config.toml",
                "/x/zed/settings.json",
                "/g/.gemini/settings.json",
            ]
        );
        // What is set to nothing, or to what does not count, moves nothing.
        let not_moved = [("CODEX_HOME", ""), ("XDG_CONFIG_HOME", "relative")];
        assert_eq!(files(System::Linux, &not_moved), files(System::Linux, &[]));
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for client in Client::ALL {
            let value = client.to_possible_value().unwrap();
            assert_eq!(value.get_name(), client.name());
        }
        assert_eq!(Client::value_variants(), Client::ALL);
    }
}
