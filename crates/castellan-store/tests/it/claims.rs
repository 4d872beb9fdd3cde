//! One process per session: claims that exclude, and that end with whoever holds them.

use std::path::Path;

use castellan_store::{Error, Settings, Store};

use crate::child::{Other, say, wait_for_go};
use crate::sample::{Place as _, SqlitePlace, session};

/// A started process that holds a session until it is told to go on.
pub(crate) fn hold(place: &Path) {
    let store = Store::open(place, Settings::default()).unwrap();
    let claim = store.claim(session(1)).unwrap();
    say("claimed");
    wait_for_go();
    drop(claim);
    say("freed");
    wait_for_go();
}

#[test]
fn a_second_claim_in_the_same_process_fails_until_the_first_is_dropped() {
    let place = SqlitePlace::new();
    let store = place.open();
    let claim = store.claim(session(1)).unwrap();
    assert_eq!(claim.session(), session(1));
    let Err(Error::Claimed { pid, .. }) = store.claim(session(1)) else {
        panic!("claimed twice");
    };
    assert_eq!(pid, Some(std::process::id()));
    // Another session is another claim.
    let other = store.claim(session(2)).unwrap();
    drop((claim, other));
    drop(store.claim(session(1)).unwrap());
    let left = std::fs::read_dir(store.folder().join("locks"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "lock files are left behind");
}

#[test]
fn a_claim_of_another_process_names_it_and_ends_when_it_says_so() {
    let place = SqlitePlace::new();
    let store = place.open();
    let mut other = Other::start("claim", &place.path());
    other.expect("claimed");
    let error = store.claim(session(1)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("process {}", other.id())),
        "{error}"
    );
    other.go();
    other.expect("freed");
    drop(store.claim(session(1)).unwrap());
    other.go();
    other.succeeds();
}

#[test]
fn a_claim_ends_with_the_process_that_is_killed() {
    let place = SqlitePlace::new();
    let store = place.open();
    for _ in 0..5 {
        let mut other = Other::start("claim", &place.path());
        other.expect("claimed");
        store.claim(session(1)).unwrap_err();
        other.kill();
        drop(store.claim(session(1)).unwrap());
    }
}

#[test]
fn of_many_who_want_a_session_one_at_a_time_has_it() {
    use std::sync::atomic::{AtomicU32, Ordering};

    let place = SqlitePlace::new();
    let store = place.open();
    let (inside, had) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..500 {
                    // Lock files come and go here as fast as they can.
                    if let Ok(claim) = store.claim(session(1)) {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        had.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(claim);
                    }
                }
            });
        }
    });
    assert!(had.into_inner() > 0);
}
