//! The child processes of this process: which are known, and what becomes of the others.
//!
//! A command may kill the helper it runs under. Its processes then fall to us, because this process
//! is a subreaper too ([`adopt_orphans`]). They are told from children we started on purpose by a
//! list of the latter: each birth in this crate puts the child on it.
//!
//! The list is a static, against the rule of the house: what it mirrors, the kernel's table of
//! children, belongs to the process and to no object in it, and two lists would each take the
//! other's children for orphans.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid, getsid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::error::Error;
use crate::procfs::{self, Process};
use crate::protocol::{Ended, LISTED, Survivor, Way};

/// How long orphans are killed before what is left is listed as surviving.
const KILLING: Duration = Duration::from_secs(5);
/// Time between two sweeps.
const PAUSE: Duration = Duration::from_millis(10);

static KNOWN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn known() -> MutexGuard<'static, BTreeSet<i32>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the one that orphans below it fall to, instead of the system's first process.
/// To be called once, early in a main function.
///
/// # Errors
/// When the kernel refuses; orphans of a killed helper then cannot be told from other processes.
pub fn adopt_orphans() -> Result<(), Error> {
    prctl::set_child_subreaper(true).map_err(|error| Error::System {
        action: "adopt orphaned processes",
        source: error.into(),
    })
}

/// Waits for adopted processes that end by themselves, so that they do not stay as zombies. Runs
/// until it is dropped; the binary keeps one such task.
///
/// # Errors
/// When the signal cannot be listened for.
pub async fn reap_adopted() -> Result<(), Error> {
    let mut ended = signal(SignalKind::child()).map_err(|source| Error::System {
        action: "listen for the end of children",
        source,
    })?;
    loop {
        reap_unknown();
        if ended.recv().await.is_none() {
            return Ok(());
        }
    }
}

/// A child that is known as long as this lives. To be dropped after the child was waited for.
#[derive(Debug)]
pub(crate) struct Registration {
    pid: i32,
}

impl Registration {
    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        known().remove(&self.pid);
    }
}

/// Starts a child and puts it on the list. The list is locked meanwhile, so that no sweep takes a
/// newborn for an orphan.
pub(crate) fn bear<T>(
    start: impl FnOnce() -> io::Result<T>,
    pid: impl FnOnce(&T) -> Option<u32>,
) -> io::Result<(T, Registration)> {
    let mut known = known();
    let child = start()?;
    let pid = pid(&child)
        .and_then(|pid| i32::try_from(pid).ok())
        .unwrap_or_default();
    known.insert(pid);
    Ok((child, Registration { pid }))
}

/// What was found and ended after a helper was lost.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) ended: Vec<Ended>,
    pub(crate) total: usize,
    pub(crate) survivors: Vec<Survivor>,
}

/// Kills what a lost helper left to us: children nobody here started, not older than the helper,
/// whatever still is in the helper's session, and everything below these.
///
/// An orphan of another child of ours (a server that forked into the background) born since then
/// dies too. That is the price of letting nothing escape from a command that kills its helper.
pub(crate) async fn end_orphans(helper: i32, since: u64) -> Sweep {
    let mut sweep = Sweep::default();
    let mut noted = BTreeSet::new();
    let until = Instant::now() + KILLING;
    let left = loop {
        let orphans = orphans(helper, since);
        if orphans.is_empty() || Instant::now() >= until {
            break orphans;
        }
        let mut groups = BTreeSet::new();
        for orphan in &orphans {
            if noted.insert((orphan.pid, orphan.start)) {
                sweep.total += 1;
                if sweep.ended.len() < LISTED {
                    sweep.ended.push(Ended {
                        pid: orphan.pid,
                        command: orphan.command(),
                        how: Way::Killed,
                    });
                }
            }
            strike(orphan, &mut groups);
        }
        tokio::time::sleep(PAUSE).await;
    };
    sweep
        .ended
        .retain(|ended| left.iter().all(|one| one.pid != ended.pid));
    sweep.total = sweep.total.saturating_sub(left.len());
    sweep.survivors = left
        .iter()
        .take(LISTED)
        .map(|one| Survivor {
            pid: one.pid,
            command: one.command(),
        })
        .collect();
    sweep
}

/// Kills an orphan, and at once its whole group where that is neither in our session nor led by a
/// child we know. Either may be gone, which is what was wanted.
fn strike(orphan: &Process, groups: &mut BTreeSet<i32>) {
    let foreign = getsid(None).is_ok_and(|session| session.as_raw() != orphan.session);
    let led = known().contains(&orphan.group);
    if foreign && !led && orphan.group > 1 && groups.insert(orphan.group) {
        killpg(Pid::from_raw(orphan.group), Signal::SIGKILL).unwrap_or_default();
    }
    kill(Pid::from_raw(orphan.pid), Signal::SIGKILL).unwrap_or_default();
}

/// The living processes a lost helper left behind. Those that have ended are waited for.
fn orphans(helper: i32, since: u64) -> Vec<Process> {
    let own = getpid().as_raw();
    let known = known();
    let processes = procfs::all();
    reap(own, &known, &processes);
    let roots: BTreeSet<i32> = processes
        .iter()
        .filter(|one| {
            let adopted = one.parent == own && one.start >= since;
            (adopted || one.session == helper) && !known.contains(&one.pid) && one.pid != own
        })
        .map(|one| one.pid)
        .collect();
    drop(known);
    let mut found: Vec<Process> = processes
        .iter()
        .filter(|one| roots.contains(&one.pid) && !one.is_zombie)
        .cloned()
        .collect();
    found.extend(procfs::below(&roots, processes));
    found
}

/// Waits for adopted children that have ended already.
fn reap_unknown() {
    reap(getpid().as_raw(), &known(), &procfs::all());
}

/// The same, with the list of known children locked, so that none is born in between.
fn reap(own: i32, known: &BTreeSet<i32>, processes: &[Process]) {
    for process in processes {
        if process.parent == own && process.is_zombie && !known.contains(&process.pid) {
            // Whatever the answer, there is nothing to be done about it.
            waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG)).ok();
        }
    }
}
