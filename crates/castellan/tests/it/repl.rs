//! The conversation in the terminal.

use std::os::unix::fs::PermissionsExt as _;

use castellan_testkit::{Gate, Home, ModelServer, Reply};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::program::{PROGRAM, run, unenclosed};
use crate::terminal::Terminal;

/// A server with these answers, and a home whose model it is.
pub(crate) fn world(replies: impl IntoIterator<Item = Reply>) -> (ModelServer, Home) {
    let server = ModelServer::scripted(replies);
    let home = Home::new();
    home.write_config(&unenclosed(&server));
    (server, home)
}

fn write_call(path: &str) -> Reply {
    Reply::calls([("write_file", json!({"path": path, "content": "one\ntwo\n"}))])
}

fn bash(command: &str) -> Reply {
    Reply::calls([("bash", json!({"command": command}))])
}

/// What the model was told last.
fn told(server: &ModelServer) -> String {
    server.requests().last().unwrap().last_text().to_owned()
}

/// The words of every message of a person in the last request.
pub(crate) fn said(server: &ModelServer) -> Vec<String> {
    let requests = server.requests();
    let messages = requests.last().unwrap().messages();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    messages
        .iter()
        .filter(|message| message["role"] == "user")
        .map(text)
        .collect()
}

/// A screen without what differs from run to run.
fn scrubbed(home: &Home, screen: &str) -> String {
    let text = home.scrub(screen);
    let mut parts = text.split("ws_");
    let mut scrubbed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        scrubbed.push_str("[SESSION]");
        scrubbed.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    scrubbed
}

/// The id of the only session.
fn session(home: &Home) -> String {
    let listed: Value = serde_json::from_str(&run(home, &["sessions", "--json"]).stdout).unwrap();
    listed["sessions"][0]["id"].as_str().unwrap().to_owned()
}

const MARKDOWN: &str = "## Plan\n\nRead `notes.md`, then **stop**.\n\n- one\n- two\n\n```sh\nls -l\n```\n\n\
    | file | lines |\n|---|---|\n| a.rs | 12 |\n\nSee [the page](http://x.test/y).";

#[test]
fn an_answer_is_drawn_at_eighty_and_at_forty_columns() {
    for columns in [80, 40] {
        let (_server, home) = world([Reply::text(MARKDOWN)]);
        let terminal = Terminal::start(&home, &[], (columns, 30), &[("NO_COLOR", "1")]);
        terminal.wait("› ");
        terminal.enter("what is the plan?");
        let screen = terminal.rests("y).\n\nscripted · context 15");
        insta::assert_snapshot!(
            format!("an_answer_at_{columns}_columns"),
            scrubbed(&home, &screen)
        );
        let bytes = String::from_utf8(terminal.leave()).unwrap();
        assert!(
            !bytes.contains("\u{1b}[1m") && !bytes.contains("\u{1b}[3"),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_no_with_words_reaches_the_model() {
    let (server, home) = world([write_call("old.txt"), Reply::text("I take another one.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("write it");
    let screen = terminal.wait("y/n/a ›");
    assert!(
        screen.contains("+ one") && screen.matches("(8 bytes)").count() == 2,
        "{screen}"
    );
    terminal.enter("maybe");
    terminal.wait("`maybe` is no answer");
    terminal.enter("n use another name");
    terminal.rests("I take another one.");
    assert!(
        told(&server).contains("use another name"),
        "{}",
        told(&server)
    );
    assert_eq!(home.read("old.txt"), None);
    terminal.leave();
}

#[test]
fn a_yes_with_words_runs_the_call_and_reaches_the_model() {
    let (server, home) = world([write_call("new.txt"), Reply::text("Done.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("write it");
    terminal.wait("y/n/a ›");
    terminal.enter("y, use full path");
    let screen = terminal.rests("Done.");
    assert!(
        screen.contains("● create new.txt") && screen.contains("write_file: done"),
        "{screen}"
    );
    assert!(told(&server).contains("use full path"));
    assert_eq!(home.read("new.txt").as_deref(), Some("one\ntwo\n"));
    terminal.leave();
}

#[test]
fn all_of_a_long_preview_is_shown_on_request() {
    let lines: String = (0..60).map(|number| format!(": line {number}\n")).collect();
    let (_server, home) = world([bash(&lines), Reply::text("Done.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    let screen = terminal.wait("y/n/a ›");
    assert!(
        screen.contains("more lines here; v shows all of it")
            && screen.contains(": line 59")
            && !screen.contains(": line 30"),
        "{screen}"
    );
    terminal.enter("v");
    terminal.until("all of it, and the question", |screen| {
        screen.contains(": line 30") && screen.contains("y/n/a ›")
    });
    terminal.enter("y");
    terminal.rests("Done.");
    terminal.leave();
}

#[test]
fn several_calls_are_decided_by_their_numbers() {
    let calls = [
        ("bash", json!({"command": "touch a"})),
        ("bash", json!({"command": "touch b"})),
    ];
    let (_server, home) = world([Reply::calls(calls), Reply::text("Done.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    terminal.wait("? 2. run touch b");
    terminal.wait("y/n/a ›");
    terminal.enter("y 2");
    terminal.wait("approved: run touch b");
    terminal.until("the other one asked again", |screen| {
        screen.matches("run touch a").count() == 2
    });
    terminal.enter("n");
    let screen = terminal.rests("Done.");
    assert!(screen.contains("bash: denied"), "{screen}");
    assert_eq!(
        (home.read("a"), home.read("b")),
        (None, Some(String::new()))
    );
    terminal.leave();
}

#[test]
fn a_call_keeps_its_number_until_all_of_its_round_are_decided() {
    let calls = ["a", "b", "c"].map(|name| ("bash", json!({"command": format!("touch {name}")})));
    let (_server, home) = world([Reply::calls(calls), Reply::text("Done.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    terminal.wait("? 3. run touch c");
    terminal.wait("y/n/a ›");
    let asked_again = |number: &str, times| {
        terminal.until("what is left, asked again", |screen| {
            screen.matches(number).count() == times && screen.contains("y/n/a ›")
        });
    };
    terminal.enter("y 1");
    asked_again("? 3. run touch c", 2);
    terminal.enter("n 2 not that one");
    asked_again("? 3. run touch c", 3);
    terminal.enter("y 2");
    terminal.wait("call 2 is decided already; open: 3");
    terminal.enter("y 3");
    let screen = terminal.rests("Done.");
    assert!(screen.contains("approved: run touch c"), "{screen}");
    let made = ["a", "b", "c"].map(|name| home.read(name).is_some());
    assert_eq!(made, [true, false, true], "{screen}");
    terminal.leave();
}

#[test]
fn a_message_that_is_being_typed_is_not_taken_for_an_answer() {
    let gate = Gate::new();
    let (server, home) = world([
        write_call("x.txt").held_at(&gate),
        Reply::text("Denied then."),
        Reply::text("List."),
    ]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("write it");
    gate.wait_reached();
    terminal.press("give me");
    terminal.wait("» give me");
    gate.open();
    terminal.wait("a question waits");
    terminal.enter(" a list");
    terminal.wait("queued: give me a list");
    terminal.wait("y/n/a ›");
    terminal.enter("n");
    terminal.rests("List.");
    assert_eq!(said(&server), ["write it", "give me a list"]);
    assert_eq!(home.read("x.txt"), None);
    terminal.leave();
}

#[test]
fn the_end_of_input_denies_what_is_asked() {
    let (_server, home) = world([write_call("x.txt")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("write it");
    terminal.wait("y/n/a ›");
    terminal.leave();
    let shown = run(&home, &["trace", "show", "--json", &session(&home)]).stdout;
    assert!(
        shown.contains("the person left without an answer"),
        "{shown}"
    );
    assert_eq!(home.read("x.txt"), None);
}

#[test]
fn output_of_a_running_call_is_seen_and_control_c_stops_it() {
    let (_server, home) = world([bash("for i in $(seq 20); do echo line $i; done; sleep 600")]);
    let terminal = Terminal::ready(&home, &["--skip-permissions"]);
    terminal.enter("go");
    let screen = terminal.until("live output", |screen| {
        screen.contains("line 20") && screen.contains("running")
    });
    assert!(
        screen.contains("… 15 lines above") && !screen.contains("line 15\n"),
        "{screen}"
    );
    terminal.press("\u{3}");
    let screen = terminal.rests("stopped; /continue goes on");
    assert!(screen.contains("bash: cancelled"), "{screen}");
    terminal.press("\u{3}");
    assert!(terminal.ended().success());
}

#[test]
fn what_is_sent_while_a_turn_runs_is_queued_and_said_afterwards() {
    let gate = Gate::new();
    let (server, home) = world([Reply::text("First.").held_at(&gate), Reply::text("Second.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("one");
    gate.wait_reached();
    terminal.enter("two");
    terminal.wait("1 queued");
    terminal.press("half a li");
    terminal.wait("» half a li");
    gate.open();
    let screen = terminal.until("both answers", |screen| {
        screen.contains("Second.") && screen.trim_end().ends_with("› half a li")
    });
    assert!(screen.contains("› two"), "{screen}");
    assert_eq!(said(&server), ["one", "two"]);
    terminal.press("\u{3}");
    terminal.until("an empty line", |screen| screen.trim_end().ends_with('›'));
    terminal.leave();
}

#[test]
fn a_stop_gives_back_what_was_queued() {
    let (_server, home) = world([Reply::hang()]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("one");
    terminal.wait("thinking");
    terminal.enter("two");
    terminal.wait("1 queued");
    terminal.press("\u{3}");
    terminal.until("the words in the line", |screen| {
        screen.contains("stopped") && screen.trim_end().ends_with("› two")
    });
    terminal.kill();
}

#[test]
fn a_stop_gives_back_a_message_that_begins_with_a_slash_as_it_was_typed() {
    let (server, home) = world([Reply::hang(), Reply::text("Read.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("one");
    terminal.wait("thinking");
    terminal.enter("//etc is a folder");
    terminal.wait("1 queued");
    terminal.press("\u{3}");
    terminal.until("the words in the line", |screen| {
        screen.contains("stopped") && screen.trim_end().ends_with("› //etc is a folder")
    });
    terminal.press("\r");
    terminal.rests("Read.");
    assert_eq!(said(&server), ["one\n\n/etc is a folder"]);
    terminal.leave();
}

#[test]
fn the_model_named_on_the_command_line_is_told_before_anything_is_said() {
    let server = ModelServer::scripted([]);
    let home = Home::new();
    let arguments = ["--base-url", &server.base_url(), "--model", "special"];
    let terminal = Terminal::ready(&home, &arguments);
    terminal.enter("/model");
    let screen = terminal.rests("/model NAME asks for another model there");
    assert!(
        screen.contains("asked for: special at http://127.0.0.1")
            && !screen.contains("none was found"),
        "{screen}"
    );
    terminal.leave();
}

#[test]
fn pasted_lines_are_one_message() {
    let (server, home) = world([Reply::text("Read.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.paste("first line\nsecond line");
    terminal.wait("second line");
    terminal.press("\u{1b}\rthird");
    terminal.wait("third");
    terminal.enter("\\");
    terminal.enter("fourth");
    terminal.rests("Read.");
    assert_eq!(said(&server), ["first line\nsecond line\nthird\nfourth"]);
    terminal.leave();
}

#[test]
fn no_sequence_of_a_model_or_a_tool_reaches_the_terminal() {
    let evil = "a\u{1b}]0;owned\u{7}b\u{1b}[5mc\u{9b}5md\u{202e}e";
    let (_server, home) = world([
        Reply::text_and_calls(
            evil,
            [(
                "bash",
                json!({"command": "printf 'x\\033[5my\\033]0;owned\\007z\\n'; : \u{1b}[5m"}),
            )],
        ),
        Reply::text(evil).byte_by_byte(),
    ]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    let screen = terminal.wait("y/n/a ›");
    assert!(screen.contains("\\u{1b}[5m"), "{screen}");
    terminal.enter("y");
    let screen = terminal.rests("bash: done");
    assert!(
        screen.contains("abcde") && screen.contains("xyz"),
        "{screen}"
    );
    let bytes = String::from_utf8(terminal.leave()).unwrap();
    for sequence in ["\u{1b}[5m", "\u{1b}]0;", "owned\u{7}", "\u{9b}", "\u{202e}"] {
        assert!(!bytes.contains(sequence), "{sequence:?}");
    }
}

#[test]
fn a_terminal_resized_in_mid_stream_is_drawn_at_its_new_width() {
    let gate = Gate::new();
    let long = "word ".repeat(60);
    let reply = Reply::sse_unfinished([
        json!({"choices": [{"index": 0, "delta": {"content": long}}]}),
    ])
    .then_wait(&gate)
    .then_data(
        &json!({"choices": [{"index": 0, "delta": {"content": "end."}, "finish_reason": "stop"}]})
            .to_string(),
    )
    .then_data("[DONE]");
    let (_server, home) = world([reply]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    gate.wait_reached();
    terminal.wait("word word");
    terminal.resize(40, 30);
    let narrow = "word ".repeat(8);
    terminal.until("rows of forty columns", |screen| {
        screen
            .lines()
            .filter(|line| *line == narrow.trim_end())
            .count()
            >= 6
    });
    gate.open();
    terminal.until("the end", |screen| {
        screen.contains("end.") && screen.trim_end().ends_with('›')
    });
    terminal.leave();
}

#[test]
fn a_terminal_that_only_takes_lines_is_sent_no_sequence() {
    let (_server, home) = world([
        Reply::text(MARKDOWN),
        write_call("x.txt"),
        Reply::text("Done."),
    ]);
    let terminal = Terminal::start(&home, &[], (80, 60), &[("TERM", "dumb")]);
    terminal.wait("castellan ");
    terminal.enter("what is the plan?");
    terminal.wait("http://x.test/y");
    terminal.enter("write");
    terminal.wait("y yes");
    terminal.enter("y");
    terminal.wait("Done.");
    terminal.enter("/quit");
    let bytes = terminal.bytes();
    assert!(terminal.ended().success());
    assert!(
        !bytes.contains(&0x1b),
        "{:?}",
        String::from_utf8_lossy(&bytes)
    );
    assert_eq!(home.read("x.txt").as_deref(), Some("one\ntwo\n"));
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let (_server, home) = world([]);
    let run = run(&home, &[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("castellan exec"), "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn a_program_that_was_killed_goes_on_where_it_was() {
    let (server, home) = world([bash("echo begun; sleep 600"), Reply::text("I look first.")]);
    let terminal = Terminal::ready(&home, &["--skip-permissions"]);
    terminal.enter("go");
    terminal.until("the command", |screen| {
        screen.contains("begun") && screen.contains("running")
    });
    terminal.kill();
    let terminal = Terminal::ready(&home, &["--resume", &session(&home)]);
    let screen = terminal.rests("broken off; /continue goes on");
    assert!(screen.contains("› go"), "{screen}");
    terminal.enter("/continue");
    terminal.rests("I look first.");
    assert!(told(&server).contains("interrupted"), "{}", told(&server));
    terminal.leave();
}

#[test]
fn an_open_question_is_asked_again_at_once() {
    let (_server, home) = world([write_call("x.txt"), Reply::text("Done.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    terminal.wait("y/n/a ›");
    terminal.kill();
    let terminal = Terminal::usual(&home, &["--resume", &session(&home)]);
    let screen = terminal.wait("y/n/a ›");
    assert!(screen.contains("? create x.txt"), "{screen}");
    terminal.enter("y");
    terminal.rests("Done.");
    assert!(home.read("x.txt").is_some());
    terminal.leave();
}

#[test]
fn a_session_in_use_names_its_holder_and_another_one_goes_its_own_way() {
    let replies = ["Hello.", "Hello you.", "Still here."].map(Reply::text);
    let (_server, home) = world(replies);
    let first = Terminal::ready(&home, &[]);
    first.enter("hi");
    first.rests("Hello.");
    let held = session(&home);
    let in_use = format!("is in use by process {}", first.pid());
    let refused = Terminal::usual(&home, &["--resume", &held]);
    refused.wait(&in_use);
    assert_eq!(refused.ended().code(), Some(1));
    let second = Terminal::ready(&home, &[]);
    second.enter("hi too");
    second.rests("Hello you.");
    // The session that is open stays open.
    second.enter(&format!("/resume {held}"));
    second.rests(&in_use);
    second.enter("hi again");
    second.rests("Still here.");
    let listed: Value = serde_json::from_str(&run(&home, &["sessions", "--json"]).stdout).unwrap();
    assert_eq!(listed["total"], 2);
    first.leave();
    second.leave();
}

#[test]
fn a_signal_in_mid_call_says_how_to_go_on() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let (_server, home) = world([bash("echo begun; sleep 600"), Reply::text("On it.")]);
        let terminal = Terminal::ready(&home, &["--skip-permissions"]);
        terminal.enter("go");
        terminal.until("the command", |screen| {
            screen.contains("begun") && screen.contains("running")
        });
        let pid = Pid::from_raw(terminal.pid().try_into().unwrap());
        kill(pid, signal).unwrap();
        let go_on = format!("go on with: castellan --resume {}", session(&home));
        terminal.wait(&go_on);
        assert_eq!(terminal.ended().code(), Some(code));
        let terminal = Terminal::ready(&home, &["--resume", &session(&home)]);
        terminal.rests("broken off; /continue goes on");
        terminal.enter("/continue");
        terminal.rests("On it.");
        terminal.leave();
    }
}

#[test]
fn commands_tell_what_there_is() {
    let (server, home) = world([Reply::text("Hello."), Reply::text("Slash.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("/halp");
    terminal.rests("did you mean /help?");
    terminal.enter("/help");
    let screen = terminal.rests("all of a long preview");
    for part in ["what can be typed here", "/attach FILE", "Ctrl-C stops"] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    terminal.enter("/model");
    terminal.rests("configured:");
    terminal.enter("/tools write");
    terminal.rests("write_file");
    terminal.enter("/tools read_file");
    terminal.rests("\"limit\"");
    terminal.enter("/mcp");
    terminal.rests("no external MCP server");
    terminal.enter("/resume");
    terminal.rests("no session is stored yet");
    terminal.enter("/compact");
    terminal.rests("no session is open, so there is nothing to summarise");
    home.write("notes.txt", "the notes\n");
    terminal.enter("/attach notes.txt");
    terminal.rests("goes with the next message");
    terminal.enter("read this");
    terminal.rests("Hello.");
    let place = home.workspace().join("notes.txt");
    assert_eq!(
        said(&server),
        [format!(
            "read this\n\n{}:\n```\nthe notes\n```",
            place.display()
        )]
    );
    terminal.enter("/cost");
    let screen = terminal.rests("no price known");
    assert!(
        screen.contains("1 answer ") && screen.contains("10 tokens read"),
        "{screen}"
    );
    assert!(screen.contains("[models.NAME.price]"), "{screen}");
    terminal.enter("/grants");
    terminal.rests("no permissions were given for good");
    terminal.enter("/shells");
    terminal.rests("no command runs in the background");
    terminal.enter("/compact what was attached");
    terminal.rests("nothing to make shorter");
    terminal.enter("/trace");
    terminal.rests("state_change");
    terminal.enter("//usr is a folder");
    terminal.rests("Slash.");
    assert_eq!(said(&server)[1], "/usr is a folder");
    terminal.enter("/new");
    terminal.rests("a new session begins with the next message");
    terminal.enter("/resume");
    terminal.rests("/resume ID goes on with one");
    terminal.leave();
}

#[test]
fn a_permission_for_good_is_chosen_used_listed_and_taken_back() {
    let (_server, home) = world([
        bash("touch a"),
        bash("touch b"),
        Reply::text("Done."),
        bash("touch c"),
        Reply::text("Denied."),
    ]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    let screen = terminal.wait("y/n/a ›");
    assert!(
        screen.contains("a always:") && screen.contains("in this session"),
        "{screen}"
    );
    terminal.enter("a elsewhere");
    terminal.wait("neither a scope");
    terminal.enter("a project bash:touch");
    let screen = terminal.rests("Done.");
    assert!(
        screen.contains("from now on `bash:touch` in this project"),
        "{screen}"
    );
    assert!(home.read("a").is_some() && home.read("b").is_some());
    terminal.enter("/grants");
    let screen = terminal.rests("/grants revoke ID takes one back");
    let id = screen
        .split_whitespace()
        .find(|word| word.starts_with("grant_"))
        .unwrap()
        .to_owned();
    terminal.enter(&format!("/grants revoke {id}"));
    terminal.rests(&format!("revoked {id}"));
    terminal.enter("again");
    terminal.wait("y/n/a ›");
    terminal.enter("n");
    terminal.rests("Denied.");
    assert_eq!(home.read("c"), None);
    terminal.leave();
}

#[test]
fn another_model_is_asked_from_now_on() {
    let (server, home) = world([Reply::text("One."), Reply::text("Two.")]);
    let config = format!(
        "model = \"a\"\n[models.a]\nbase_url = \"{0}\"\nmodel = \"alpha\"\n[models.b]\nbase_url = \"{0}\"\nmodel = \"beta\"\n",
        server.base_url()
    );
    home.write_config(&config);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("hi");
    terminal.rests("One.");
    terminal.enter("/model c");
    terminal.rests("there is no [models.c]");
    terminal.enter("/model b");
    terminal.rests("from now on beta");
    terminal.enter("hi again");
    terminal.rests("Two.");
    let models: Vec<Value> = server
        .requests()
        .iter()
        .map(|request| request.body["model"].clone())
        .collect();
    assert_eq!(models, ["alpha", "beta"]);
    assert_eq!(said(&server), ["hi", "hi again"]);
    terminal.leave();
}

#[test]
fn lines_are_kept_without_those_that_begin_with_a_blank() {
    let (server, home) = world([Reply::text("A."), Reply::text("B."), Reply::text("C.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("remember me");
    terminal.rests("A.");
    terminal.enter(" forget me");
    terminal.rests("B.");
    terminal.leave();
    let file = home.castellan_home().join("history.txt");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "remember me\n");
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let terminal = Terminal::ready(&home, &[]);
    terminal.press("\u{1b}[A");
    terminal.wait("› remember me");
    terminal.enter("");
    terminal.rests("C.");
    assert_eq!(said(&server), ["remember me"]);
    terminal.leave();
}

#[test]
fn an_answer_that_broke_off_is_said_to_be_void() {
    let broken = Reply::sse_unfinished([
        json!({"choices": [{"index": 0, "delta": {"content": "half an ans"}}]}),
    ])
    .then_cut();
    let (_server, home) = world([broken, Reply::text("Whole.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    let screen = terminal.rests("Whole.");
    assert!(
        screen.contains("half an ans") && screen.contains("is void"),
        "{screen}"
    );
    terminal.leave();
}

#[test]
fn a_failed_turn_says_why_and_goes_on() {
    let (_server, home) = world([Reply::error(400, "bad things"), Reply::text("Better.")]);
    let terminal = Terminal::ready(&home, &[]);
    terminal.enter("go");
    let screen = terminal.rests("/continue tries again");
    assert!(screen.contains("bad things"), "{screen}");
    terminal.enter("/continue");
    terminal.rests("Better.");
    terminal.enter("/continue");
    terminal.rests("there is nothing to go on with");
    terminal.leave();
}

#[test]
fn a_turn_that_reaches_its_limit_says_which_and_goes_on() {
    for (limit, message, hint) in [
        (
            ["--max-turns", "1"],
            "! the model was asked 1 times",
            "session.max_turns",
        ),
        (
            ["--max-turn-tokens", "12"],
            "! the turn has used 15 of 12 tokens",
            "session.max_turn_tokens",
        ),
    ] {
        let (_server, home) = world([bash("echo hello"), Reply::text("Done.")]);
        let terminal = Terminal::ready(&home, &[&limit[..], &["--skip-permissions"]].concat());
        terminal.enter("go");
        let screen = terminal.rests("to go on: /continue");
        assert!(
            screen.contains(message) && screen.contains(hint),
            "{screen}"
        );
        terminal.enter("/continue");
        terminal.rests("Done.");
        terminal.leave();
    }
}

#[test]
fn a_folder_for_a_session_that_has_one_is_refused_before_anything_is_shown() {
    let (_server, home) = world([Reply::text("Hello.")]);
    assert_eq!(run(&home, &["exec", "hi"]).code, 0);
    let args = ["--resume", &session(&home), "--cwd", "."];
    let exec = run(&home, &[&["exec"], &args[..], &["go"]].concat());
    let said = "--cwd can't change where a stored session works";
    assert_eq!(
        (exec.code, exec.stderr.contains(said)),
        (2, true),
        "{exec:?}"
    );
    let terminal = Terminal::usual(&home, &args);
    let screen = terminal.wait(said);
    assert!(!screen.contains("/help tells"), "{screen}");
    assert_eq!(terminal.ended().code(), Some(2));
}

#[test]
fn no_model_keeps_nobody_from_the_prompt() {
    let home = Home::new();
    home.write_config("[models.a]\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.b]\nbase_url = \"http://127.0.0.1:9/v1\"\n");
    let terminal = Terminal::ready(&home, &[]);
    terminal.wait("no model yet");
    terminal.enter("hello");
    terminal.rests("several models are configured");
    terminal.leave();
}

#[test]
fn completions_know_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&home, &["completions", shell]);
        assert_eq!(script.code, 0);
        assert!(
            script.stdout.contains("skip-permissions") && script.stdout.contains("sessions"),
            "{shell}"
        );
    }
    // Not even a home folder is needed.
    let mut bare = home.command(PROGRAM);
    bare.args(["completions", "bash"]).env_clear();
    assert!(bare.status().unwrap().success());
    assert_eq!(run(&home, &["completions", "tcsh"]).code, 2);
}
