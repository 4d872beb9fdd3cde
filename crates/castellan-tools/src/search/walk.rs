//! Which files are to be searched: a parallel walk that follows no links and counts what it
//! passes by.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::glob::Filter;
use super::rules::{Rules, Said, Signs};
use super::stop::Stop;
use crate::file::Closed;

/// Files listed at most; a list is held in memory.
pub(super) const LISTED: usize = 1_000_000;

/// What a walk goes by.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    /// The folder, links followed.
    pub(super) root: &'a Path,
    pub(super) filter: &'a Filter,
    pub(super) closed: &'a Closed,
    /// Whether ignored and hidden files are wanted too.
    pub(super) everything: bool,
    pub(super) threads: usize,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The files, by path below the root, sorted.
    pub(super) files: Vec<PathBuf>,
    pub(super) skipped_files: u64,
    pub(super) skipped_folders: u64,
    /// Links, FIFOs, sockets and devices.
    pub(super) special: u64,
    /// Places of our own state.
    pub(super) closed: u64,
    /// What could not be listed, with what the system said.
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
    /// Whether there may be more files than are listed.
    pub(super) cut: bool,
}

impl Found {
    fn take(&mut self, other: Self) {
        self.files.extend(other.files);
        self.skipped_files += other.skipped_files;
        self.skipped_folders += other.skipped_folders;
        self.special += other.special;
        self.closed += other.closed;
        self.unreadable.extend(other.unreadable);
    }
}

struct Folder {
    /// Below the root.
    path: PathBuf,
    rules: Arc<Rules>,
}

/// The folders still to be listed.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    folders: Vec<Folder>,
    busy: usize,
    files: usize,
    cut: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next folder; waits while others may still find some.
    fn next(&self) -> Option<Folder> {
        let mut state = self.lock();
        loop {
            if state.cut {
                return None;
            }
            if let Some(folder) = state.folders.pop() {
                state.busy += 1;
                return Some(folder);
            }
            if state.busy == 0 {
                return None;
            }
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, folders: Vec<Folder>, files: usize) {
        let mut state = self.lock();
        state.busy -= 1;
        state.files += files;
        state.cut |= state.files > LISTED;
        let several = folders.len() > 1;
        state.folders.extend(folders);
        if several || state.busy == 0 || state.cut {
            self.changed.notify_all();
        }
    }
}

/// Ends the wait of the others also where this one panics.
struct Listing<'a> {
    queue: &'a Queue,
    folders: Vec<Folder>,
    files: usize,
}

impl Drop for Listing<'_> {
    fn drop(&mut self) {
        self.queue
            .done(std::mem::take(&mut self.folders), self.files);
    }
}

/// Lists the files.
pub(super) fn walk(ground: &Ground<'_>, stop: &Stop) -> Found {
    let queue = Queue::default();
    let rules = if ground.everything {
        Arc::default()
    } else {
        Rules::above(ground.root)
    };
    queue.lock().folders.push(Folder {
        path: PathBuf::new(),
        rules,
    });
    let walker = Walker {
        ground,
        watched: ground.closed.concerns(ground.root),
        // Named by the path itself, so that it is meant.
        git: ground.root.iter().any(|part| part == ".git"),
    };
    let mut found = Found::default();
    std::thread::scope(|scope| {
        let work = || {
            let mut found = Found::default();
            while let Some(folder) = queue.next() {
                let mut listing = Listing {
                    queue: &queue,
                    folders: Vec::new(),
                    files: 0,
                };
                if stop.is_reached() {
                    continue;
                }
                let before = found.files.len();
                walker.list(&folder, &mut found, &mut listing.folders);
                listing.files = found.files.len() - before;
            }
            found
        };
        let others: Vec<_> = (1..ground.threads).map(|_| scope.spawn(work)).collect();
        found.take(work());
        for other in others {
            match other.join() {
                Ok(part) => found.take(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    found.cut = queue.lock().cut || stop.is_reached();
    // By bytes: comparing part by part takes several times as long.
    found
        .files
        .sort_unstable_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    found.files.truncate(LISTED);
    found
}

struct Walker<'a> {
    ground: &'a Ground<'a>,
    /// Whether a part of the tree is closed.
    watched: bool,
    /// Whether folders named `.git` are entered.
    git: bool,
}

impl Walker<'_> {
    fn list(&self, folder: &Folder, found: &mut Found, folders: &mut Vec<Folder>) {
        let place = self.ground.root.join(&folder.path);
        let listed = match fs::read_dir(&place) {
            Ok(listed) => listed,
            // It went away since it was seen.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && folder.path != Path::new("") =>
            {
                return;
            }
            Err(error) => return found.unreadable.push((folder.path.clone(), error)),
        };
        let (mut entries, mut signs) = (Vec::new(), Signs::default());
        for entry in listed {
            match entry {
                Ok(entry) => {
                    let name = entry.file_name();
                    match name.as_bytes() {
                        b".ignore" => signs.own = true,
                        b".gitignore" => signs.git = true,
                        b".git" => signs.repository = true,
                        _ => {}
                    }
                    entries.push((entry, name));
                }
                Err(error) => {
                    found.unreadable.push((folder.path.clone(), error));
                    break;
                }
            }
        }
        let rules = if self.ground.everything {
            Arc::clone(&folder.rules)
        } else {
            Rules::within(&folder.rules, &place, signs)
        };
        for (entry, name) in entries {
            self.take(&entry, &name, folder, &rules, found, folders);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an entry of a folder, and the two places it may go"
    )]
    fn take(
        &self,
        entry: &DirEntry,
        name: &OsStr,
        folder: &Folder,
        rules: &Arc<Rules>,
        found: &mut Found,
        folders: &mut Vec<Folder>,
    ) {
        if !self.git && name == ".git" {
            return;
        }
        let path = folder.path.join(name);
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => return found.unreadable.push((path, error)),
        };
        if !kind.is_dir() && !kind.is_file() {
            found.special += 1;
            return;
        }
        let wanted = if kind.is_dir() {
            self.ground.filter.wants_folder(&path)
        } else {
            self.ground.filter.is_empty() || self.ground.filter.wants_file(&path)
        };
        if !wanted {
            return;
        }
        if self.watched
            && self
                .ground
                .closed
                .refuse(&self.ground.root.join(&path))
                .is_err()
        {
            found.closed += 1;
            return;
        }
        if !self.ground.everything && self.is_skipped(&entry.path(), name, kind.is_dir(), rules) {
            if kind.is_dir() {
                found.skipped_folders += 1;
            } else {
                found.skipped_files += 1;
            }
            return;
        }
        if kind.is_dir() {
            folders.push(Folder {
                path,
                rules: Arc::clone(rules),
            });
        } else {
            found.files.push(path);
        }
    }

    fn is_skipped(&self, place: &Path, name: &OsStr, is_folder: bool, rules: &Rules) -> bool {
        match rules.say(place, is_folder) {
            Said::Ignore => true,
            Said::Keep => false,
            Said::Nothing => {
                name.as_bytes().starts_with(b".") && !self.ground.filter.asks_for_hidden(name)
            }
        }
    }
}
