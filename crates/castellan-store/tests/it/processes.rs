//! Several processes on one database, and processes that are killed.

use std::collections::BTreeMap;
use std::path::Path;

use castellan_core::SessionId;
use castellan_store::{Settings, Store, audit, events, sessions};

use crate::child::{Other, say, wait_for_go};
use crate::sample::{Counting, Place as _, SqlitePlace, entry, session, start, user};

/// What a started process does.
pub(crate) fn work(task: &str, place: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let (task, number) = task.split_once(' ').unwrap_or((task, "0"));
    let number: u64 = number.parse().unwrap();
    match task {
        "open" => open(place),
        "count" => runtime.block_on(count(place, number)),
        "append" => runtime.block_on(append(place, number)),
        "claim" => crate::claims::hold(place),
        "reopen" => runtime.block_on(crate::faults::reopen(place)),
        "fill" => runtime.block_on(crate::faults::fill(place)),
        "nobody" => crate::faults::open_as_nobody(place),
        other => panic!("no task `{other}`"),
    }
}

fn open(place: &Path) {
    say("ready");
    wait_for_go();
    let store = Store::open(place, Settings::default()).unwrap();
    drop(store);
}

#[test]
fn processes_that_make_the_database_at_the_same_time_all_succeed() {
    for _ in 0..5 {
        let place = SqlitePlace::new();
        let mut others: Vec<Other> = (0..6)
            .map(|_| Other::start("open", &place.path()))
            .collect();
        for other in &mut others {
            other.expect("ready");
        }
        for other in &mut others {
            other.go();
        }
        for other in others {
            other.succeeds();
        }
        futures::executor::block_on(place.open().check()).unwrap();
    }
}

/// Adds 1 to the counter `times` times, by 8 tasks at once.
async fn count(place: &Path, times: u64) {
    let store = Store::open(place, Settings::default()).unwrap();
    say("ready");
    wait_for_go();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..times / 8 {
                store
                    .write(|tx| {
                        let n: Option<i64> =
                            tx.one("SELECT n FROM counter", &[], |row| row.get(0))?;
                        let next = n.unwrap_or(0) + 1;
                        tx.execute("UPDATE counter SET n = $1", &[next.into()])
                    })
                    .await
                    .unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

#[tokio::test]
async fn two_processes_that_write_to_one_file_lose_nothing() {
    let place = SqlitePlace::new();
    let store = place.open();
    store
        .write(|tx| {
            tx.execute("CREATE TABLE counter (n INTEGER)", &[])?;
            tx.execute("INSERT INTO counter VALUES (0)", &[])
        })
        .await
        .unwrap();
    let mut others = [(); 2].map(|()| Other::start("count 400", &place.path()));
    for other in &mut others {
        other.expect("ready");
    }
    for other in &mut others {
        other.go();
    }
    for other in others {
        other.succeeds();
    }
    let sum: Option<i64> = store
        .read(|tx| tx.one("SELECT n FROM counter", &[], |row| row.get(0)))
        .await
        .unwrap();
    assert_eq!(sum, Some(800));
    store.check().await.unwrap();
}

/// Appends to 4 sessions at once, each event with an audit row, until it is killed. Says what was
/// acknowledged.
async fn append(place: &Path, round: u64) {
    let store = Store::open(place, Settings::default()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4_u64 {
        let store = store.clone();
        tasks.spawn(async move {
            let base = 1000 * (round + 1) + task;
            let id = session(base);
            let ids = Counting::from(base);
            for seq in 0_u64.. {
                let event = if seq == 0 {
                    start(id, 1)
                } else {
                    // Enough to fill pages and have the log folded back into the file at times.
                    user(id, 2, &"words ".repeat(500))
                };
                let audits = [entry(&ids, 3, "anna")];
                let last = store
                    .write(move |tx| {
                        let event = std::slice::from_ref(&event);
                        events::append(tx, id, seq, event, &audits)
                    })
                    .await
                    .unwrap();
                say(&format!("{id} {last}"));
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill_at_any_moment() {
    let place = SqlitePlace::new();
    let mut acknowledged: BTreeMap<SessionId, u64> = BTreeMap::new();
    for round in 0..25_usize {
        let mut writer = Other::start(&format!("append {round}"), &place.path());
        let mut said = Vec::new();
        // Killed after more and more work, the first time right after the first commit.
        for _ in 0..=round * 13 {
            said.push(writer.hear().unwrap());
        }
        said.extend(writer.kill());
        for line in said {
            // The last line can be cut off.
            let Some((id, seq)) = line.split_once(' ') else {
                continue;
            };
            let (Ok(id), Ok(seq)) = (id.parse(), seq.parse()) else {
                continue;
            };
            acknowledged.insert(id, seq);
        }
        let store = place.open();
        store.check().await.unwrap();
        let expected = acknowledged.clone();
        store
            .read(move |tx| {
                let mut rows = 0;
                for (id, seq) in &expected {
                    let found = events::load(tx, *id, 0)?;
                    let row = sessions::get(tx, *id)?;
                    let last = u64::try_from(found.len()).unwrap();
                    // Cut-off lines may hide a digit, so what was said is a lower bound.
                    assert!(last >= *seq, "round {round}: {id} has {last} of {seq}");
                    assert_eq!(row.last_seq, last);
                    rows += last;
                }
                let verdict = audit::verify(tx)?;
                assert_eq!(verdict.first_bad, None);
                // One audit row for each event, also of a session that had not been acknowledged.
                let all: Option<u64> =
                    tx.one("SELECT count(*) FROM events", &[], |row| row.get(0))?;
                assert_eq!(Some(verdict.rows), all);
                assert!(verdict.rows >= rows);
                Ok(())
            })
            .await
            .unwrap();
    }
}
