//! Secrets that are shown as a mark: the mark never takes the secret's place on disk.

use castellan_core::secret::Redaction;
use castellan_core::tool::SessionView;
use castellan_testkit::Home;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use castellan_tools::write_file::WriteFile;
use serde_json::{Value, json};

use crate::drive::{after, call, call_with, reader, text, view};

const KEY: &str = "sk-test-0123456789";
const BEFORE: &str = "# keys\nOPENAI_API_KEY=sk-test-0123456789\nDEBUG=1\n";

/// The view of a session that has read `.env`, in a process that knows the key.
async fn read(home: &Home) -> SessionView {
    let mut view = view(&home.workspace());
    view.redaction = Redaction::new([KEY.to_owned()]);
    let read = call(reader(Closed::default()), json!({"path": ".env"}), &view).await;
    after(&view, &read)
}

async fn write(home: &Home, content: &str) -> String {
    let arguments = json!({"path": ".env", "content": content});
    text(
        call(
            WriteFile::new(Closed::default()),
            arguments,
            &read(home).await,
        )
        .await,
    )
}

async fn edit(home: &Home, arguments: Value) -> String {
    text(
        call(
            EditFile::new(Closed::default()),
            arguments,
            &read(home).await,
        )
        .await,
    )
}

#[tokio::test]
async fn the_mark_is_not_written_over_the_secret_it_stands_for() {
    let home = Home::new();
    home.write(".env", BEFORE);
    for content in [
        "# keys\nOPENAI_API_KEY=[redacted]\nDEBUG=0\n",
        "OPENAI_API_KEY=\"[redacted]\"\r\n",
    ] {
        let said = write(&home, content).await;
        for part in ["a secret on line 2", "nothing was written", "edit_file"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert_eq!(home.read(".env").as_deref(), Some(BEFORE));
    // In UTF-16 as well.
    let wide: Vec<u8> = format!("\u{feff}{BEFORE}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    std::fs::write(home.workspace().join(".env"), &wide).unwrap();
    assert!(
        write(&home, "OPENAI_API_KEY=[redacted]\n")
            .await
            .contains("a secret on line 2")
    );
    assert_eq!(std::fs::read(home.workspace().join(".env")).unwrap(), wide);
}

#[tokio::test]
async fn what_loses_no_secret_is_written() {
    for (before, content) in [
        (BEFORE, "DEBUG=1\n"),
        (BEFORE, "OPENAI_API_KEY=another\n"),
        ("log [redacted]\n", "log [redacted] twice: [redacted]\n"),
        (
            "# [redacted] stands for keys\nA=sk-test-0123456789\n",
            "# [redacted] stands for keys\nA=\n",
        ),
    ] {
        let home = Home::new();
        home.write(".env", before);
        let said = write(&home, content).await;
        assert!(said.contains("replaced"), "{said}");
        assert_eq!(home.read(".env").as_deref(), Some(content));
    }
    let home = Home::new();
    home.write(".env", BEFORE);
    let more = json!({"path": ".env", "content": "# [redacted]\n", "mode": "append"});
    let said = text(call(WriteFile::new(Closed::default()), more, &read(&home).await).await);
    assert!(said.contains("appended"), "{said}");
}

#[tokio::test]
async fn a_secret_that_came_while_the_call_waited_is_kept_too() {
    let home = Home::new();
    home.write(".env", "DEBUG=1\n");
    let arguments = json!({"path": ".env", "content": "OPENAI_API_KEY=[redacted]\n"});
    let tool = WriteFile::new(Closed::default());
    let report = call_with(tool, arguments, &read(&home).await, |_| {
        home.write(".env", BEFORE);
    })
    .await;
    assert!(text(report).contains("nothing was written"));
    assert_eq!(home.read(".env").as_deref(), Some(BEFORE));
}

#[tokio::test]
async fn an_edit_leaves_the_secret_and_says_why_it_can_not_be_quoted() {
    let home = Home::new();
    home.write(".env", BEFORE);
    for (arguments, parts) in [
        (
            json!({"path": ".env", "old_string": "OPENAI_API_KEY=[redacted]\nDEBUG=1", "new_string": "OPENAI_API_KEY=[redacted]\nDEBUG=0"}),
            [
                "old_string has [redacted]",
                "a secret that stands there on line 2",
            ],
        ),
        (
            json!({"path": ".env", "edits": [
                {"old_string": "DEBUG=1", "new_string": "DEBUG=0"},
                {"old_string": "OPENAI_API_KEY=", "new_string": "OPENAI_API_KEY=[redacted]"},
            ]}),
            ["edits[1]: new_string would write", "nothing was written"],
        ),
        (
            json!({"path": ".env", "old_string": KEY, "new_string": "[redacted]"}),
            ["new_string would write", "a secret on line 2"],
        ),
    ] {
        let said = edit(&home, arguments).await;
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("as read_file shows it"), "{said}");
        assert_eq!(home.read(".env").as_deref(), Some(BEFORE));
    }
    let said = edit(
        &home,
        json!({"path": ".env", "old_string": "DEBUG=1\n", "new_string": "# [redacted]\n"}),
    )
    .await;
    assert!(said.contains("edited"), "{said}");
    assert_eq!(
        home.read(".env"),
        Some(BEFORE.replace("DEBUG=1", "# [redacted]"))
    );
}
