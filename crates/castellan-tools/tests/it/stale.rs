//! What a refusal says of a file that is not what the session knows.

use castellan_core::tool::{Report, SessionView};
use castellan_testkit::Home;
use castellan_tools::diff_file::DiffFile;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::{Closed, Recent};
use castellan_tools::write_file::WriteFile;
use serde_json::json;

use crate::drive::{after, call, call_with, reader, text, view};

const BEFORE: &str = "one\ntwo\nthree\nfour\n";
const THEIRS: &str = "one\ntwo\nTHREE\nfour\n";

fn writer(recent: &Recent) -> WriteFile {
    WriteFile::new(Closed::default()).remembering(recent)
}

fn editor(recent: &Recent) -> EditFile {
    EditFile::new(Closed::default()).remembering(recent)
}

/// Each way in which a session comes to know a file; the view afterwards.
async fn ways(home: &Home, recent: &Recent) -> Vec<SessionView> {
    let plain = view(&home.workspace());
    let mut views = Vec::new();
    let mut knows = |report: &Report| views.push(after(&plain, report));
    home.write("a", BEFORE);
    let read = reader(Closed::default()).remembering(recent);
    knows(&call(read, json!({"path": "a"}), &plain).await);
    let compare = DiffFile::new(Closed::default()).remembering(recent);
    knows(&call(compare, json!({"path_a": "a", "content_b": ""}), &plain).await);
    let content = json!({"path": "a", "content": BEFORE});
    knows(&call(writer(recent), content, &plain).await);
    home.write("a", "one\n2\nthree\nfour\n");
    let read = call(reader(Closed::default()), json!({"path": "a"}), &plain).await;
    let edit = json!({"path": "a", "old_string": "2", "new_string": "two"});
    knows(&call(editor(recent), edit, &after(&plain, &read)).await);
    views
}

#[tokio::test]
async fn what_has_changed_since_is_shown() {
    let home = Home::new();
    let write = json!({"path": "a", "content": "mine\n"});
    let edit = json!({"path": "a", "old_string": "one", "new_string": "1"});
    for way in 0..4 {
        let recent = Recent::default();
        let known = ways(&home, &recent).await.remove(way);
        home.write("a", THEIRS);
        let said = [
            text(call(writer(&recent), write.clone(), &known).await),
            text(call(editor(&recent), edit.clone(), &known).await),
        ];
        home.write("a", BEFORE);
        let between = |_: &_| home.write("a", THEIRS);
        let waited = [
            text(call_with(writer(&recent), write.clone(), &known, between).await),
            {
                home.write("a", BEFORE);
                text(call_with(editor(&recent), edit.clone(), &known, between).await)
            },
        ];
        for said in said.iter().chain(&waited) {
            assert!(
                said.contains("changed") && said.contains(" two\n-three\n+THREE\n four\n"),
                "{way}: {said}"
            );
        }
        assert_eq!(home.read("a").as_deref(), Some(THEIRS));
    }
}

#[tokio::test]
async fn where_the_old_content_is_not_at_hand_the_sizes_are_said() {
    let home = Home::new();
    home.write("a", BEFORE);
    let plain = view(&home.workspace());
    let read = call(reader(Closed::default()), json!({"path": "a"}), &plain).await;
    home.write("a", "theirs\n");
    let write = json!({"path": "a", "content": "mine\n"});
    let said = text(call(writer(&Recent::default()), write, &after(&plain, &read)).await);
    assert!(
        said.contains("19 bytes then, 7 bytes now") && !said.contains("@@"),
        "{said}"
    );
}
