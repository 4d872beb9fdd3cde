//! What is on the disk: who may read it, and files that are not what they should be.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use castellan_store::{Error, ErrorKind, SCHEMA, Settings, Store, events};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::sample::{Place as _, SqlitePlace, session, start, user};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn refused(path: &Path) -> Error {
    Store::open(path, Settings::default()).unwrap_err()
}

/// A database with a few hundred pages, closed.
async fn filled(place: &SqlitePlace) -> PathBuf {
    let store = place.open();
    let id = session(1);
    let mut log = vec![start(id, 1)];
    log.extend((2..400).map(|ts| user(id, ts, &"some words ".repeat(300))));
    store
        .write(move |tx| events::append(tx, id, 0, &log, &[]))
        .await
        .unwrap();
    place.path()
}

#[tokio::test]
async fn only_the_owner_may_read_what_the_store_makes() {
    let place = SqlitePlace::new();
    let store = place.open();
    store.read(|_tx| Ok(())).await.unwrap();
    let _claim = store.claim(session(1)).unwrap();
    let folder = store.folder();
    assert_eq!(mode(folder), 0o700);
    let mut names = Vec::new();
    for found in fs::read_dir(folder).unwrap() {
        let path = found.unwrap().path();
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "castellan.db",
            "castellan.db-shm",
            "castellan.db-wal",
            "castellan.db.lock",
            "locks"
        ]
    );
    for found in fs::read_dir(folder.join("locks")).unwrap() {
        assert_eq!(mode(&found.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn a_database_that_others_may_read_is_closed_to_them() {
    let place = SqlitePlace::new();
    let path = filled(&place).await;
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let store = place.open();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&beside(&path, "-wal")), 0o600);
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_truncated_file_is_corrupt_and_left_as_it_is() {
    let place = SqlitePlace::new();
    let path = filled(&place).await;
    let whole = fs::read(&path).unwrap();
    for length in [whole.len() / 2 / 4096 * 4096, whole.len() / 3, 5000] {
        let rest = whole[..length].to_vec();
        fs::write(&path, &rest).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{length}: {error}");
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains("Restore a backup, or move it"), "{text}");
        assert_eq!(fs::read(&path).unwrap(), rest);
    }
}

#[tokio::test]
async fn an_emptied_file_is_corrupt_and_not_a_new_database() {
    let place = SqlitePlace::new();
    let path = filled(&place).await;
    fs::write(&path, "").unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[tokio::test]
async fn a_missing_file_with_its_log_left_is_corrupt_and_alone_is_a_new_one() {
    let place = SqlitePlace::new();
    let path = filled(&place).await;
    fs::rename(&path, beside(&path, ".away")).unwrap();
    fs::write(beside(&path, "-wal"), "frames").unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(!path.exists());
    fs::remove_file(beside(&path, "-wal")).unwrap();
    place.open().check().await.unwrap();
}

#[tokio::test]
async fn an_overwritten_header_is_not_ours_and_left_as_it_is() {
    let place = SqlitePlace::new();
    let path = filled(&place).await;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 100], 0).unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::NotOurs, "{error}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_garbage_page_in_the_middle_is_found_by_reading_and_by_the_check() {
    let place = SqlitePlace::new();
    let path = filled(&place).await;
    let pages = fs::metadata(&path).unwrap().len() / 4096;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 4096], pages / 2 * 4096).unwrap();
    let store = place.open();
    let error = store.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let error = store
        .read(|tx| events::load(tx, session(1), 0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn a_stray_reference_is_found_by_the_check() {
    let place = SqlitePlace::new();
    drop(place.open());
    // With another program, since the store itself doesn't let it happen.
    let db = rusqlite::Connection::open(place.path()).unwrap();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; INSERT INTO events VALUES ('ws_x', 1, 1, 'user_turn', '{}')",
    )
    .unwrap();
    drop(db);
    let error = place.open().check().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("events refers to a row of sessions"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_table_or_index_is_found_by_the_check() {
    for (sql, what) in [
        ("DROP TABLE events", "the table events is missing"),
        (
            "DROP INDEX sessions_by_updated",
            "the index sessions_by_updated is missing",
        ),
    ] {
        let place = SqlitePlace::new();
        drop(place.open());
        let db = rusqlite::Connection::open(place.path()).unwrap();
        db.execute_batch(sql).unwrap();
        drop(db);
        let error = place.open().check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn something_in_the_place_of_the_file_that_is_none_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let device = folder.path().join("device");
    symlink("/dev/null", &device).unwrap();
    for (path, what) in [
        (&pipe, "a named pipe"),
        (&socket, "a socket"),
        (&device, "a device"),
    ] {
        let error = refused(path);
        assert_eq!(error.kind(), ErrorKind::NotOurs, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let text = refused(folder.path()).to_string();
    assert!(text.contains("directory"), "{text}");
}

#[tokio::test]
async fn a_file_of_something_else_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let foreign: [(&str, &str); 3] = [
        (
            "PRAGMA application_id = 7; CREATE TABLE a (b)",
            "application id 0x7",
        ),
        ("CREATE TABLE a (b)", "something else"),
        ("PRAGMA user_version = 1", "something else"),
    ];
    for (sql, why) in foreign {
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(sql).unwrap();
        drop(db);
        let before = fs::read(&path).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::NotOurs, "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        fs::remove_file(&path).unwrap();
    }
    fs::write(&path, "Dear diary, ".repeat(1000)).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::NotOurs);
}

#[tokio::test]
async fn a_newer_database_is_refused_at_opening_and_while_open() {
    let place = SqlitePlace::new();
    let store = place.open();
    let newer = SCHEMA + 4;
    let db = rusqlite::Connection::open(place.path()).unwrap();
    db.execute_batch(&format!("PRAGMA user_version = {newer}"))
        .unwrap();
    drop(db);
    let wrote = store
        .write(|tx| tx.execute("DELETE FROM sessions", &[]))
        .await;
    assert_eq!(wrote.unwrap_err().kind(), ErrorKind::Newer);
    assert_eq!(
        store.read(|_tx| Ok(())).await.unwrap_err().kind(),
        ErrorKind::Newer
    );
    drop(store);
    let error = refused(&place.path());
    assert_eq!(error.kind(), ErrorKind::Newer);
    assert_eq!(
        error.to_string(),
        format!(
            "the database at {} was written by a newer castellan (schema {newer}, this one knows \
             {SCHEMA}); upgrade, or point CASTELLAN_HOME elsewhere",
            place.path().display()
        )
    );
}

#[tokio::test]
async fn a_database_whose_making_was_interrupted_is_made() {
    // A process can be killed after each of these.
    let steps = ["", "PRAGMA journal_mode = WAL"];
    for sql in steps {
        let place = SqlitePlace::new();
        fs::create_dir_all(place.path().parent().unwrap()).unwrap();
        fs::write(place.path(), "").unwrap();
        let db = rusqlite::Connection::open(place.path()).unwrap();
        db.execute_batch(sql).unwrap();
        drop(db);
        place.open().check().await.unwrap();
    }
}

#[test]
fn a_path_that_leads_through_a_file_is_said_to_be_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [
        file.join("castellan.db"),
        file.join("deeper").join("castellan.db"),
    ] {
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    }
    assert_eq!(refused(folder.path()).kind(), ErrorKind::Permission);
}
