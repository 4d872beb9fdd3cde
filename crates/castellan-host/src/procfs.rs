//! Reading the process table from `/proc`.
//!
//! A process may vanish between any two lines here; what cannot be read is taken as gone.

use std::collections::{BTreeSet, HashMap};
use std::fs;

/// The longest command line reported, in characters.
const COMMAND_LIMIT: usize = 200;

/// One line of the process table.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks after boot. Together with the pid it names a process for good.
    pub(crate) start: u64,
    /// Ended, but not yet waited for by its parent.
    pub(crate) is_zombie: bool,
    name: String,
}

impl Process {
    /// The process with that pid, if there is one.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads `pid (name) state ppid pgrp session …`, see proc_pid_stat(5). The name may hold
    /// spaces and parentheses; the last closing one ends it.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, fields) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            start: fields.get(19)?.parse().ok()?,
            is_zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
            name: name.to_owned(),
        })
    }

    /// Its command line on one line, or its name in brackets where it has none.
    pub(crate) fn command(&self) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace(['\0', '\n', '\r', '\t'], " ");
        let line = line.trim();
        if line.is_empty() {
            return format!("[{}]", self.name);
        }
        let mut clipped: String = line.chars().take(COMMAND_LIMIT).collect();
        if clipped.len() < line.len() {
            clipped.push('…');
        }
        clipped
    }
}

/// All processes of this machine (or of this container).
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

/// The processes below `root`, without those that have already ended.
pub(crate) fn descendants(root: i32) -> Vec<Process> {
    below(&BTreeSet::from([root]), all())
}

/// Those of `processes` that descend from one of `roots`, roots and ended ones left out.
pub(crate) fn below(roots: &BTreeSet<i32>, processes: Vec<Process>) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for one in &processes {
        children.entry(one.parent).or_default().push(one.pid);
    }
    // Each list of children is taken once, so this ends and costs no more than the table is long:
    // a fork bomb makes it long and deep.
    let mut family = BTreeSet::new();
    let mut open: Vec<i32> = roots.iter().copied().collect();
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            family.insert(child);
            open.push(child);
        }
    }
    processes
        .into_iter()
        .filter(|one| family.contains(&one.pid) && !roots.contains(&one.pid) && !one.is_zombie)
        .collect()
}

/// The direct children of a single-threaded process, far faster than a walk over all processes.
/// `None` where the kernel does not offer the list.
pub(crate) fn children(pid: i32) -> Option<Vec<i32>> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Some(
        list.split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
    )
}

/// The number a process has in the innermost process table that knows it.
pub(crate) fn innermost_pid(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // A kernel without process tables of their own has no such line.
    numbers.map_or(Some(pid), |numbers| {
        numbers.split_ascii_whitespace().last()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 7 40 39 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5150 0 0\n";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.pid, process.parent, process.group), (42, 7, 40));
        assert_eq!(
            (process.session, process.start, process.is_zombie),
            (39, 5150, false)
        );
        assert_eq!(process.name, "a) b (c");
    }

    #[test]
    fn descent_is_found_in_any_order_of_pids() {
        let process = |pid, parent| Process {
            pid,
            parent,
            group: 0,
            session: 0,
            start: 0,
            is_zombie: false,
            name: String::new(),
        };
        let table = vec![process(3, 9), process(9, 20), process(20, 1), process(4, 1)];
        let found = below(&BTreeSet::from([20]), table);
        assert_eq!(found.iter().map(|one| one.pid).collect::<Vec<_>>(), [3, 9]);
    }

    #[test]
    fn this_process_is_in_the_table() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(all().iter().any(|one| one.pid == own));
        assert_ne!(Process::read(own).unwrap().command(), "");
    }
}
