//! `castellan export`: a session written down.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::pictures::{PNG, seeing};
use crate::program::{PROGRAM, Run, config, home_with, run};

/// A secret that commands get.
const SECRET: &str = "s3cret-of-the-export";

/// A session with a call that ran, had a long result and printed a secret, one that was denied, and
/// others that failed.
fn session(home: &Home) -> String {
    let server = ModelServer::scripted([
        Reply::text_and_calls(
            "Let me look.",
            [
                (
                    "bash",
                    json!({"command": "echo '```'; echo key $EXPORT_TOKEN; seq 1 20000"}),
                ),
                ("read_file", json!({"path": "missing.txt"})),
            ],
        ),
        Reply::calls([
            ("nothing_like_it", json!({})),
            ("bash", json!({"command": "touch denied.txt"})),
        ]),
        Reply::text("All **done**."),
        Reply::text("Again."),
    ]);
    home.write_config(&format!(
        "{}[tools]\nenvironment = [\"EXPORT_TOKEN\"]\n\
         [[policy]]\ncommand = \"touch\"\naction = \"deny\"\nreason = \"hands off\"\n",
        config(&server)
    ));
    let prompt = "# look\nplease";
    let mut first = home.command(PROGRAM);
    first
        .args(["exec", "--json", "--skip-permissions", prompt])
        .env("EXPORT_TOKEN", SECRET);
    let first = Run::from(first.output().unwrap());
    assert_eq!(first.code, 0, "{first:?}");
    let id = first.session();
    let second = run(home, &["exec", "--resume", &id, "and again"]);
    assert_eq!(second.code, 0, "{second:?}");
    id
}

#[test]
fn a_session_is_written_as_markdown_that_nothing_in_it_can_break() {
    let home = Home::new();
    let id = session(&home);
    let export = run(&home, &["export", &id]);
    assert_eq!(export.code, 0, "{export:?}");
    let page = &export.stdout;
    for part in [
        &format!("# Session {id}\n"),
        "> # look\n> please\n",
        "Let me look.",
        "### bash · run echo",
        "**done** in ",
        "**failed** in ",
        "TOOL_NOT_FOUND",
        "key [redacted]\n",
        "- deny by policy",
        "hands off",
        "**denied** in ",
        "left out here",
        "All **done**.",
        "*turn over: done*",
        "> and again\n",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert!(page.len() < 60_000, "{} bytes", page.len());
    // The fence around a result is longer than the one inside of it.
    assert!(page.contains("````\n```\n"), "{page}");
    assert!(!page.contains('\u{1b}') && !page.contains(SECRET));
}

#[test]
fn a_session_is_written_as_one_json_document() {
    let home = Home::new();
    let id = session(&home);
    let file = home.root().join("out.json");
    let path = file.to_str().unwrap();
    let export = run(&home, &["export", &id, "--format", "json", "-o", path]);
    assert_eq!((export.code, export.stdout.as_str()), (0, ""), "{export:?}");
    assert!(export.stderr.contains("wrote "), "{}", export.stderr);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let story: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(story["session"], json!(id));
    let kinds: Vec<&str> = story["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "user",
            "assistant",
            "call",
            "call",
            "call",
            "call",
            "assistant",
            "turn_end",
            "user",
            "assistant",
            "turn_end"
        ]
    );
    let bash = &story["parts"][2];
    assert_eq!(
        (&bash["name"], &bash["result"]["outcome"]),
        (&json!("bash"), &json!("done"))
    );
    assert!(bash["result"]["bytes"].as_u64().unwrap() > 100_000);
    assert!(bash["result"]["output"].as_str().unwrap().len() < 10_000);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_was_denied_and_what_was_left_out_is_told() {
    let summary = |request: &castellan_testkit::RecordedRequest| {
        let text = &request.text;
        if text.contains("You write summaries") {
            Reply::text("THE SHORT OF IT")
        } else if text.contains("THE SHORT OF IT") {
            Reply::text("finished")
        } else if request.messages().len() > 6 {
            Reply::error(400, "prompt has 9001 tokens but the slot holds 8192")
        } else {
            let number = request.messages().len();
            Reply::calls([("read_file", json!({"path": format!("{number}.txt")}))])
        }
    };
    let server = ModelServer::answering(summary);
    let home = home_with(&server);
    for number in [2, 4, 6] {
        home.write(format!("{number}.txt"), "a line of text\n".repeat(400));
    }
    let turn = run(&home, &["exec", "--json", "read"]);
    assert_eq!(turn.code, 0, "{turn:?}");
    assert_eq!(turn.kind("compaction").len(), 1, "{turn:?}");
    let id = turn.session();
    let page = run(&home, &["export", &id]).stdout;
    assert!(
        page.contains("## Compaction") && page.contains("> THE SHORT OF IT"),
        "{page}"
    );
    let story = run(&home, &["trace", "show", &id]).stdout;
    assert!(
        story.contains("compaction") && story.contains("THE SHORT OF IT"),
        "{story}"
    );
    let stats = run(&home, &["trace", "stats", &id, "--json"]).stdout;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["compactions"], json!(1));

    let server = ModelServer::scripted([
        Reply::calls([("bash", json!({"command": "touch made"}))]),
        Reply::text("as you like"),
    ]);
    home.write_config(&config(&server));
    let id = run(&home, &["exec", "--json", "make it"]).session();
    run(&home, &["exec", "--resume", &id, "leave it"]);
    let page = run(&home, &["export", &id]).stdout;
    assert!(
        page.contains("**denied**") && page.contains("ask by default"),
        "{page}"
    );
}

#[test]
fn pictures_are_named_with_the_files_that_have_them() {
    let server = ModelServer::scripted([
        Reply::calls([("read_file", json!({"path": "p.png"}))]),
        Reply::text("Red."),
    ]);
    let home = Home::new();
    home.write_config(&seeing(&server));
    home.write("p.png", PNG);
    let turn = run(&home, &["exec", "--json", "look", "--attach", "p.png"]);
    assert_eq!(turn.code, 0, "{turn:?}");
    let id = turn.session();
    let page = run(&home, &["export", &id]).stdout;
    let story = run(&home, &["export", &id, "--format", "json"]).stdout;
    let story: Value = serde_json::from_str(&story).unwrap();
    let named = [
        &story["parts"][0]["pictures"][0],
        &story["parts"][1]["result"]["pictures"][0],
    ];
    for picture in named {
        let file = picture["path"].as_str().unwrap();
        assert_eq!(std::fs::read(file).unwrap(), PNG);
        let line = format!(
            "- picture: PNG, 1 x 1 pixels, {} bytes, in `{file}`",
            PNG.len()
        );
        assert_eq!(page.matches(&line).count(), 2, "{page}");
    }
}

#[test]
fn an_export_that_can_not_be_written_says_why() {
    let home = Home::new();
    let id = session(&home);
    let export = run(&home, &["export", &id, "-o", "/nowhere/at/all.md"]);
    assert_eq!(export.code, 1);
    assert!(
        export.stderr.contains("failed to write /nowhere/at/all.md"),
        "{}",
        export.stderr
    );
    assert_eq!(run(&home, &["export", "ws_ffffff"]).code, 2);
    assert_eq!(run(&home, &["export", &id, "--format", "pdf"]).code, 2);
}
