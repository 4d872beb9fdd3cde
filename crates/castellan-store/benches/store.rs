//! What durability costs: one commit per write against commits shared by 32 writers, a long session
//! appended and loaded, a store opened again. Prints `name: value unit`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use castellan_core::caller::{Caller, Principal, Surface};
use castellan_core::{Event, Ids, Recorded, SessionId, Timestamp};
use castellan_store::{Settings, Store, Synchronous, audit, events, sessions};
use uuid::Uuid;

const WRITERS: usize = 32;
const WRITES_PER_WRITER: usize = 100;
const ALONE: usize = 500;
const EVENTS: u64 = 10_000;
const OPENINGS: usize = 50;

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::print_stdout, reason = "the figures are what a bench is for")]
fn figure(name: &str, value: f64, unit: &str) {
    println!("{name}: {value:.3} {unit}");
}

fn per_second(count: usize, time: Duration) -> f64 {
    u32::try_from(count).map_or(f64::NAN, f64::from) / time.as_secs_f64()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

struct Fixed(u128);

impl Ids for Fixed {
    fn next(&self) -> Uuid {
        Uuid::from_u128(self.0)
    }
}

fn session(number: u128) -> SessionId {
    SessionId::mint(&Fixed(number))
}

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let full = Settings {
        synchronous: Synchronous::Full,
        ..Settings::default()
    };
    let path = folder.path().join("castellan.db");
    let begun = now();
    let store = Store::open(&path, full.clone())?;
    figure("open_new", milliseconds(begun.elapsed()), "ms");
    runtime.block_on(writes(&store))?;
    runtime.block_on(long_session(&store))?;
    drop(store);
    opening(&path, &full)?;
    Ok(())
}

async fn insert(store: &Store, number: i64) -> Result<(), castellan_store::Error> {
    let insert = "INSERT INTO bench (n, text) VALUES ($1, $2)";
    store
        .write(move |tx| tx.execute(insert, &[number.into(), "some words of text".into()]))
        .await
        .map(drop)
}

async fn writes(store: &Store) -> Result<(), Failed> {
    store
        .write(|tx| tx.execute("CREATE TABLE bench (n INTEGER, text TEXT)", &[]))
        .await?;
    let begun = now();
    for number in 0..ALONE {
        insert(store, i64::try_from(number)?).await?;
    }
    let time = begun.elapsed();
    let alone = per_second(ALONE, time);
    figure("commit_per_write", alone, "writes/s");
    figure(
        "commit",
        milliseconds(time) / per_second(ALONE, Duration::from_secs(1)),
        "ms",
    );

    let commits = store.commits();
    let begun = now();
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        tasks.spawn(async move {
            for number in 0..WRITES_PER_WRITER {
                let number = i64::try_from(writer * number).unwrap_or_default();
                insert(&store, number).await?;
            }
            Ok::<(), castellan_store::Error>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let time = begun.elapsed();
    let commits = usize::try_from(store.commits() - commits)?;
    let total = WRITERS * WRITES_PER_WRITER;
    let group = per_second(total, time);
    figure("group_commit_32", group, "writes/s");
    figure("group_commit_32_ratio", group / alone, "times");
    figure(
        "group_commit_32_writes",
        per_second(total, Duration::from_secs(1)) / per_second(commits, Duration::from_secs(1)),
        "writes/commit",
    );
    figure(
        "group_commit_32_commit",
        milliseconds(time) / per_second(commits, Duration::from_secs(1)),
        "ms",
    );
    Ok(())
}

fn log(id: SessionId) -> Vec<Recorded> {
    let recorded = |ts: u64, event| Recorded {
        ts: Timestamp(i64::try_from(ts).unwrap_or_default()),
        seq: None,
        session: id,
        event,
    };
    let start = Event::SessionStart {
        version: "0.1.0".to_owned(),
        cwd: PathBuf::from("/home/anna"),
        caller: Caller {
            principal: Principal::Person("anna".to_owned()),
            surface: Surface::Interactive,
            capabilities: Vec::new(),
        },
        prompts: Vec::new(),
    };
    let said = |ts| {
        let text = "A line of what was said, of the usual length. ".repeat(8);
        recorded(
            ts,
            Event::UserTurn {
                text,
                pictures: Vec::new(),
            },
        )
    };
    [recorded(1, start)]
        .into_iter()
        .chain((2..=EVENTS).map(said))
        .collect()
}

async fn long_session(store: &Store) -> Result<(), Failed> {
    let id = session(1);
    let events = log(id);
    let begun = now();
    store
        .write(move |tx| events::append(tx, id, 0, &events, &[]))
        .await?;
    figure("append_10000_in_one", milliseconds(begun.elapsed()), "ms");

    let other = session(2);
    let events = log(other);
    let begun = now();
    for (last, event) in (0..).zip(events.into_iter().take(1000)) {
        store
            .write(move |tx| events::append(tx, other, last, std::slice::from_ref(&event), &[]))
            .await?;
    }
    figure(
        "append_1000_one_by_one",
        milliseconds(begun.elapsed()),
        "ms",
    );

    // The first one also begins a reading thread.
    store.read(audit::head).await?;
    let begun = now();
    let loaded = store.read(move |tx| events::load(tx, id, 0)).await?;
    figure("load_10000", milliseconds(begun.elapsed()), "ms");
    if u64::try_from(loaded.len())? != EVENTS {
        return Err("events are missing".into());
    }
    let begun = now();
    for _ in 0..1000 {
        store.read(|tx| sessions::list(tx, 20)).await?;
    }
    figure(
        "list_sessions",
        milliseconds(begun.elapsed()) / 1000.0,
        "ms",
    );
    Ok(())
}

fn opening(path: &std::path::Path, settings: &Settings) -> Result<(), Failed> {
    let mut times = Vec::with_capacity(OPENINGS);
    let mut ends = Vec::with_capacity(OPENINGS);
    for _ in 0..OPENINGS {
        let begun = now();
        let store = Store::open(path, settings.clone())?;
        times.push(begun.elapsed());
        let begun = now();
        drop(store);
        ends.push(begun.elapsed());
    }
    times.sort_unstable();
    ends.sort_unstable();
    for (name, sorted) in [("open_warm_median", &times), ("close_unused_median", &ends)] {
        let median = sorted.get(OPENINGS / 2).copied().unwrap_or_default();
        figure(name, milliseconds(median), "ms");
    }
    Ok(())
}
