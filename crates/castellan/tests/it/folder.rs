//! The working folder follows `cd`, and heals where it is gone.

use castellan_testkit::{Home, ModelServer, Reply};
use serde_json::{Value, json};

use crate::program::{outputs, run, steps, turn, unenclosed};

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

#[test]
fn the_next_call_of_any_tool_starts_where_the_last_one_ended() {
    let home = Home::new();
    home.write("sub/deep/file.txt", "here\n");
    let run = steps(
        &home,
        &[
            bash("cd sub && cd deep"),
            bash("pwd; exit 3"),
            ("read_file", json!({"path": "file.txt"})),
            ("search", json!({"query": "here"})),
            ("write_file", json!({"path": "new.txt", "content": "x"})),
            bash("pushd .. >/dev/null; (cd /); false"),
            bash("pwd"),
        ],
    );
    let said = outputs(&run);
    let deep = home.workspace().join("sub/deep");
    assert_eq!(
        said[0],
        format!("[the working folder is now {}]\n", deep.display())
    );
    assert!(
        said[1].starts_with(&format!("{}\n", deep.display())),
        "{}",
        said[1]
    );
    assert!(
        said[2].contains("here") && said[3].contains("here"),
        "{said:?}"
    );
    assert!(deep.join("new.txt").exists());
    assert!(
        said[5].contains("sub]") && said[5].contains("[exit code 1]"),
        "{}",
        said[5]
    );
    assert_eq!(said[6], format!("{}\n", deep.parent().unwrap().display()));
    // What a person is shown says where, as long as that is not the workspace.
    let headers: Vec<String> = run
        .kind("tool_prepared")
        .iter()
        .map(|event| event["header"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(headers[0], "run cd sub && cd deep");
    assert_eq!(headers[1], "run pwd; exit 3 (in sub/deep)");
    assert_eq!(headers[2], "read file.txt (in sub/deep)");
}

#[test]
fn the_folder_outlives_the_process() {
    let home = Home::new();
    home.write("sub/file.txt", "here\n");
    let first = steps(&home, &[bash("cd sub")]);
    let server = ModelServer::scripted([Reply::calls([bash("pwd")]), Reply::text("done")]);
    home.write_config(&unenclosed(&server));
    let args = [
        "exec",
        "--json",
        "--skip-permissions",
        "--resume",
        &first.session(),
        "and?",
    ];
    let second = run(&home, &args);
    let folder = home.workspace().join("sub");
    assert_eq!(outputs(&second), [format!("{}\n", folder.display())]);
}

#[test]
fn of_calls_made_together_the_last_one_decides_whichever_ends_last() {
    let home = Home::new();
    for name in ["a/x", "b/x"] {
        home.write(name, "");
    }
    // The first call ends last: it waits for the second.
    let together = [
        bash("until [ -e done ]; do :; done; cd a"),
        bash("cd b; touch ../done"),
    ];
    let server = ModelServer::scripted([
        Reply::calls(together),
        Reply::calls([bash("pwd")]),
        Reply::text("done"),
    ]);
    home.write_config(&unenclosed(&server));
    let run = run(&home, &["exec", "--json", "--skip-permissions", "go"]);
    let said = outputs(&run);
    let (a, b) = (home.workspace().join("a"), home.workspace().join("b"));
    let moved = |folder: &std::path::Path| {
        let line = format!("[the working folder is now {}]\n", folder.display());
        let found = said.iter().find(|said| said.starts_with(&line));
        found
            .unwrap_or_else(|| panic!("{line} not in {said:?}"))
            .clone()
    };
    let said_so = [moved(&a), moved(&b)].map(|said| said.contains("the last of them"));
    assert!(said_so[0] != said_so[1], "{said:?}");
    assert_eq!(said[2], format!("{}\n", b.display()));
}

/// S10.
#[test]
fn s10_a_vanished_folder_is_said_and_healed() {
    let home = Home::new();
    let workspace = home.workspace();
    let zz = home.temp().join("zz");
    let make = format!("mkdir {0} && cd {0}", zz.display());
    let remove = format!("rmdir {}", zz.display());
    let run = steps(
        &home,
        &[
            bash(&make),
            bash(&remove),
            bash("echo hi"),
            bash("cd / && pwd"),
            bash("pwd"),
        ],
    );
    let said = outputs(&run);
    let healed = format!(
        "is gone; the working folder is now {}]",
        workspace.display()
    );
    assert!(said[1].contains(&healed), "{}", said[1]);
    assert_eq!(said[2], "hi\n");
    assert_eq!(said[3], "/\n[the working folder is now /]\n");
    assert_eq!(said[4], "/\n");
}

/// S10, where something else removes the folder: the command was meant for the folder that is gone,
/// and is not run in another one.
#[test]
fn s10_nothing_is_run_in_another_folder_than_meant() {
    let home = Home::new();
    home.write("precious.txt", "x");
    let zz = home.temp().join("zz");
    std::fs::create_dir(&zz).unwrap();
    let first = steps(&home, &[bash(&format!("cd {}", zz.display()))]);
    std::fs::remove_dir(&zz).unwrap();
    let server = ModelServer::scripted([
        Reply::calls([("read_file", json!({"path": "precious.txt"}))]),
        Reply::calls([bash("rm -rf *")]),
        Reply::calls([bash("echo hi; pwd")]),
        Reply::text("done"),
    ]);
    home.write_config(&unenclosed(&server));
    let args = [
        "exec",
        "--json",
        "--skip-permissions",
        "--resume",
        &first.session(),
        "and?",
    ];
    let second = run(&home, &args);
    let said = outputs(&second);
    let (gone, workspace) = (zz.display(), home.workspace());
    assert!(
        said[0].contains(&format!("{gone} no longer exists")) && said[0].contains("absolute"),
        "{}",
        said[0]
    );
    assert!(
        said[1].contains(&format!(
            "the working folder {gone} is gone, and nothing was run"
        )),
        "{}",
        said[1]
    );
    assert!(
        said[1].contains(&format!(
            "Commands run in {} from now on",
            workspace.display()
        )),
        "{}",
        said[1]
    );
    assert_eq!(said[2], format!("hi\n{}\n", workspace.display()));
    assert!(workspace.join("precious.txt").exists());
}

/// S10, with a Git worktree.
#[test]
fn s10_a_removed_worktree_is_healed_too() {
    let home = Home::new();
    let said = outputs(&steps(
        &home,
        &[
            bash(
                "git init -q . && git -c user.name=n -c user.email=e@e.invalid commit -q \
                 --allow-empty -m x && git worktree add -q tree && cd tree",
            ),
            bash("git worktree remove ../tree"),
            bash("echo hi"),
        ],
    ));
    assert!(said[0].contains("/tree]"), "{}", said[0]);
    assert!(
        said[1].contains("is gone; the working folder is now"),
        "{}",
        said[1]
    );
    assert_eq!(said[2], "hi\n");
}

#[test]
fn a_workspace_that_is_gone_too_leads_home() {
    let home = Home::new();
    let said = outputs(&steps(
        &home,
        &[
            // In a sandbox the workspace is held in place.
            (
                "bash",
                json!({"command": "rmdir \"$PWD\"", "outside_sandbox": true}),
            ),
            bash("pwd"),
        ],
    ));
    let user_home = home.user_home();
    assert!(
        said[0].contains(&format!("now {}]", user_home.display())),
        "{}",
        said[0]
    );
    assert_eq!(said[1], format!("{}\n", user_home.display()));
}

#[test]
fn a_command_that_moves_nowhere_says_nothing_of_folders() {
    let run = turn(&Home::new(), &[bash("cd . && true")]);
    assert_eq!(outputs(&run), ["(no output)"]);
}
