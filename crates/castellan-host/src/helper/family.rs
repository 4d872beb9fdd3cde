//! The processes of one command: found, ended and reaped.
//!
//! The helper is the subreaper of everything below it, so two facts hold: a process that loses its
//! parent becomes the helper's own child, and a helper without children has no descendants either.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::procfs::{self, Process};
use crate::protocol::{Ended, LISTED, Survivor, Way};

/// Rounds over the helper's direct children within one sweep. Each round is a matter of
/// microseconds, which even a process that forks itself on and on does not outrun for long.
const ROUNDS: usize = 32;

/// Processes whose command lines are read; past that they are only counted.
const REMEMBERED: usize = 1000;

/// The most direct children worth another round: with more, a round is no matter of microseconds.
const CROWD: usize = 256;

/// A process that was told to end. Without a command line past [`REMEMBERED`].
#[derive(Debug)]
struct Target {
    command: Option<String>,
    how: Way,
}

/// What became of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ended with this code.
    Exited(i32),
    /// It was ended by the signal of this number.
    Signalled(i32),
}

/// Everything below the helper.
#[derive(Debug)]
pub(super) struct Family {
    own: i32,
    /// The helper's own child.
    child: i32,
    /// The command: that child, or, in a sandbox, what runs below it once it does.
    main: Option<i32>,
    /// What makes up the sandbox: not asked to end, because everything in it would end with it, and
    /// not told of.
    sandbox: BTreeSet<i32>,
    /// By start and pid, which together name a process for good.
    targets: BTreeMap<(u64, i32), Target>,
}

impl Family {
    /// The family of the helper (`own`) with the command itself (`child`) in it.
    pub(super) const fn new(own: i32, child: i32) -> Self {
        Self {
            own,
            child,
            main: Some(child),
            sandbox: BTreeSet::new(),
            targets: BTreeMap::new(),
        }
    }

    /// The same where `child` is a sandbox, in which no command runs yet.
    pub(super) fn enclosed(own: i32, child: i32) -> Self {
        Self {
            main: None,
            sandbox: BTreeSet::from([child]),
            ..Self::new(own, child)
        }
    }

    /// Learns which process is the command: the one that is `pid` as seen inside. One that has
    /// ended already is not found and need not be.
    pub(super) fn find_main(&mut self, pid: i32) {
        let parents = [vec![self.child], children(self.child)].concat();
        for parent in parents {
            let found = children(parent)
                .into_iter()
                .find(|child| procfs::innermost_pid(*child) == Some(pid));
            if let Some(main) = found {
                self.sandbox.insert(parent);
                self.main = Some(main);
                return;
            }
        }
    }

    /// Asks everything below the helper to end.
    pub(super) fn terminate(&mut self) {
        for process in procfs::descendants(self.own) {
            if self.sandbox.contains(&process.pid) {
                continue;
            }
            self.note(&process, Way::Terminated);
            signal(process.pid, Signal::SIGTERM);
            // A stopped process acts on SIGTERM only once it goes on.
            signal(process.pid, Signal::SIGCONT);
        }
    }

    /// Kills everything below the helper that it can find right now.
    pub(super) fn kill(&mut self) {
        if !self.sandbox.is_empty() {
            // Killing the sandbox ends all that is in it, which could not be told of any more.
            for process in procfs::descendants(self.own) {
                self.note(&process, Way::Killed);
            }
        }
        // A group is killed once a sweep: a thousand members would each kill all the others.
        let mut groups = BTreeSet::new();
        // Quick rounds over the direct children first: a process that forks and exits, over and
        // over, hands each copy to the helper, and a walk over all processes would come too late.
        for _ in 0..ROUNDS {
            let children = procfs::children(self.own).unwrap_or_default();
            let living: Vec<Process> = children
                .into_iter()
                .filter_map(Process::read)
                .filter(|process| !process.is_zombie)
                .collect();
            for process in &living {
                self.strike(process, &mut groups);
            }
            if living.is_empty() || living.len() > CROWD {
                break;
            }
        }
        groups.clear();
        for process in procfs::descendants(self.own) {
            self.strike(&process, &mut groups);
        }
    }

    /// Kills a process and its group. The kernel signals a group as a whole, forks in progress
    /// included. No group of a descendant reaches beyond the family, save the helper's own.
    fn strike(&mut self, process: &Process, groups: &mut BTreeSet<i32>) {
        self.note(process, Way::Killed);
        if process.group > 1 && process.group != self.own && groups.insert(process.group) {
            // It may be gone already, which is what was wanted.
            killpg(Pid::from_raw(process.group), Signal::SIGKILL).unwrap_or_default();
        }
        signal(process.pid, Signal::SIGKILL);
    }

    /// Remembers for the report that a process was told to end, and how.
    fn note(&mut self, process: &Process, how: Way) {
        if Some(process.pid) == self.main || self.sandbox.contains(&process.pid) {
            return;
        }
        let remembered = self.targets.len() < REMEMBERED;
        self.targets
            .entry((process.start, process.pid))
            .and_modify(|target| target.how = how)
            .or_insert_with(|| Target {
                command: remembered.then(|| process.command()),
                how,
            });
    }

    /// The processes that are still there, for a report.
    pub(super) fn survivors(&self) -> Vec<Survivor> {
        let mut living = procfs::descendants(self.own);
        living.truncate(LISTED);
        living
            .into_iter()
            .map(|process| Survivor {
                pid: process.pid,
                command: process.command(),
            })
            .collect()
    }

    /// The processes that were ended, survivors left out, and how many they were in all.
    pub(super) fn ended(&self, survivors: &[Survivor]) -> (Vec<Ended>, usize) {
        let gone = |pid: i32| survivors.iter().all(|survivor| survivor.pid != pid);
        let ended = self
            .targets
            .iter()
            .filter_map(|((_, pid), target)| {
                let command = target.command.clone().filter(|_| gone(*pid))?;
                Some(Ended {
                    pid: *pid,
                    command,
                    how: target.how,
                })
            })
            .take(LISTED)
            .collect();
        (ended, self.targets.len().saturating_sub(survivors.len()))
    }
}

/// The direct children of a single-threaded process.
fn children(pid: i32) -> Vec<i32> {
    procfs::children(pid).unwrap_or_else(|| {
        let all = procfs::all().into_iter();
        all.filter(|one| one.parent == pid)
            .map(|one| one.pid)
            .collect()
    })
}

/// Sends a signal. The process may be gone already, which is what was wanted.
fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap_or_default();
}
