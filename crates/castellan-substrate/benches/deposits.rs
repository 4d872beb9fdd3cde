//! Deposits into one signal of one database by 8 processes at once, and one call after another.
//! Prints `name: value unit`; a wrong sum or a failed call is an error.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use castellan_core::Timestamp;
use castellan_store::signals::{self, Change};
use castellan_store::{Settings, Store};

const PROCESSES: u32 = 8;
const DEPOSITS: u32 = 1000;
const TASKS: u32 = 8;
const ALONE: u32 = 500;
const READS: u32 = 5000;

const CHILD: &str = "CASTELLAN_SUBSTRATE_BENCH_DATABASE";

type Failed = Box<dyn std::error::Error>;

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::print_stdout, reason = "the figures are what a bench is for")]
fn figure(name: &str, value: f64, unit: &str) {
    println!("{name}: {value:.3} {unit}");
}

fn deposit() -> Change {
    Change {
        zone: "grid".to_owned(),
        signal: "coordination".to_owned(),
        amount: 1.0,
        half_life: Some(0.0),
        fresh_half_life: 0.0,
        by: "bench".to_owned(),
        at: Timestamp(1_700_000_000_000),
    }
}

async fn make(store: &Store) -> castellan_store::Result<()> {
    let work = |tx: &castellan_store::Tx<'_>| signals::change(tx, &deposit()).map(drop);
    store.write(work).await
}

fn main() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "how a bench talks to its own child"
    )]
    let child = std::env::var(CHILD);
    if let Ok(path) = child {
        return runtime.block_on(work(Path::new(&path)));
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("castellan.db");
    let store = Store::open(&path, Settings::default())?;
    let seconds = together(&path)?;
    let all = PROCESSES * DEPOSITS;
    runtime.block_on(check(&store, all))?;
    figure(
        "deposits_by_8_processes",
        f64::from(all) / seconds,
        "deposits/s",
    );
    runtime.block_on(alone(&store))
}

/// A child: says that it is ready, waits for a line, deposits.
async fn work(path: &Path) -> Result<(), Failed> {
    let store = Store::open(path, Settings::default())?;
    writeln!(std::io::stdout(), "ready")?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..DEPOSITS / TASKS {
                make(&store).await?;
            }
            castellan_store::Result::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// How many seconds all children take together, from the word to go to the last one's end.
fn together(path: &Path) -> Result<f64, Failed> {
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        #[expect(clippy::disallowed_methods, reason = "the child is this very bench")]
        let mut child = Command::new(std::env::current_exe()?)
            .env(CHILD, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().ok_or("a child without output")?;
        BufReader::new(said).read_line(&mut String::new())?;
        children.push(child);
    }
    let begun = now();
    for child in &mut children {
        let orders = child.stdin.as_mut().ok_or("a child without input")?;
        orders.write_all(b"go\n")?;
    }
    for mut child in children {
        if !child.wait()?.success() {
            return Err("a deposit failed".into());
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

async fn check(store: &Store, all: u32) -> Result<(), Failed> {
    let found = store
        .read(|tx| signals::get(tx, "grid", "coordination"))
        .await?
        .ok_or("no signal")?;
    if (found.mark.strength, found.total) == (f64::from(all), f64::from(all)) {
        return Ok(());
    }
    Err(format!("the sum is {}, not {all}", found.mark.strength).into())
}

async fn alone(store: &Store) -> Result<(), Failed> {
    let begun = now();
    for _ in 0..ALONE {
        make(store).await?;
    }
    let each = begun.elapsed().as_secs_f64() / f64::from(ALONE);
    figure("deposit_alone", each * 1000.0, "ms");
    let begun = now();
    for _ in 0..READS {
        store.read(|tx| signals::in_zone(tx, "grid")).await?;
    }
    let each = begun.elapsed().as_secs_f64() / f64::from(READS);
    figure("read_zone", each * 1e6, "µs");
    Ok(())
}
