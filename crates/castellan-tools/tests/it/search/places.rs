//! Where a search goes, and where it doesn't.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use castellan_testkit::Home;
use castellan_tools::file::Closed;
use castellan_tools::search::Search;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::search;
use crate::drive::{call, call_with, text, unprivileged, view};

/// The files with hits.
fn hits(said: &str) -> String {
    let hits = said.lines().filter_map(|line| line.split_once(":1: "));
    hits.map(|(path, _)| path).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn ignored_and_hidden_files_are_skipped_and_counted() {
    let home = Home::new();
    home.write(".gitignore", "*.log\n/build\n!keep.log\n");
    home.write("sub/.ignore", "*.gen\n");
    for path in [
        "a.txt",
        "a.log",
        "keep.log",
        "build/b.txt",
        "sub/build/c.txt",
        "sub/d.gen",
        ".hidden/e",
    ] {
        home.write(path, "needle\n");
    }
    let said = search(&home, json!({"query": "needle"})).await;
    assert_eq!(hits(&said), "a.txt keep.log sub/build/c.txt");
    // With the two files of rules, which are hidden too.
    assert!(
        said.contains("4 files and 2 folders skipped as ignored or hidden"),
        "{said}"
    );
    let said = search(&home, json!({"query": "needle", "include_ignored": true})).await;
    assert!(
        said.contains("[7 matches in 7 of 9 files") && !said.contains("skipped"),
        "{said}"
    );
    // What is named is searched.
    for path in [
        "a.log",
        "build",
        "build/b.txt",
        ".hidden",
        ".hidden/e",
        "sub/d.gen",
    ] {
        let said = search(&home, json!({"query": "needle", "path": path})).await;
        assert!(said.contains("[1 match in 1 of 1 file"), "{path}: {said}");
    }
}

#[tokio::test]
async fn the_rules_of_a_repository_hold_below_it_and_end_at_its_root() {
    let home = Home::new();
    home.write(".gitignore", "*.out\n");
    home.write("repo/.git/info/exclude", "*.mine\n");
    home.write("repo/.gitignore", "*.tmp\n/lib/gen/\n");
    for path in ["x.out", "x.tmp", "x.mine", "x", "gen/x"] {
        home.write(format!("repo/lib/{path}"), "needle\n");
    }
    for path in ["repo", "repo/lib"] {
        let said = search(&home, json!({"query": "needle", "path": path})).await;
        assert_eq!(hits(&said), "repo/lib/x repo/lib/x.out", "{said}");
    }
    // The rule that ignores the folder itself is set aside with the others above it.
    let said = search(&home, json!({"query": "needle", "path": "repo/lib/gen"})).await;
    assert_eq!(hits(&said), "repo/lib/gen/x");
}

/// Case G04.
#[tokio::test]
async fn dotfiles_that_are_asked_for_are_found_and_git_is_left_out_unless_named() {
    let home = Home::new();
    for path in [
        ".github/workflows/ci.yml",
        ".github/.secret.yml",
        ".env.example",
        ".git/x",
        ".git/y.yml",
        "sub/.git/x",
        ".other/z.yml",
    ] {
        home.write(path, "needle\n");
    }
    for (arguments, expected) in [
        (
            json!({"glob": ".github/**/*.yml"}),
            ".github/workflows/ci.yml",
        ),
        (json!({"glob": ".env*"}), ".env.example"),
        (json!({"glob": ".git*/**"}), ".github/workflows/ci.yml"),
        (json!({}), ""),
        (
            json!({"include_ignored": true}),
            ".env.example .github/.secret.yml .github/workflows/ci.yml .other/z.yml",
        ),
        (json!({"path": ".git"}), ".git/x .git/y.yml"),
        (json!({"path": ".git/x"}), ".git/x"),
        (json!({"path": ".github"}), ".github/workflows/ci.yml"),
    ] {
        let mut arguments = arguments;
        arguments["query"] = Value::from("needle");
        let said = search(&home, arguments.clone()).await;
        assert_eq!(hits(&said), expected, "{arguments}: {said}");
    }
}

/// Case G05.
#[tokio::test]
async fn links_are_not_followed_so_that_there_are_no_loops_and_nothing_outside() {
    let home = Home::new();
    let folder = home.workspace().join("g");
    std::fs::create_dir_all(folder.join("a/b")).unwrap();
    std::fs::write(folder.join("a/f"), "needle\n").unwrap();
    symlink("..", folder.join("a/b/up")).unwrap();
    symlink(".", folder.join("self")).unwrap();
    symlink("/", folder.join("root")).unwrap();
    symlink("a/f", folder.join("file")).unwrap();
    symlink("g", home.workspace().join("link")).unwrap();
    let begun = Instant::now();
    let said = search(&home, json!({"query": "needle", "path": "g"})).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(hits(&said), "g/a/f");
    assert!(
        said.contains("4 links or special files not followed"),
        "{said}"
    );
    // A link that is named is.
    for (path, hit) in [
        ("link", "link/a/f"),
        ("g/file", "g/file"),
        ("g/self/a", "g/self/a/f"),
    ] {
        let said = search(&home, json!({"query": "needle", "path": path})).await;
        assert_eq!(hits(&said), hit, "{said}");
    }
}

/// Case R01.
#[tokio::test]
async fn what_is_not_a_regular_file_is_passed_by_and_refused_where_named() {
    let home = Home::new();
    let folder = home.workspace();
    nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&folder.join(".gitignore"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    symlink("/dev/zero", folder.join("zero")).unwrap();
    home.write("a.txt", "needle\n");
    let begun = Instant::now();
    let said = search(&home, json!({"query": "needle"})).await;
    assert_eq!(hits(&said), "a.txt");
    assert!(
        said.contains("4 links or special files not followed"),
        "{said}"
    );
    for (path, part) in [
        ("pipe", "a named pipe (FIFO)"),
        ("socket", "a socket"),
        ("zero", "a character device"),
        ("absent", "does not exist"),
        ("a.txt/x", "is a file, not a folder"),
    ] {
        let said = search(&home, json!({"query": "needle", "path": path})).await;
        assert!(
            said.starts_with("Error: ") && said.contains(part),
            "{path}: {said}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// Case G07.
#[test]
fn unreadable_paths_are_counted_and_all_unreadable_is_an_error() {
    let home = Home::new();
    let folder = home.workspace();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    home.write("some/a.txt", "needle\n");
    home.write("some/shut/b.txt", "needle\n");
    home.write("file/c.txt", "needle\n");
    home.write("none/d.txt", "needle\n");
    mode(home.root(), 0o755);
    for path in ["some/shut", "file/c.txt", "none"] {
        mode(&folder.join(path), 0o000);
    }
    let runtime = unprivileged();
    let ask = |arguments: Value| {
        let view = view(&folder);
        let asked =
            async move { text(call(Search::new(Closed::default()), arguments, &view).await) };
        runtime.block_on(async { runtime.spawn(asked).await.unwrap() })
    };
    let said = ask(json!({"query": "needle", "path": "some"}));
    assert_eq!(hits(&said), "some/a.txt");
    assert!(
        said.contains("1 path not readable: some/shut (permission denied)"),
        "{said}"
    );
    for path in ["none", "file", "file/c.txt"] {
        let said = ask(json!({"query": "needle", "path": path}));
        assert!(
            said.starts_with("Error: ") && said.contains("permission denied"),
            "{path}: {said}"
        );
    }
    let said = ask(json!({"query": "needle(", "path": "none"}));
    assert!(said.contains("not a valid regex"), "{said}");
    for path in ["some/shut", "file/c.txt", "none"] {
        mode(&folder.join(path), 0o755);
    }
}

#[tokio::test]
async fn our_own_state_is_neither_searched_nor_entered() {
    let home = Home::new();
    let state = home.castellan_home();
    std::fs::create_dir(state.join("spill")).unwrap();
    std::fs::write(state.join("castellan.db"), "needle\n").unwrap();
    std::fs::write(state.join("spill/call.txt"), "needle\n").unwrap();
    home.write("a.txt", "needle\n");
    let closed = || Closed::new(vec![state.clone()], vec![state.join("spill")]);
    let view = view(&home.workspace());
    let ask = async |path: &str| {
        let arguments = json!({"query": "needle", "path": path, "include_ignored": true});
        text(call(Search::new(closed()), arguments, &view).await)
    };
    for path in ["../castellan", "../castellan/castellan.db"] {
        let said = ask(path).await;
        assert!(
            said.contains("castellan's own state, which"),
            "{path}: {said}"
        );
    }
    let said = ask("..").await;
    assert_eq!(hits(&said), "../workspace/a.txt");
    assert!(said.contains("castellan's own state is in there"), "{said}");
    assert_eq!(
        hits(&ask("../castellan/spill").await),
        "../castellan/spill/call.txt"
    );
}

#[tokio::test]
async fn a_working_folder_that_is_gone_is_said() {
    let home = Home::new();
    let view = view(&home.workspace().join("gone"));
    let arguments = json!({"query": "x"});
    let said = text(call(Search::new(Closed::default()), arguments, &view).await);
    assert!(said.contains("no longer exists"), "{said}");
}

#[tokio::test]
async fn a_file_that_became_something_else_is_not_told_no_matches() {
    let home = Home::new();
    let file = home.workspace().join("a.txt");
    home.write("a.txt", "needle\n");
    let view = view(&home.workspace());
    let arguments = json!({"query": "needle", "path": "a.txt"});
    let tool = Search::new(Closed::default());
    let said = call_with(tool, arguments, &view, |_| {
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    });
    let said = text(said.await);
    assert!(said.contains("a.txt is no longer a regular file"), "{said}");
}
