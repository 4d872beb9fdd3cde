//! `write_file`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use castellan_core::EffectStatus;
use castellan_core::tool::{Preview, SessionEffect};
use castellan_testkit::Home;
use castellan_tools::file::Closed;
use castellan_tools::write_file::WriteFile;
use serde_json::{Value, json};

use crate::drive::{after, call, call_with, reader, text, view};

async fn write(home: &Home, arguments: Value) -> String {
    text(
        call(
            WriteFile::new(Closed::default()),
            arguments,
            &view(&home.workspace()),
        )
        .await,
    )
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// What is in a folder, to see that no temporary file is left.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_is_created_with_its_folders_replaced_and_appended_to() {
    let home = Home::new();
    assert!(
        write(&home, json!({"path": "a/b/c.txt", "content": "1\n"}))
            .await
            .contains("created")
    );
    let more = json!({"path": "a/b/c.txt", "content": "2", "mode": "append"});
    assert!(write(&home, more).await.contains("appended"));
    assert_eq!(home.read("a/b/c.txt").as_deref(), Some("1\n2"));
    write(&home, json!({"path": "a/b/c.txt", "content": ""})).await;
    assert_eq!(home.read("a/b/c.txt").as_deref(), Some(""));
    assert_eq!(names(&home.workspace().join("a/b")), ["c.txt"]);
}

#[tokio::test]
async fn missing_content_is_an_error_and_not_an_empty_file() {
    let home = Home::new();
    let said = write(&home, json!({"path": "a.txt"})).await;
    assert!(said.contains("`content` (string) is missing"), "{said}");
    assert_eq!(home.read("a.txt"), None);
}

#[tokio::test]
async fn links_stay_links_and_their_target_changes() {
    let home = Home::new();
    let folder = home.workspace();
    home.write("real.md", "world\n");
    symlink("real.md", folder.join("l1")).unwrap();
    symlink("l1", folder.join("l2")).unwrap();
    symlink("not-yet", folder.join("dangling")).unwrap();
    symlink("loop", folder.join("loop")).unwrap();
    write(&home, json!({"path": "l2", "content": "there\n"})).await;
    assert_eq!(home.read("real.md").as_deref(), Some("there\n"));
    assert!(folder.join("l2").is_symlink() && folder.join("l1").is_symlink());
    write(&home, json!({"path": "dangling", "content": "new\n"})).await;
    assert_eq!(home.read("not-yet").as_deref(), Some("new\n"));
    assert!(folder.join("dangling").is_symlink());
    let said = write(&home, json!({"path": "loop", "content": "x"})).await;
    assert!(said.contains("loop of links"), "{said}");
}

#[tokio::test]
async fn the_mode_of_a_file_stays_and_a_read_only_one_is_refused() {
    let home = Home::new();
    for bits in [0o755, 0o600, 0o4711] {
        home.write("file", "old");
        let path = home.workspace().join("file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
        write(&home, json!({"path": "file", "content": "new"})).await;
        assert_eq!(
            (mode(&path), home.read("file").as_deref()),
            (bits, Some("new"))
        );
    }
    let path = home.workspace().join("file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    for mode in ["overwrite", "append"] {
        let said = write(&home, json!({"path": "file", "content": "x", "mode": mode})).await;
        assert!(said.contains("read-only (mode 0444)"), "{said}");
    }
    assert_eq!(home.read("file").as_deref(), Some("new"));
    assert_eq!(names(&home.workspace()), ["file"]);
}

#[tokio::test]
async fn a_new_file_has_the_mode_any_program_would_give_it() {
    let home = Home::new();
    write(&home, json!({"path": "new", "content": "x"})).await;
    std::fs::write(home.workspace().join("usual"), "x").unwrap();
    assert_eq!(
        mode(&home.workspace().join("new")),
        mode(&home.workspace().join("usual"))
    );
}

/// Case E09.
#[tokio::test]
async fn every_name_of_a_hard_linked_file_has_the_new_content() {
    let home = Home::new();
    home.write("one", "old");
    let (one, two) = (home.workspace().join("one"), home.workspace().join("two"));
    std::fs::hard_link(&one, &two).unwrap();
    let inode = std::fs::metadata(&one).unwrap().ino();
    write(&home, json!({"path": "one", "content": "new"})).await;
    assert_eq!(home.read("two").as_deref(), Some("new"));
    assert_eq!(std::fs::metadata(&two).unwrap().ino(), inode);
}

#[tokio::test]
async fn a_byte_order_mark_survives_a_whole_rewrite() {
    let home = Home::new();
    home.write("b.txt", b"\xef\xbb\xbfalpha\n");
    write(&home, json!({"path": "b.txt", "content": "beta\n"})).await;
    let bytes = std::fs::read(home.workspace().join("b.txt")).unwrap();
    assert_eq!(bytes, b"\xef\xbb\xbfbeta\n");
    write(
        &home,
        json!({"path": "b.txt", "content": "\u{feff}gamma\n"}),
    )
    .await;
    let bytes = std::fs::read(home.workspace().join("b.txt")).unwrap();
    assert_eq!(bytes, b"\xef\xbb\xbfgamma\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let home = Home::new();
    home.write("a.txt", "first\n");
    let before = view(&home.workspace());
    let read = call(reader(Closed::default()), json!({"path": "a.txt"}), &before).await;
    let view = after(&before, &read);
    home.write("a.txt", "someone else's work\n");
    let arguments = json!({"path": "a.txt", "content": "mine\n"});
    let said = text(call(WriteFile::new(Closed::default()), arguments.clone(), &view).await);
    assert!(
        said.contains("changed since this session last read it"),
        "{said}"
    );
    assert_eq!(home.read("a.txt").as_deref(), Some("someone else's work\n"));
    let read = call(reader(Closed::default()), json!({"path": "a.txt"}), &view).await;
    let view = after(&view, &read);
    let report = call(WriteFile::new(Closed::default()), arguments, &view).await;
    assert_eq!(report.outcome.effect(), EffectStatus::Committed);
    // Its own write counts as known.
    let view = after(&view, &report);
    let again = call(
        WriteFile::new(Closed::default()),
        json!({"path": "a.txt", "content": "more\n"}),
        &view,
    )
    .await;
    assert!(!again.outcome.is_error());
}

#[tokio::test]
async fn what_happens_between_the_look_and_the_write_is_noticed() {
    let home = Home::new();
    home.write("a.txt", "first\n");
    let view = view(&home.workspace());
    let arguments = |path: &str| json!({"path": path, "content": "mine\n"});
    let changed = call_with(
        WriteFile::new(Closed::default()),
        arguments("a.txt"),
        &view,
        |_| {
            home.write("a.txt", "changed\n");
        },
    );
    let said = text(changed.await);
    assert!(said.contains("changed while the call waited"), "{said}");
    assert_eq!(home.read("a.txt").as_deref(), Some("changed\n"));
    let appeared = call_with(
        WriteFile::new(Closed::default()),
        arguments("new.txt"),
        &view,
        |_| {
            home.write("new.txt", "theirs\n");
        },
    );
    assert!(text(appeared.await).contains("appeared while the call waited"));
    assert_eq!(home.read("new.txt").as_deref(), Some("theirs\n"));
}

#[tokio::test]
async fn the_preview_says_what_would_be_replaced() {
    let home = Home::new();
    home.write("a.txt", "unread\n");
    let view = view(&home.workspace());
    for (path, mode, label, noted) in [
        ("new", "overwrite", "write_file", false),
        ("a.txt", "overwrite", "overwrite_file", true),
        ("a.txt", "append", "append_file", false),
    ] {
        let arguments = json!({"path": path, "content": "x", "mode": mode});
        call_with(
            WriteFile::new(Closed::default()),
            arguments,
            &view,
            |inspection| {
                assert_eq!(inspection.label, label);
                let note = match &inspection.preview {
                    Preview::File { note, bytes: 1, .. } if label != "overwrite_file" => note,
                    Preview::Diff { note, unified, .. } if label == "overwrite_file" => {
                        assert!(
                            unified.starts_with("@@ -1 +1 @@\n-unread\n+x\n"),
                            "{unified}"
                        );
                        note
                    }
                    other => unreachable!("{other:?}"),
                };
                assert_eq!(!note.is_empty(), noted, "{path} {mode}");
                home.write("a.txt", "unread\n");
            },
        )
        .await;
        home.write("a.txt", "unread\n");
    }
}

#[tokio::test]
async fn the_preview_of_a_new_content_is_a_diff_and_where_there_is_none_says_the_sizes() {
    let lines: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    let changed = lines.replace("line 50\n", "line fifty\n");
    let crlf = lines.replace('\n', "\r\n");
    for (before, content, parts) in [
        (
            lines.as_bytes(),
            changed.as_str(),
            [
                "@@ -47,7 +47,7 @@",
                "-line 50\n+line fifty\n",
                "added: 1, removed: 1",
            ],
        ),
        (
            crlf.as_bytes(),
            changed.as_str(),
            ["-line 50\n+line fifty\n", "@@ -47", "added: 1, removed: 1"],
        ),
        (
            lines.as_bytes(),
            crlf.as_str(),
            ["line ends: LF before, CRLF after", "added: 0", "removed: 0"],
        ),
        (
            lines.as_bytes(),
            lines.as_str(),
            ["just this content already", "added: 0", "removed: 0"],
        ),
        (
            &b"\x7fELF\x00\x01"[..],
            "text",
            ["6 bytes there, 4 bytes instead", "no diff", "binary"],
        ),
        (
            &b"text"[..],
            "a\0b",
            ["4 bytes there, 3 bytes instead", "no diff", "binary"],
        ),
    ] {
        let home = Home::new();
        let path = home.workspace().join("a.txt");
        std::fs::write(&path, before).unwrap();
        let arguments = json!({"path": "a.txt", "content": content});
        let tool = WriteFile::new(Closed::default());
        let mut seen = String::new();
        call_with(tool, arguments, &view(&home.workspace()), |inspection| {
            seen = format!("{:?}", inspection.preview).replace("\\n", "\n");
        })
        .await;
        for part in parts {
            assert!(seen.contains(part), "{part}: {seen}");
        }
    }
}

#[tokio::test]
async fn nothing_but_a_regular_file_is_written() {
    let home = Home::new();
    let folder = home.workspace();
    nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("/dev/null", folder.join("null")).unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    for (path, part) in [
        ("pipe", "FIFO"),
        ("null", "character device"),
        ("folder", "is a folder"),
        ("pipe/x", "is a file, not a folder"),
        (
            "/proc/self/comm",
            "a file of the kernel's (proc), not a regular file",
        ),
    ] {
        let said = write(&home, json!({"path": path, "content": "x"})).await;
        assert!(
            said.starts_with("Error") && said.contains(part),
            "{path}: {said}"
        );
    }
    assert_eq!(names(&folder), ["folder", "null", "pipe"]);
}

#[tokio::test]
async fn a_full_disk_leaves_the_old_content_and_no_temporary_file() {
    let home = Home::new();
    let disk = home.root().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let options = Some("size=64k");
    let mounted = nix::mount::mount(
        Some("tmpfs"),
        &disk,
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        options,
    );
    if let Err(error) = mounted {
        // Only root may mount; the behaviour is the same, and CI runs as root.
        eprintln!("not tried: a small file system can't be mounted here ({error})");
        return;
    }
    std::fs::write(disk.join("file"), "old").unwrap();
    let arguments = json!({"path": disk.join("file"), "content": "x".repeat(1_000_000)});
    let said = write(&home, arguments).await;
    let left = (
        std::fs::read_to_string(disk.join("file")).unwrap(),
        names(&disk),
    );
    nix::mount::umount(&disk).unwrap();
    assert!(said.contains("No space left"), "{said}");
    assert_eq!(left, ("old".to_owned(), vec!["file".to_owned()]));
}

#[tokio::test]
async fn our_own_state_is_closed_but_for_spilled_outputs() {
    let home = Home::new();
    let state = home.castellan_home();
    std::fs::create_dir(state.join("spill")).unwrap();
    std::fs::write(state.join("castellan.db"), "the record").unwrap();
    std::fs::write(state.join("spill/call.txt"), "the whole output\n").unwrap();
    symlink(&state, home.workspace().join("link")).unwrap();
    let closed = || Closed::new(vec![state.clone()], vec![state.join("spill")]);
    let view = view(&home.workspace());
    for path in [
        "link/castellan.db",
        "link/new",
        "link/spill/../castellan.db",
    ] {
        let arguments = json!({"path": path, "content": "x"});
        let said = text(call(WriteFile::new(closed()), arguments, &view).await);
        assert!(said.contains("castellan's own state"), "{path}: {said}");
        let said = text(call(reader(closed()), json!({"path": path}), &view).await);
        assert!(said.contains("castellan's own state"), "{path}: {said}");
    }
    assert_eq!(
        std::fs::read_to_string(state.join("castellan.db")).unwrap(),
        "the record"
    );
    let spilled = json!({"path": "link/spill/call.txt"});
    let said = text(call(reader(closed()), spilled, &view).await);
    assert!(said.contains("the whole output"), "{said}");
}

#[tokio::test]
async fn a_folder_that_is_gone_is_not_made_again_by_a_relative_path() {
    let home = Home::new();
    let view = view(&home.workspace().join("gone"));
    let arguments = json!({"path": "a.txt", "content": "x"});
    let said = text(call(WriteFile::new(Closed::default()), arguments, &view).await);
    assert!(said.contains("no longer exists"), "{said}");
    assert!(!home.workspace().join("gone").exists());
}

/// Otherwise a whole new content could be put over what nobody has read.
#[tokio::test]
async fn what_is_added_to_a_file_does_not_count_as_having_read_it() {
    let home = Home::new();
    let at = view(&home.workspace());
    let append = json!({"path": "f", "content": "more\n", "mode": "append"});
    let tool = || WriteFile::new(Closed::default());
    home.write("f", "unread\n");
    let added = call(tool(), append.clone(), &at).await;
    assert!(added.session.is_empty() && !added.outcome.is_error());
    // What was read before is still known afterwards.
    let made = call(tool(), json!({"path": "f", "content": "own\n"}), &at).await;
    let known = after(&at, &made);
    let added = call(tool(), append.clone(), &known).await;
    let said = text(
        call(
            tool(),
            json!({"path": "f", "content": "whole\n"}),
            &after(&known, &added),
        )
        .await,
    );
    assert!(said.starts_with("replaced"), "{said}");
    // But not where somebody else has changed it meanwhile.
    home.write("f", "theirs\n");
    let added = call(tool(), append, &known).await;
    assert!(added.session.is_empty());
    let arguments = json!({"path": "f", "content": "whole\n"});
    let said = text(call(tool(), arguments, &after(&known, &added)).await);
    assert!(
        said.contains("changed since this session last read it"),
        "{said}"
    );
}

/// What was added counts as known at every size: by content, by identity, and across the limit.
#[tokio::test]
async fn a_file_that_is_known_stays_known_while_it_is_added_to() {
    let home = Home::new();
    let mut at = view(&home.workspace());
    let tool = || WriteFile::new(Closed::default());
    let half = "a line\n".repeat(700_000);
    for round in 0..3 {
        let arguments = json!({"path": "f", "content": half, "mode": "append"});
        let report = call(tool(), arguments, &at).await;
        let [SessionEffect::FileSeen { path, mark }] = report.session.as_slice() else {
            unreachable!("{round}: {:?}", report.session)
        };
        let mut opened = castellan_tools::file::open(path).unwrap();
        let now = castellan_tools::file::mark(&mut opened.file, &opened.metadata).unwrap();
        assert_eq!(*mark, now, "{round}");
        at = after(&at, &report);
    }
    assert_eq!(home.read("f").unwrap(), half.repeat(3));
}
