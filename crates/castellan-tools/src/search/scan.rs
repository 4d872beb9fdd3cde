//! Searching the listed files: in parallel, but in their order, so that a search that stops early
//! has looked at the first of them and finds the same every time.

use std::fs::File;
use std::io::{self, Read, Seek as _};
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
use crate::file::text::{Encoding, Extent, detect};

/// Matching lines, or files where only these are wanted, after which no further file is begun, and
/// shown at most.
pub(super) const MATCHES: u64 = 1000;
/// Bytes of the longest line that is searched; more of them are held in memory at once, one for
/// each thread.
const LINE: usize = 32 * 1024 * 1024;
/// Steps that one line may take at worst. Nothing can stop a regex within a line, so a query that
/// takes many steps for each byte gets shorter ones.
const STEPS: usize = 2_000_000_000;
/// But never shorter than this.
const SHORTEST: usize = 64 * 1024;

/// Bytes at the start of a file that tell what text it is.
const SNIFFED: u64 = 64 * 1024;

/// How a file is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Lines shown around a hit.
    pub(super) context: usize,
    /// How many steps the query may take for each byte.
    pub(super) width: usize,
    /// Bytes of hits after which no further file is begun.
    pub(super) bytes: u64,
    /// Whether hits are counted instead of shown.
    pub(super) files_only: bool,
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
    /// Lines that match.
    pub(super) matches: u64,
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
    /// Lines or files to show.
    shown: AtomicU64,
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
        Self {
            searcher: searcher(manner, None),
            matcher: matcher.clone(),
            manner,
            stop,
            scanned: Scanned::default(),
        }
    }

    fn run(mut self, root: &Path, files: &[PathBuf], tally: &Tally) -> Scanned {
        loop {
            let enough = tally.shown.load(Ordering::Relaxed) >= MATCHES
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
        let mut reader = Watched::new(file, self.stop);
        let mut sink = Collector::new(&self.matcher, self.manner);
        let mut searched = self
            .searcher
            .search_reader(&self.matcher, &mut reader, &mut sink);
        if sink.binary {
            reader.look_further();
        }
        // Its characters are those that read_file shows, not its bytes.
        if let Some(encoding) = reader.other.and_then(label)
            && reader.file.rewind().is_ok()
        {
            sink = Collector::new(&self.matcher, self.manner);
            searched = searcher(self.manner, Some(encoding)).search_reader(
                &self.matcher,
                &mut reader,
                &mut sink,
            );
        }
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
            let shown = if self.manner.files_only {
                1
            } else {
                sink.matches
            };
            tally.shown.fetch_add(shown, Ordering::Relaxed);
            tally.bytes.fetch_add(sink.bytes, Ordering::Relaxed);
            self.scanned.matches += sink.matches;
            self.scanned.hits.push(Hits {
                file: place,
                matches: sink.matches,
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
    /// The first bytes, where these came alone: a byte order mark is looked for in them.
    head: Vec<u8>,
    /// Whether it is known what text the file is.
    is_told: bool,
    /// What it is that has to be converted.
    other: Option<Encoding>,
}

impl<'a> Watched<'a> {
    const fn new(file: File, stop: &'a Stop) -> Self {
        Self {
            file,
            stop,
            broken: false,
            head: Vec::new(),
            is_told: false,
            other: None,
        }
    }

    /// Where a zero in the first bytes ended the search, they are not all there is to tell by.
    fn look_further(&mut self) {
        let mut beginning = Vec::new();
        if !self.is_told && self.file.rewind().is_ok() {
            self.head.clear();
            let read = (&self.file).take(SNIFFED).read_to_end(&mut beginning);
            if read.is_ok() {
                self.look(&beginning);
            }
        }
    }

    /// Tells from the beginning of a file what text it is.
    fn look(&mut self, bytes: &[u8]) {
        if self.head.is_empty() && bytes.len() <= 3 {
            return self.head.extend_from_slice(bytes);
        }
        self.is_told = true;
        // Nearly always; what is marked is converted anyway.
        let is_plain = std::str::from_utf8(bytes).is_ok() && memchr::memchr(0, bytes).is_none();
        let is_marked = self.head.starts_with(b"\xff\xfe") || self.head.starts_with(b"\xfe\xff");
        if is_plain || is_marked {
            return;
        }
        self.head.extend_from_slice(bytes);
        self.other = detect(&self.head, Extent::Beginning)
            .ok()
            .map(|(encoding, _)| encoding);
        self.head = Vec::new();
    }
}

/// What the library calls an encoding; `None` for what it reads as it is.
fn label(encoding: Encoding) -> Option<grep_searcher::Encoding> {
    let label = match encoding {
        Encoding::Utf8 | Encoding::DamagedUtf8 => return None,
        Encoding::SingleByte => "windows-1252",
        Encoding::Utf16Le => "utf-16le",
        Encoding::Utf16Be => "utf-16be",
    };
    grep_searcher::Encoding::new(label).ok()
}

fn searcher(manner: Manner, encoding: Option<grep_searcher::Encoding>) -> Searcher {
    let binary = if manner.named {
        BinaryDetection::convert(0)
    } else {
        BinaryDetection::quit(0)
    };
    SearcherBuilder::new()
        .encoding(encoding)
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .before_context(manner.context)
        .after_context(manner.context)
        .heap_limit(Some((STEPS / manner.width).clamp(SHORTEST, LINE)))
        // A file that is cut short while it is mapped ends the process.
        .memory_map(MmapChoice::never())
        .binary_detection(binary)
        .build()
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_reached() {
            return Ok(0);
        }
        let read = self.file.read(buffer);
        match &read {
            Ok(0) => {}
            Ok(length) if !self.is_told => self.look(buffer.get(..*length).unwrap_or_default()),
            Ok(_) => {}
            Err(error) => self.broken = error.kind() != io::ErrorKind::Interrupted,
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
    manner: Manner,
    binary: bool,
    binary_hit: bool,
    /// Whether there is more than is taken.
    cut: bool,
}

impl<'a> Collector<'a> {
    const fn new(matcher: &'a RegexMatcher, manner: Manner) -> Self {
        Self {
            matcher,
            lines: Vec::new(),
            matches: 0,
            // Of a path and a count.
            bytes: if manner.files_only { 64 } else { 0 },
            manner,
            binary: false,
            binary_hit: false,
            cut: false,
        }
    }

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
        if self.manner.files_only {
            self.matches += 1;
            return Ok(true);
        }
        if self.matches >= MATCHES || self.bytes >= self.manner.bytes {
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
