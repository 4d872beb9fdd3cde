//! Pictures and PDF files, through the whole program: parsed by a worker, shown to a model that sees.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{config, run};

/// A red picture of one pixel.
pub(crate) const PNG: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0,
    0, 0, 144, 119, 83, 222, 0, 0, 0, 12, 73, 68, 65, 84, 8, 215, 99, 248, 207, 192, 0, 0, 3, 1, 1,
    0, 24, 221, 141, 176, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];
/// The beginning of its base64.
pub(crate) const URL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB";

/// A configuration whose default model is this server, and sees.
pub(crate) fn seeing(server: &ModelServer) -> String {
    format!(
        "{}[models.test.capabilities]\nsupports_vision = true\n",
        config(server).replace("[database]\nsynchronous = \"normal\"\n", "")
    )
}

fn read(home: &Home, name: &str, server: &ModelServer) -> Value {
    server.push(Reply::calls([("read_file", json!({"path": name}))]));
    server.push(Reply::text("done"));
    let run = run(home, &["exec", "look"]);
    assert_eq!(run.code, 0, "{run:?}");
    let requests = server.requests();
    Value::Array(requests.last().unwrap().messages().to_vec())
}

#[test]
fn a_picture_reaches_a_model_that_sees_and_is_told_to_one_that_does_not() {
    let home = Home::new();
    home.write("p.png", PNG);
    let server = ModelServer::scripted([]);
    home.write_config(&seeing(&server));
    let messages = read(&home, "p.png", &server);
    let result = messages[3]["content"].as_str().unwrap();
    assert!(result.contains("PNG picture, 1 x 1 pixels"), "{result}");
    let shown = &messages[4];
    assert_eq!(shown["role"], "user");
    let url = shown["content"][1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with(URL), "{url}");

    home.write_config(&config(&server));
    let text = read(&home, "p.png", &server).to_string();
    assert!(text.contains("PNG picture") && text.contains("takes no pictures"));
    assert!(!text.contains("base64"), "{text}");
}

#[test]
fn a_broken_or_hostile_picture_is_words_and_never_a_picture() {
    let home = Home::new();
    let mut bomb = PNG.to_vec();
    bomb[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    for (name, bytes) in [
        ("cut.png", &PNG[..40]),
        ("page.png", b"\x89PNG\r\n\x1a\n<html>".as_slice()),
        ("bomb.png", &bomb),
        ("broken.pdf", b"%PDF-1.4 and nothing more"),
    ] {
        home.write(name, bytes);
        let server = ModelServer::scripted([]);
        home.write_config(&seeing(&server));
        let messages = read(&home, name, &server);
        let result = messages[3]["content"].as_str().unwrap();
        assert!(result.contains("is not shown"), "{name}: {result}");
        assert!(messages[4].is_null(), "{name}: {messages}");
    }
}

#[test]
fn a_file_that_is_text_in_spite_of_its_name_is_text() {
    let home = Home::new();
    home.write("note.png", "just words\n");
    let server = ModelServer::scripted([]);
    home.write_config(&seeing(&server));
    let messages = read(&home, "note.png", &server);
    assert_eq!(messages[3]["content"], "     1\tjust words\n");
}

#[test]
fn files_go_with_a_prompt() {
    let home = Home::new();
    home.write("p.png", PNG);
    home.write("notes.md", "# Notes\n");
    let server = ModelServer::scripted([Reply::text("seen"), Reply::text("again")]);
    home.write_config(&seeing(&server));
    let args = [
        "exec",
        "--json",
        "what is it?",
        "--attach",
        "p.png",
        "--attach",
        "notes.md",
    ];
    let first = run(&home, &args);
    assert_eq!(first.code, 0, "{first:?}");
    let asked = server.requests()[0].messages()[1]["content"].clone();
    assert_eq!(asked.as_array().unwrap().len(), 3, "{asked}");
    let text = asked[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("what is it?") && text.contains("```\n# Notes\n```"),
        "{text}"
    );
    assert!(
        asked[2]["image_url"]["url"]
            .as_str()
            .unwrap()
            .starts_with(URL)
    );
    // What was attached belongs to the session, even where the file is gone.
    std::fs::remove_file(home.workspace().join("p.png")).unwrap();
    assert_eq!(
        run(&home, &["exec", "--resume", &first.session(), "and now?"]).code,
        0
    );
    let again = server.requests()[1].messages()[1]["content"].clone();
    assert_eq!(again, asked);
}

#[test]
fn what_can_not_be_attached_is_said_before_anything_is_asked() {
    let home = Home::new();
    home.write("b.bin", [0, 1, 2]);
    let server = ModelServer::scripted([]);
    home.write_config(&config(&server));
    for (file, why) in [
        ("b.bin", "neither UTF-8 text"),
        ("none", "does not exist"),
        (".", "a folder"),
    ] {
        let run = run(&home, &["exec", "look", "--attach", file]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
    assert!(server.requests().is_empty());
}
