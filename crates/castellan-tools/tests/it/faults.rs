//! What goes wrong around a write: what a path leads to changes, others write too, the disk is
//! full, the process is killed. What counts is what is on the disk afterwards.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

use castellan_core::tool::SessionView;
use castellan_testkit::Home;
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use castellan_tools::write_file::WriteFile;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;
use tokio::task::JoinSet;

use crate::drive::{after, call, call_with, reader, text, view};

async fn read(folder: &Path, path: &str) -> SessionView {
    let view = view(folder);
    let tool = reader(Closed::default());
    let report = call(tool, json!({"path": path}), &view).await;
    after(&view, &report)
}

/// Reads `path` and edits it, with something happening in between.
async fn edit(folder: &Path, path: &str, between: impl FnOnce()) -> String {
    let view = read(folder, path).await;
    let arguments = json!({"path": path, "old_string": "old", "new_string": "new"});
    let tool = EditFile::new(Closed::default());
    text(call_with(tool, arguments, &view, |_| between()).await)
}

/// The same with a whole new content.
async fn write(folder: &Path, path: &str, between: impl FnOnce()) -> String {
    let view = read(folder, path).await;
    let arguments = json!({"path": path, "content": "new\n"});
    let tool = WriteFile::new(Closed::default());
    text(call_with(tool, arguments, &view, |_| between()).await)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Case E08: what was judged is the target of the links as they were then.
#[tokio::test]
async fn a_path_that_leads_elsewhere_by_the_time_it_is_written_is_refused() {
    let home = Home::new();
    let folder = home.workspace();
    let file = folder.join("d/f");
    let to_link = |target: &str| {
        std::fs::remove_file(&file).unwrap();
        symlink(target, &file).unwrap();
    };
    let to_folder = || {
        std::fs::rename(folder.join("d"), folder.join("away")).unwrap();
        symlink("e", folder.join("d")).unwrap();
    };
    for round in 0..4 {
        if folder.join("d").exists() {
            std::fs::remove_dir_all(folder.join("d")).unwrap();
        }
        for path in ["d/f", "d/same", "e/f"] {
            home.write(path, "old\n");
        }
        let said = match round {
            0 => edit(&folder, "d/f", || to_link("same")).await,
            1 => write(&folder, "d/f", || to_link("same")).await,
            2 => write(&folder, "d/f", || to_link("absent")).await,
            _ => edit(&folder, "d/f", to_folder).await,
        };
        assert!(
            said.contains("changed while the call waited: it leads to"),
            "{said}"
        );
        assert!(file.is_symlink() || folder.join("d").is_symlink());
        for path in ["d/same", "e/f"] {
            assert!(home.read(path).is_none_or(|text| text == "old\n"));
        }
        assert!(!folder.join("d/absent").exists());
    }
}

/// Case R01: what took the place of a file is named and can't block the call.
#[tokio::test]
async fn a_file_that_became_something_else_is_refused_by_its_kind() {
    let home = Home::new();
    let folder = home.workspace();
    let file = folder.join("f");
    let to_pipe = || {
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    for append in [false, true] {
        home.write("f", "old\n");
        let said = if append {
            let arguments = json!({"path": "f", "content": "x", "mode": "append"});
            let tool = WriteFile::new(Closed::default());
            let report = call_with(tool, arguments, &view(&folder), |_| to_pipe()).await;
            text(report)
        } else {
            edit(&folder, "f", to_pipe).await
        };
        assert!(said.contains("a named pipe (FIFO)"), "{said}");
        std::fs::remove_file(&file).unwrap();
    }
    home.write("f", "old\n");
    let said = edit(&folder, "f", || std::fs::remove_file(&file).unwrap()).await;
    assert!(said.contains("does not exist"), "{said}");
    assert!(names(&folder).is_empty());
}

/// Case E09: what a file has besides its content, and what its folder would give a new one.
#[tokio::test]
async fn extended_attributes_and_access_lists_stay() {
    let home = Home::new();
    let folder = home.workspace();
    // Version 2, then tag, permissions and id of each entry: the owner rw, the user 1234 rw, the
    // group r, the mask rw, others nothing.
    let list = |user: u32| -> Vec<u8> {
        let entries: [(u16, u16, u32); 5] = [
            (0x01, 6, u32::MAX),
            (0x02, 6, user),
            (0x04, 4, u32::MAX),
            (0x10, 6, u32::MAX),
            (0x20, 0, u32::MAX),
        ];
        let each = entries.iter().flat_map(|(tag, permissions, id)| {
            [tag.to_le_bytes(), permissions.to_le_bytes()]
                .concat()
                .into_iter()
                .chain(id.to_le_bytes())
        });
        2_u32.to_le_bytes().into_iter().chain(each).collect()
    };
    let get = |name: &str| {
        let mut value = vec![0; 1000];
        let length = getxattr(folder.join("f"), name, &mut value[..]).ok()?;
        Some(value[..length].to_vec())
    };
    home.write("f", "old\n");
    let flags = XattrFlags::empty();
    if setxattr(folder.join("f"), "user.note", b"kept", flags).is_err() {
        eprintln!("not tried: this file system has no extended attributes");
        return;
    }
    let access = "system.posix_acl_access";
    setxattr(folder.join("f"), access, &list(1234), flags).unwrap();
    // What is made in the folder gets another list.
    setxattr(&folder, "system.posix_acl_default", &list(4321), flags).unwrap();
    for said in [
        edit(&folder, "f", || ()).await,
        write(&folder, "f", || ()).await,
    ] {
        assert!(!said.starts_with("Error"), "{said}");
        assert_eq!(get("user.note").as_deref(), Some(&b"kept"[..]));
        assert_eq!(get(access), Some(list(1234)));
        home.write("f", "old\n");
    }
    // A file without a list does not get one either.
    std::fs::remove_file(folder.join("f")).unwrap();
    home.write("f", "old\n");
    rustix::fs::removexattr(folder.join("f"), access).unwrap();
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(folder.join("f"), mode).unwrap();
    edit(&folder, "f", || ()).await;
    let now = std::fs::metadata(folder.join("f")).unwrap();
    assert_eq!(
        (get(access), now.permissions().mode() & 0o7777),
        (None, 0o640)
    );
    assert_eq!(home.read("f").as_deref(), Some("new\n"));
}

/// As a container has its `/etc/hosts`: nothing can be renamed onto it.
#[tokio::test]
async fn a_file_that_is_a_mount_is_written_in_place() {
    let home = Home::new();
    let folder = home.workspace();
    home.write("real", "old\n");
    home.write("f", "");
    let flags = nix::mount::MsFlags::MS_BIND;
    let (real, mount) = (folder.join("real"), folder.join("f"));
    let none: Option<&str> = None;
    if let Err(error) = nix::mount::mount(Some(&real), &mount, none, flags, none) {
        eprintln!("not tried: nothing can be mounted here ({error})");
        return;
    }
    let edited = edit(&folder, "f", || ()).await;
    let after_edit = home.read("real");
    let written = write(&folder, "f", || ()).await;
    nix::mount::umount(&mount).unwrap();
    assert!(edited.starts_with("edited") && written.starts_with("replaced"));
    assert_eq!(after_edit.as_deref(), Some("new\n"));
    assert_eq!(names(&folder), ["f", "real"]);
}

/// Case E09: a folder without write permission, for a user whom permissions hold.
#[test]
fn a_writable_file_in_a_folder_that_takes_no_new_one_is_written_in_place() {
    let home = Home::new();
    let folder = home.workspace();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, bits) in [("shut/open", 0o666), ("shut/other", 0o644)] {
        home.write(path, "old\n");
        mode(&folder.join(path), bits);
    }
    mode(home.root(), 0o755);
    mode(&folder.join("shut"), 0o555);
    let inode = std::fs::metadata(folder.join("shut/open")).unwrap().ino();
    let runtime = crate::drive::unprivileged();
    let ask = |path: &'static str| {
        let folder = folder.clone();
        let asked = async move { edit(&folder, path, || ()).await };
        runtime.block_on(async { runtime.spawn(asked).await.unwrap() })
    };
    let said = ask("shut/open");
    assert!(said.starts_with("edited"), "{said}");
    assert_eq!(home.read("shut/open").as_deref(), Some("new\n"));
    let now = std::fs::metadata(folder.join("shut/open")).unwrap();
    assert_eq!(
        (now.ino(), now.permissions().mode() & 0o7777),
        (inode, 0o666)
    );
    let said = ask("shut/other");
    assert!(said.contains("permission denied"), "{said}");
    assert_eq!(home.read("shut/other").as_deref(), Some("old\n"));
    mode(&folder.join("shut"), 0o755);
    assert_eq!(names(&folder.join("shut")), ["open", "other"]);
}

/// Several writers who each read, edit and read again: an edit that says that it was made was.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_edit_is_lost_where_several_write_at_once() {
    const WRITERS: usize = 4;
    let home = Home::new();
    for linked in [false, true] {
        home.write("f", "start\n");
        if linked {
            std::fs::hard_link(home.workspace().join("f"), home.workspace().join("g")).unwrap();
        }
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let folder = home.workspace();
            writers.spawn(async move {
                let mut made = Vec::new();
                for round in 0..15 {
                    let view = read(&folder, "f").await;
                    let line = format!("{writer} {round}\n");
                    let arguments = json!({
                        "path": "f", "old_string": "start\n", "new_string": format!("start\n{line}"),
                    });
                    let tool = EditFile::new(Closed::default());
                    let report = call(tool, arguments, &view).await;
                    if !report.outcome.is_error() {
                        made.push(line);
                    }
                }
                made
            });
        }
        let mut made = Vec::new();
        while let Some(lines) = writers.join_next().await {
            made.extend(lines.unwrap());
        }
        let there = home.read("f").unwrap();
        for line in &made {
            assert!(there.contains(line.as_str()), "{line} is lost in {there}");
        }
        assert_eq!(there.lines().count(), made.len() + 1);
        assert!(!made.is_empty());
    }
    assert_eq!(names(&home.workspace()), ["f", "g"]);
}

const MEGABYTES: usize = 2;

/// Says to the test binary that it is the process that the next test kills.
const WRITER: &str = "CASTELLAN_TEST_WRITER";

/// Not a test of its own: the process that the next one kills.
#[tokio::test]
async fn a_writer_that_is_killed() {
    #[expect(clippy::disallowed_methods, reason = "how a test speaks to its child")]
    if std::env::var_os(WRITER).is_none() {
        return;
    }
    let folder = std::env::current_dir().unwrap();
    loop {
        for letter in ["a", "b"] {
            println!("writing");
            let content = letter.repeat(MEGABYTES << 20);
            let arguments = json!({"path": "f", "content": content});
            call(WriteFile::new(Closed::default()), arguments, &view(&folder)).await;
        }
    }
}

#[test]
fn a_process_that_is_killed_while_it_writes_leaves_the_old_or_the_new_content_and_nothing_else() {
    const ROUNDS: usize = 8;
    let home = Home::new();
    let folder = home.workspace();
    let mut leftovers = 0;
    for round in 0..ROUNDS {
        home.write("f", "a".repeat(MEGABYTES << 20));
        let mut child = home
            .command(std::env::current_exe().unwrap())
            .args(["--exact", "faults::a_writer_that_is_killed"])
            .env(WRITER, "1")
            .arg("--nocapture")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let writing = lines.map_while(Result::ok).filter(|line| line == "writing");
        assert_eq!(writing.take(1 + round % 4).count(), 1 + round % 4);
        child.kill().unwrap();
        child.wait().unwrap();
        for name in names(&folder) {
            let content = home.read(&name).unwrap();
            let letter = content.get(..1).unwrap_or_default();
            assert!(content == letter.repeat(MEGABYTES << 20), "{name}");
            if name != "f" {
                leftovers += 1;
                std::fs::remove_file(folder.join(name)).unwrap();
            }
        }
    }
    // There is a moment of microseconds, with the content whole, that a kill can hit.
    assert!(leftovers <= 2, "{leftovers} of {ROUNDS}");
}
