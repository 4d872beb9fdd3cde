//! Files that go with a message in the conversation.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::Value;

use crate::pictures::{PNG, URL, seeing};
use crate::program::{config, run};
use crate::repl::{said, world};
use crate::terminal::Terminal;

/// The parts of the last message of a person.
fn parts(server: &ModelServer) -> Vec<Value> {
    let requests = server.requests();
    let messages = requests.last().unwrap().messages();
    let last = messages
        .iter()
        .rfind(|message| message["role"] == "user")
        .unwrap();
    last["content"].as_array().unwrap().clone()
}

fn url(part: &Value) -> &str {
    part["image_url"]["url"].as_str().unwrap_or_default()
}

#[test]
fn a_picture_goes_with_a_message() {
    let server = ModelServer::scripted([Reply::text("Red.")]);
    let home = Home::new();
    home.write_config(&seeing(&server));
    home.write("p.png", PNG);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("/attach p.png");
    terminal.rests("p.png (69 bytes) goes with the next message");
    terminal.enter("which colour?");
    terminal.rests("Red.");
    let parts = parts(&server);
    assert_eq!(parts[0]["text"], "which colour?");
    assert!(
        parts.iter().any(|part| url(part).starts_with(URL)),
        "{parts:?}"
    );
    terminal.leave();
}

#[test]
fn a_stop_attaches_again_what_was_attached_to_the_queued() {
    let server = ModelServer::scripted([Reply::hang(), Reply::text("Seen.")]);
    let home = Home::new();
    home.write_config(&seeing(&server));
    home.write("p.png", PNG);
    home.write("notes.md", "the notes\n");
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("one");
    terminal.wait("thinking");
    terminal.enter("/attach p.png");
    terminal.wait("p.png (69 bytes) goes with");
    terminal.enter("/attach notes.md");
    terminal.wait("notes.md (10 bytes) goes with");
    terminal.enter("two");
    terminal.wait("1 queued");
    terminal.press("\u{3}");
    let screen = terminal.until("the words in the line", |screen| {
        screen.contains("stopped") && screen.trim_end().ends_with("› two")
    });
    assert!(
        screen.contains("stands in the line again, with its 2 files"),
        "{screen}"
    );
    terminal.enter("");
    terminal.rests("Seen.");
    let parts = parts(&server);
    let text = parts[0]["text"].as_str().unwrap();
    assert!(
        text.contains("\n\ntwo\n\n/") && text.matches("the notes").count() == 1,
        "{text}"
    );
    assert!(
        parts.iter().any(|part| url(part).starts_with(URL)),
        "{parts:?}"
    );
    terminal.leave();
}

#[test]
fn a_file_that_can_not_go_is_let_go_of_and_no_other() {
    let (server, home) = world([Reply::text("Read."), Reply::text("Nothing more.")]);
    home.write("notes.md", "the notes\n");
    home.write("b.bin", [0, 1, 2]);
    let terminal = Terminal::ready(&home, &[]);
    for name in ["notes.md", "b.bin"] {
        terminal.enter(&format!("/attach {name}"));
        terminal.rests(&format!("{name} ("));
    }
    terminal.enter("look");
    let screen = terminal.until("the words in the line", |screen| {
        screen.contains("not attached any more") && screen.trim_end().ends_with("› look")
    });
    assert!(screen.contains("neither UTF-8 text"), "{screen}");
    terminal.enter("");
    terminal.rests("Read.");
    assert!(
        said(&server)[0].contains("the notes"),
        "{:?}",
        said(&server)
    );
    terminal.enter("and now?");
    terminal.rests("Nothing more.");
    assert_eq!(said(&server)[1], "and now?");
    terminal.leave();
}

#[test]
fn paths_begin_in_the_folder_of_the_session() {
    let server = ModelServer::scripted([Reply::text("Hello.")]);
    let home = Home::new();
    home.write_config(&config(&server));
    home.write("sub/inside.txt", "");
    let begun = run(&home, &["exec", "--json", "--cwd", "sub", "hi"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    let terminal = Terminal::ready(&home, &["--resume", &begun.session()]);
    terminal.rests("Hello.");
    terminal.press("/attach in\t");
    terminal.wait("› /attach inside.txt");
    terminal.enter("");
    terminal.rests("inside.txt (0 bytes) goes with the next message");
    terminal.leave();
}
