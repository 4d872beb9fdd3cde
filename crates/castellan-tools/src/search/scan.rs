//! Searching the listed files: in parallel, but in their order, so that a search that stops early
//! has looked at the first of them and finds the same every time.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish,
    SinkMatch,
};

use super::line;
use super::stop::Stop;
use crate::file;

/// Matching lines after which no further file is begun, and shown at most.
pub(super) const MATCHES: u64 = 1000;
/// Bytes of the longest line that is searched; more of them are held in memory at once, one for
/// each thread.
const LINE: usize = 32 * 1024 * 1024;

/// How a file is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Lines shown around a hit.
    pub(super) context: usize,
    /// Bytes of hits after which no further file is begun.
    pub(super) bytes: u64,
    /// A file that was named is searched to its end though it is binary.
    pub(super) named: bool,
    pub(super) threads: usize,
}

/// A line of a file, as it is shown.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) is_hit: bool,
    pub(super) text: String,
}

/// The hits in a file.
#[derive(Debug)]
pub(super) struct Hits {
    /// Its place in the list.
    pub(super) file: usize,
    pub(super) lines: Vec<Line>,
}

/// What a search found.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// In the order of the list.
    pub(super) hits: Vec<Hits>,
    pub(super) matches: u64,
    /// Files searched, at least in part.
    pub(super) searched: u64,
    /// Binary files, by their place, and whether they were seen to match.
    pub(super) binary: Vec<(usize, bool)>,
    /// Files that could not be read, by their place.
    pub(super) unreadable: Vec<(usize, io::Error)>,
    /// Files with a line too long to search.
    pub(super) long: Vec<usize>,
    /// Whether there is more than was looked at.
    pub(super) partial: bool,
}

impl Scanned {
    fn take(&mut self, other: Self) {
        self.hits.extend(other.hits);
        self.matches += other.matches;
        self.searched += other.searched;
        self.binary.extend(other.binary);
        self.unreadable.extend(other.unreadable);
        self.long.extend(other.long);
        self.partial |= other.partial;
    }
}

/// What all threads count together.
#[derive(Default)]
struct Tally {
    next: AtomicUsize,
    matches: AtomicU64,
    bytes: AtomicU64,
}

/// Searches `files`, which are below `root`; the root itself where their path is empty.
pub(super) fn scan(
    root: &Path,
    files: &[PathBuf],
    matcher: &RegexMatcher,
    manner: Manner,
    stop: &Stop,
) -> Scanned {
    let tally = Tally::default();
    let threads = manner.threads.min(files.len()).max(1);
    let mut scanned = Scanned::default();
    std::thread::scope(|scope| {
        let work = || Worker::new(matcher, manner, stop).run(root, files, &tally);
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        scanned.take(work());
        for other in others {
            match other.join() {
                Ok(part) => scanned.take(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    scanned.partial |= stop.is_reached() || tally.next.load(Ordering::Relaxed) < files.len();
    scanned.hits.sort_unstable_by_key(|hits| hits.file);
    scanned.binary.sort_unstable();
    scanned.unreadable.sort_unstable_by_key(|(file, _)| *file);
    scanned.long.sort_unstable();
    scanned
}

struct Worker<'a> {
    searcher: Searcher,
    /// A clone of its own: threads that share one wait for each other's caches.
    matcher: RegexMatcher,
    manner: Manner,
    stop: &'a Stop,
    scanned: Scanned,
}

impl<'a> Worker<'a> {
    fn new(matcher: &RegexMatcher, manner: Manner, stop: &'a Stop) -> Self {
        let binary = if manner.named {
            BinaryDetection::convert(0)
        } else {
            BinaryDetection::quit(0)
        };
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(manner.context)
            .after_context(manner.context)
            .heap_limit(Some(LINE))
            // A file that is cut short while it is mapped ends the process.
            .memory_map(MmapChoice::never())
            .binary_detection(binary)
            .build();
        Self {
            searcher,
            matcher: matcher.clone(),
            manner,
            stop,
            scanned: Scanned::default(),
        }
    }

    fn run(mut self, root: &Path, files: &[PathBuf], tally: &Tally) -> Scanned {
        loop {
            let enough = tally.matches.load(Ordering::Relaxed) >= MATCHES
                || tally.bytes.load(Ordering::Relaxed) >= self.manner.bytes;
            if enough || self.stop.is_reached() {
                return self.scanned;
            }
            let place = tally.next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(place) else {
                return self.scanned;
            };
            let opened = if path.as_os_str().is_empty() {
                file::open_listed(root)
            } else {
                file::open_listed(&root.join(path))
            };
            match opened {
                Ok(Some(file)) => self.search(place, file, tally),
                Ok(None) => {}
                Err(error) => self.scanned.unreadable.push((place, error)),
            }
        }
    }

    fn search(&mut self, place: usize, file: File, tally: &Tally) {
        let mut reader = Watched {
            file,
            stop: self.stop,
            broken: false,
        };
        let mut sink = Collector {
            matcher: &self.matcher,
            lines: Vec::new(),
            matches: 0,
            bytes: 0,
            room: self.manner.bytes,
            binary: false,
            binary_hit: false,
            cut: false,
        };
        let searched = self
            .searcher
            .search_reader(&self.matcher, &mut reader, &mut sink);
        match searched {
            Ok(()) => {}
            Err(error) if reader.broken => return self.scanned.unreadable.push((place, error)),
            // Only a line that doesn't fit the buffer is left.
            Err(_) => self.scanned.long.push(place),
        }
        self.scanned.searched += 1;
        if sink.binary {
            let hit = sink.binary_hit || sink.matches > 0;
            self.scanned.binary.push((place, hit));
            return;
        }
        self.scanned.partial |= sink.cut;
        if sink.matches > 0 {
            tally.matches.fetch_add(sink.matches, Ordering::Relaxed);
            tally.bytes.fetch_add(sink.bytes, Ordering::Relaxed);
            self.scanned.matches += sink.matches;
            self.scanned.hits.push(Hits {
                file: place,
                lines: sink.lines,
            });
        }
    }
}

/// A file that ends where the search should stop.
struct Watched<'a> {
    file: File,
    stop: &'a Stop,
    /// Whether reading failed.
    broken: bool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_reached() {
            return Ok(0);
        }
        let read = self.file.read(buffer);
        if let Err(error) = &read {
            self.broken = error.kind() != io::ErrorKind::Interrupted;
        }
        read
    }
}

/// Takes the hits of a file.
struct Collector<'a> {
    matcher: &'a RegexMatcher,
    lines: Vec<Line>,
    matches: u64,
    bytes: u64,
    room: u64,
    binary: bool,
    binary_hit: bool,
    /// Whether there is more than is taken.
    cut: bool,
}

impl Collector<'_> {
    fn push(&mut self, number: Option<u64>, is_hit: bool, text: String) {
        self.bytes += text.len() as u64 + 8;
        self.lines.push(Line {
            number: number.unwrap_or_default(),
            is_hit,
            text,
        });
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.binary {
            self.binary_hit = true;
            return Ok(false);
        }
        if self.matches >= MATCHES || self.bytes >= self.room {
            self.cut = true;
            return Ok(false);
        }
        self.matches += 1;
        let text = line::hit(found.bytes(), self.matcher);
        self.push(found.line_number(), true, text);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if !self.binary {
            self.push(context.line_number(), false, line::context(context.bytes()));
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}
