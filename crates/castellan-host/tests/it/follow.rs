//! Where a command ends, and that being watched changes nothing else about it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use castellan_core::CancelSource;
use castellan_host::{End, Folder, HelperCommand, Shell};

use crate::world::{Ran, job, run, run_job};

/// A folder with `sub`, `other` and a Git repository `repository` with a folder in it.
fn place() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sub", "other", "repository/below"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    folder
}

async fn followed(text: &str, folder: &Path) -> Ran {
    let mut job = job(text);
    job.cwd = folder.to_owned();
    job.follow = true;
    run(job).await
}

fn at(folder: &Path) -> Folder {
    Folder::At(folder.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_folder_is_where_the_shell_ended_whatever_ended_it() {
    let place = place();
    let root = place.path().canonicalize().unwrap();
    for (text, end) in [
        ("cd sub", 0),
        ("cd sub; exit 7", 7),
        ("set -e; cd sub; false; cd ../other", 1),
        ("cd sub && nothing-of-this-name", 127),
        ("pushd other >/dev/null; popd >/dev/null; pushd sub", 0),
        ("f() { cd sub; }; f; (cd ../other); cd ../other | cat", 0),
        ("trap 'cd sub; echo mine' EXIT; exit 4", 4),
        ("trap 'echo mine' EXIT; cd sub; exit 4", 4),
        ("set -u; cd sub; echo $nothing_of_this_name", 127),
        ("cd sub; exec true", 0),
        ("cd sub; exec bash -c 'cd ../other; exit 5'", 5),
        ("cd sub && bash -c 'cd ../other'", 0),
        ("cd sub\ncat <<'X'\ntext \\\nX\n# end \\", 0),
        ("cd sub; echo 'a\\' # comment \\", 0),
        ("command cd sub; builtin cd .; eval 'cd .'", 0),
        ("cd sub; ${nothing?gone}; cd ../other", 127),
        ("cd sub; if", 2),
    ] {
        let ran = followed(text, &root).await;
        let expected = if text.ends_with("if") {
            // Nothing of a text with a syntax error in its first line runs.
            at(&root)
        } else {
            at(&root.join("sub"))
        };
        assert_eq!(ran.report.folder, expected, "{text}: {}", ran.text);
        assert_eq!(ran.report.end, End::Exited(end), "{text}: {}", ran.text);
    }
}

#[tokio::test]
async fn the_folder_of_a_program_that_takes_the_place_of_the_shell_does_not_count() {
    let place = place();
    let root = place.path().canonicalize().unwrap();
    let below = root.join("repository/below");
    for text in [
        "cd repository/below && git init -q .. && git -C ../../other init -q",
        "cd repository/below && git rev-parse --show-toplevel",
        "cd repository/below; exec env -C ../../other pwd",
    ] {
        let ran = followed(text, &root).await;
        assert_eq!(ran.report.end, End::Exited(0), "{text}: {}", ran.text);
        assert_eq!(ran.report.folder, at(&below), "{text}: {}", ran.text);
    }
}

#[tokio::test]
async fn the_folder_is_known_after_a_violent_end_too() {
    let place = place();
    let root = place.path().canonicalize().unwrap();
    for text in ["cd sub; kill -SEGV $$", "cd sub; kill -TERM $$; sleep 60"] {
        let ran = followed(text, &root).await;
        assert!(matches!(ran.report.end, End::Signalled { .. }), "{text}");
        assert_eq!(ran.report.folder, at(&root.join("sub")), "{text}");
    }
    let ran = followed("cd sub; kill -40 $$", &root).await;
    let end = End::Signalled {
        number: 40,
        name: "signal 40".to_owned(),
    };
    assert_eq!(ran.report.end, end);
    // The kernel may or may not stop what is killed outright.
    let ran = followed("cd sub; kill -9 $$", &root).await;
    let folders = [at(&root.join("sub")), Folder::Unknown];
    assert!(folders.contains(&ran.report.folder), "{:?}", ran.report);

    let mut late = job("cd sub; echo early; sleep 60");
    late.cwd.clone_from(&root);
    late.follow = true;
    late.timeout = Duration::from_millis(500);
    let ran = run(late).await;
    assert!(ran.report.timed_out && ran.text == "early\n", "{ran:?}");
    assert_eq!(ran.report.folder, at(&root.join("sub")));
}

#[tokio::test]
async fn a_folder_that_is_gone_is_told_from_one_that_cannot_be_named() {
    let place = place();
    let root = place.path().canonicalize().unwrap();
    let ran = followed("cd sub && rmdir ../sub", &root).await;
    assert_eq!(ran.report.folder, Folder::Gone);
    let odd = "mkdir 'sub (deleted)' && cd 'sub (deleted)'";
    let ran = followed(odd, &root).await;
    assert_eq!(ran.report.folder, at(&root.join("sub (deleted)")));
    let ran = followed("mkdir $'\\xff' && cd $'\\xff'", &root).await;
    assert_eq!(ran.report.folder, Folder::Unknown);
    assert_eq!(run(job("cd /tmp")).await.report.folder, Folder::Unknown);
}

#[tokio::test]
async fn a_watched_shell_says_and_returns_what_an_unwatched_one_does() {
    let texts = [
        "echo $0 $# $- $BASHOPTS; trap -p; echo ${BASH_ENV-none} $SHLVL; ls /proc/self/fd | wc -l",
        "exec 2>&1; set -x; cd /tmp; pwd; exit 9",
        "sleep 0.01 & wait; echo $?; jobs",
        "sh -c 'kill -SEGV $$'",
        "kill -SEGV $$",
        "(sh -c 'kill -9 $$'; echo $?) 2>/dev/null",
        "trap 'echo usr1' USR1; kill -USR1 $$; trap 'echo rt' RTMIN+3; echo done",
        "for n in $(seq 300); do $(true); done; echo $?",
        "yes | head -n 3; echo ${PIPESTATUS[@]}",
        "ulimit -c; umask; exec 3>&1; echo to three >&3",
        "if",
        "exec nothing-of-this-name; echo not reached",
        "set -m; sleep 0.01 & fg; echo $?",
    ];
    for text in texts {
        let plain = run(job(text)).await;
        let mut watched = job(text);
        watched.follow = true;
        let watched = run(watched).await;
        assert_eq!(watched.text, plain.text, "{text}");
        assert_eq!(watched.report.end, plain.report.end, "{text}");
    }
}

#[tokio::test]
async fn a_shell_that_is_halted_goes_on_when_it_is_told_to() {
    let place = place();
    let root = place.path().canonicalize().unwrap();
    let text = "cd sub; main=$$; (while ! grep -q '^State:.T' /proc/$main/status; do :; done; \
                kill -CONT $main) & kill -STOP $$; echo went on";
    let ran = followed(text, &root).await;
    assert_eq!(
        (ran.text.as_str(), &ran.report.end),
        ("went on\n", &End::Exited(0))
    );
}

/// A helper that runs as somebody without privileges, and a folder they own; `None` where this
/// user can't become somebody else.
fn as_nobody() -> Option<(Shell, tempfile::TempDir)> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o777);
    // Where the build puts the helper may be closed to others.
    let helper = folder.path().join("helper");
    std::fs::copy(env!("CARGO_BIN_EXE_castellan-shell-helper"), &helper).unwrap();
    open(&helper, 0o755);
    let script = folder.path().join("as-nobody");
    let text = format!(
        "#!/bin/sh\nexec /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups {} \"$@\"\n",
        helper.display()
    );
    std::fs::write(&script, text).unwrap();
    open(&script, 0o755);
    let id = folder.path().join("privileged-id");
    std::fs::copy("/usr/bin/id", &id).unwrap();
    open(&id, 0o4755);
    Shell::adopt_orphans().unwrap();
    Some((Shell::new(HelperCommand::at(script)), folder))
}

#[tokio::test]
async fn a_program_that_gives_privileges_still_does() {
    let Some((shell, folder)) = as_nobody() else {
        return;
    };
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("sub")).unwrap();
    for text in [
        "./privileged-id -u",
        "cd sub && ../privileged-id -u",
        "cd sub; exec ../privileged-id -u",
        "cd sub; true; ../privileged-id -u; true",
        "cd sub; PATH=..:$PATH; privileged-id -u",
    ] {
        let mut watched = job(text);
        watched.cwd.clone_from(&root);
        watched.follow = true;
        let path = format!("{}:/usr/bin:/bin", root.display());
        watched.env.retain(|(name, _)| name != "PATH");
        watched.env.push(("PATH".to_owned(), path));
        let source = CancelSource::new();
        let ran = run_job(&shell, watched, source.token()).await.unwrap();
        assert_eq!(ran.text, "0\n", "{text}");
        let folder = if text.contains("cd sub") {
            root.join("sub")
        } else {
            root.clone()
        };
        assert_eq!(ran.report.folder, at(&folder), "{text}");
    }
}
