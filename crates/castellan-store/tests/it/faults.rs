//! Disks that are full and folders that are read-only.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use castellan_store::{Error, ErrorKind, Settings, Store, events, sessions};
use futures::future::join_all;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, geteuid, setuid};

use crate::child::{Other, say};
use crate::conformance::{Write, occupied, queued};
use crate::sample::{Place as _, SqlitePlace, session, start, user};

#[tokio::test]
async fn a_job_that_does_not_fit_fails_and_those_that_share_its_commit_do_not() {
    let place = SqlitePlace::new();
    let store = place.open();
    store
        .write(|tx| tx.query("PRAGMA max_page_count = 100", &[], |_row| Ok(())))
        .await
        .unwrap();
    let append = |number: u64, text: &'static str| -> Write<'_> {
        Box::pin(store.write(move |tx| {
            let id = session(number);
            let log = [start(id, 1), user(id, 2, &text.repeat(1000))];
            events::append(tx, id, 0, &log, &[]).map(drop)
        }))
    };
    let huge = "x".repeat(1000).leak();
    let (go, busy) = occupied(&store).await;
    let waiting = queued([append(1, "small"), append(2, huge), append(3, "small")]).await;
    drop(go);
    busy.await.unwrap();
    let answers = join_all(waiting).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Full);
    let listed = store.read(|tx| sessions::list(tx, 10)).await.unwrap();
    assert_eq!(listed.total, 2);
    store.check().await.unwrap();
}

/// A started process that fills what little room it has, is given more, and goes on.
pub(crate) async fn fill(place: &Path) {
    // On a disk of its own the file that is removed later; otherwise the limit is raised.
    let ballast = place.with_file_name("ballast");
    let own_disk = fs::read_to_string("/proc/self/mounts")
        .unwrap()
        .contains(place.parent().unwrap().to_str().unwrap());
    let store = Store::open(place, Settings::default()).unwrap();
    if own_disk {
        fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    }
    let id = session(1);
    let append = |last: u64| {
        store.write(move |tx| {
            let event = if last == 0 {
                start(id, 1)
            } else {
                user(id, 2, &"words ".repeat(1000))
            };
            events::append(tx, id, last, &[event], &[])
        })
    };
    let mut last = 0;
    let error = loop {
        match append(last).await {
            Ok(seq) => last = seq,
            Err(error) => break error,
        }
    };
    let wanted = if own_disk {
        ErrorKind::Full
    } else {
        ErrorKind::Io
    };
    assert_eq!(error.kind(), wanted, "{error}");
    assert!(last > 10, "{last}");
    // Again, and still readable.
    append(last).await.unwrap_err();
    let found = store.read(move |tx| events::load(tx, id, 0)).await.unwrap();
    assert_eq!(u64::try_from(found.len()).unwrap(), last);
    if own_disk {
        fs::remove_file(&ballast).unwrap();
    } else {
        let (_soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        setrlimit(Resource::RLIMIT_FSIZE, hard, hard).unwrap();
    }
    assert_eq!(append(last).await.unwrap(), last + 1);
    store.check().await.unwrap();
    drop(store);
    let store = Store::open(place, Settings::default()).unwrap();
    let found = store.read(move |tx| events::load(tx, id, 0)).await.unwrap();
    assert_eq!(u64::try_from(found.len()).unwrap(), last + 1);
    say(if own_disk { "own disk" } else { "limit" });
}

/// A started process that closes a database, fills the disk to the last byte and opens it again.
pub(crate) async fn reopen(place: &Path) {
    drop(Store::open(place, Settings::default()).unwrap());
    let ballast = place.with_file_name("ballast");
    fs::write(&ballast, vec![0; 8 << 20]).unwrap_err();
    let error = Store::open(place, Settings::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let text = error.to_string();
    assert!(text.contains("no room on the disk"), "{text}");
    fs::remove_file(&ballast).unwrap();
    let store = Store::open(place, Settings::default()).unwrap();
    store.check().await.unwrap();
    say("own disk");
}

/// In a mount namespace of its own, so that the disk goes when the process does.
const ON_A_SMALL_DISK: &str = r#"mount -t tmpfs -o size=4m none "$0" && exec "$@""#;

/// Without SIGXFSZ a file that may not grow is an error like any other.
const WITH_A_LIMIT: &str = r#"trap '' XFSZ; ulimit -S -f 1024 && exec "$@""#;

#[test]
fn a_file_that_may_not_grow_costs_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("castellan.db");
    let mut other = Other::start_under(&["sh", "-c", WITH_A_LIMIT, "sh"], "fill", &path);
    let said = other.hear();
    other.succeeds();
    assert_eq!(said.as_deref(), Some("limit"));
}

/// Starts a process that does `task` on a small disk of its own, and waits for its good end.
fn on_a_small_disk(task: &str) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    let path = folder.path().join("castellan.db");
    let launcher = if geteuid().is_root() {
        vec!["unshare", "--mount", "sh", "-c", ON_A_SMALL_DISK, disk]
    } else {
        let with_names = ["unshare", "--map-root-user", "--mount"];
        [&with_names[..], &["sh", "-c", ON_A_SMALL_DISK, disk]].concat()
    };
    let mut other = Other::start_under(&launcher, task, &path);
    let said = other.hear();
    other.succeeds();
    assert_eq!(said.as_deref(), Some("own disk"));
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged() {
    on_a_small_disk("fill");
}

#[test]
fn a_database_on_a_disk_that_is_full_says_so_when_it_is_opened() {
    on_a_small_disk("reopen");
}

/// A started process without the rights of root.
pub(crate) fn open_as_nobody(place: &Path) {
    if geteuid().is_root() {
        setuid(Uid::from_raw(65534)).unwrap();
    }
    let error = Store::open(place, Settings::default()).unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(place.to_str().unwrap()), "{text}");
}

#[test]
fn a_read_only_folder_is_said_to_be_unusable_with_and_without_a_database() {
    let place = SqlitePlace::new();
    let path = place.path();
    let folder = path.parent().unwrap();
    fs::create_dir(folder).unwrap();
    // The outer folder must let anyone through, or nothing would be learned.
    let outer = folder.parent().unwrap();
    fs::set_permissions(outer, Permissions::from_mode(0o755)).unwrap();
    let open = || {
        fs::set_permissions(folder, Permissions::from_mode(0o555)).unwrap();
        Other::start("nobody", &path).succeeds();
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    };
    open();
    drop(place.open());
    // Readable, so that only writing is what can't be done.
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    open();
}
