//! The rules, one command or family at a time.

use super::path::{Path, Worth};
use super::scene::Scene;
use super::{Refusal, parts_of};
use crate::command::{Part, Unwrapped, Word, split};

const REMOVES: &str = "would remove a folder the machine or its people live on";
const GIVES_AWAY: &str = "would change who may use the system's own folders";
const RAW: &str = "would write to a disk or the memory past its file system";
const FORMATS: &str = "would make, change or remove file systems, partitions or volumes";
const STOPS: &str = "would stop the machine";
const ENDS_ALL: &str = "would end every process there is";
const LOCKS_OUT: &str = "would overwrite a file that nobody can log in without";
/// How many words of a text are looked at that a command is given to read.
const MOST_HANDED: usize = 1000;
const MULTIPLIES: &str = "starts itself again and again until the machine stands still";

/// Why this one command is refused, if it is.
pub(super) fn refused(part: &Part, scene: &Scene<'_>) -> Option<&'static str> {
    if let Some(reason) = redirected(part, scene) {
        return Some(reason);
    }
    let name = part.name()?;
    let call = Call { part, scene };
    match family(name)? {
        Family::Removes => call.removes(),
        Family::Finds => call.find(),
        Family::GivesAway => call.gives_away(),
        Family::Moves => call.moves(),
        Family::CopiesRaw => call.copies_raw(),
        Family::Tees => {
            let appends = call.has(&["-a", "--append"]);
            call.writes(call.operands(), !appends)
        }
        Family::Copies => call.writes(call.operands().last().into_iter(), true),
        Family::Cuts => call.writes(call.operands(), true),
        Family::Mirrors => call.mirrors(),
        Family::Formats => call.formats(name),
        Family::Stops => call.stops(name),
        Family::Kills => call.kills(),
        Family::KillsAll => Some(ENDS_ALL),
        Family::Interprets => call.forks(),
        Family::Cleans => call.cleans(),
    }
}

/// What a command is capable of, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Removes,
    Finds,
    GivesAway,
    Moves,
    CopiesRaw,
    Tees,
    Copies,
    Cuts,
    Mirrors,
    Formats,
    Stops,
    Kills,
    KillsAll,
    Interprets,
    Cleans,
}

fn family(name: &str) -> Option<Family> {
    Some(match name {
        "rm" | "shred" | "srm" | "wipe" | "scrub" | "unlink" | "rmdir" => Family::Removes,
        "git" => Family::Cleans,
        "find" => Family::Finds,
        "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" => Family::GivesAway,
        "mv" => Family::Moves,
        "dd" | "dc3dd" | "dcfldd" => Family::CopiesRaw,
        "tee" | "sponge" => Family::Tees,
        "cp" | "install" | "ln" | "ddrescue" => Family::Copies,
        "truncate" | "fallocate" => Family::Cuts,
        "rsync" => Family::Mirrors,
        "wipefs" | "blkdiscard" | "fdisk" | "sfdisk" | "cfdisk" | "gdisk" | "sgdisk" | "parted"
        | "hdparm" | "nvme" | "cryptsetup" | "pvcreate" | "pvremove" | "vgremove" | "lvremove"
        | "zpool" | "zfs" | "mdadm" | "badblocks" | "diskutil" | "mkfs" | "mke2fs" | "mkswap"
        | "mkntfs" | "mkdosfs" | "newfs" => Family::Formats,
        _ if name.starts_with("mkfs.") || name.starts_with("newfs_") => Family::Formats,
        "shutdown" | "reboot" | "poweroff" | "halt" | "init" | "telinit" | "systemctl"
        | "loginctl" | "kexec" => Family::Stops,
        "kill" => Family::Kills,
        "killall5" => Family::KillsAll,
        "perl" | "ruby" | "python" | "python2" | "python3" | "php" => Family::Interprets,
        _ => return None,
    })
}

/// Whether a word, as written and with quotes around or in it, may be the name of a command that
/// there are rules for.
pub(super) fn concerns(raw: &str) -> bool {
    let bare: String = raw
        .chars()
        .filter(|letter| !"'\"\\".contains(*letter))
        .collect();
    family(bare.rsplit_once('/').map_or(&bare, |(_, name)| name)).is_some()
}

/// Writing redirections.
fn redirected(part: &Part, scene: &Scene<'_>) -> Option<&'static str> {
    for redirection in part.redirections.iter().filter(|one| one.writes) {
        if redirection.operator.starts_with('<') {
            continue;
        }
        for path in scene.paths(&redirection.target, part) {
            if let Some(reason) = written(&path, !redirection.operator.ends_with(">>")) {
                return Some(reason);
            }
        }
    }
    None
}

fn written(path: &Path, overwrites: bool) -> Option<&'static str> {
    if path.is_raw_device() {
        return Some(RAW);
    }
    if path.is_trigger() {
        return Some(STOPS);
    }
    (overwrites && path.is_login_file()).then_some(LOCKS_OUT)
}

/// A command and where it runs.
struct Call<'c, 'h> {
    part: &'c Part,
    scene: &'c Scene<'h>,
}

impl<'c> Call<'c, '_> {
    /// The words behind the name that are no options.
    fn operands(&self) -> std::vec::IntoIter<&'c Word> {
        let mut found = Vec::new();
        let mut options = true;
        for word in self.part.words.iter().skip(1) {
            if options && word.literal() == Some("--") {
                options = false;
            } else if !options || !word.head().starts_with('-') || word.head() == "-" {
                found.push(word);
            }
        }
        found.into_iter()
    }

    fn literals(&self) -> impl Iterator<Item = &'c str> {
        self.part
            .words
            .iter()
            .skip(1)
            .filter_map(|word| word.literal())
    }

    /// Whether one of these words is among the arguments.
    fn has(&self, wanted: &[&str]) -> bool {
        self.literals().any(|word| wanted.contains(&word))
    }

    /// Whether a cluster of short options has this letter.
    fn has_letter(&self, letter: char) -> bool {
        self.literals()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    }

    fn paths(&self, word: &Word) -> Vec<Path> {
        self.scene.paths(word, self.part)
    }

    fn worth(&self, word: &Word) -> Option<(Worth, bool)> {
        let paths = self.paths(word);
        let worth = |path: &Path| Some((path.worth(self.scene.homes())?, path.contents));
        paths.iter().find_map(worth)
    }

    fn only_asks(&self) -> bool {
        self.has(&["--help", "--version", "-V"])
    }

    fn removes(&self) -> Option<&'static str> {
        if self.has(&["--no-preserve-root"]) {
            return Some(REMOVES);
        }
        for word in self.operands() {
            if self.worth(word).is_some() {
                return Some(REMOVES);
            }
            for path in self.paths(word) {
                if path.is_raw_device() {
                    return Some(RAW);
                }
                if path.is_login_file() {
                    return Some(LOCKS_OUT);
                }
            }
        }
        None
    }

    /// `find` that removes everything below a folder. A test that picks files makes it a matter of
    /// asking; a negated one still takes nearly everything.
    fn find(&self) -> Option<&'static str> {
        let roots: Vec<&Word> = self
            .part
            .words
            .iter()
            .skip(1)
            .skip_while(|word| matches!(word.literal(), Some("-H" | "-L" | "-P")))
            .take_while(|word| !word.head().starts_with(['-', '(', '!']))
            .collect();
        let here = Word::plain(".");
        let roots = if roots.is_empty() { vec![&here] } else { roots };
        if self.picks() || !roots.iter().any(|root| self.worth(root).is_some()) {
            return None;
        }
        let removes = |inner: &Part| {
            matches!(
                inner.name(),
                Some("rm" | "shred" | "srm" | "wipe" | "unlink" | "rmdir")
            ) && inner.words.iter().any(|word| word.raw().contains("{}"))
        };
        let inner = self.part.unwrapped();
        inner.parts.iter().skip(1).any(removes).then_some(REMOVES)
    }

    /// Whether a `find` has a test that picks some files and leaves the others.
    fn picks(&self) -> bool {
        if self.has(&["!", "-not", "-o", "-or", ","]) {
            return false;
        }
        const ALL: &[&str] = &[
            "-delete",
            "-depth",
            "-d",
            "-xdev",
            "-mount",
            "-follow",
            "-print",
            "-print0",
            "-ls",
            "-true",
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-mindepth",
            "-maxdepth",
            "-type",
            "-warn",
            "-nowarn",
            "-noleaf",
            "-ignore_readdir_race",
        ];
        let mut words = self.literals().peekable();
        while let Some(word) = words.next() {
            match word {
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    while words.next_if(|word| *word != ";" && *word != "+").is_some() {}
                }
                "-name" | "-iname" | "-path" | "-ipath" | "-wholename"
                    if words.peek().is_some_and(|pattern| *pattern != "*") =>
                {
                    return true;
                }
                "-name" | "-iname" | "-path" | "-ipath" | "-wholename" => {}
                _ if word.starts_with('-') && word.len() > 2 && !ALL.contains(&word) => {
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    fn gives_away(&self) -> Option<&'static str> {
        let recursive = self.has(&["--recursive"]) || self.has_letter('R');
        let mut operands = self.operands();
        let system = |word| matches!(self.worth(word), Some((Worth::System, _)));
        (recursive && operands.any(system)).then_some(GIVES_AWAY)
    }

    fn moves(&self) -> Option<&'static str> {
        let all: Vec<&Word> = self.operands().collect();
        let into = self.has(&["-t"]) || self.literals().any(|w| w.starts_with("--target-dir"));
        let (to, from) = all.split_last()?;
        let sources = if into { all.as_slice() } else { from };
        let gone = |word: &&Word| match self.worth(word) {
            // What lies in a home or a place may well be moved about.
            Some((Worth::Home | Worth::Place, contents)) => !contents,
            Some((Worth::System, _)) => true,
            None => false,
        };
        if sources.iter().any(gone) {
            return Some(REMOVES);
        }
        if sources
            .iter()
            .any(|word| self.paths(word).iter().any(Path::is_login_file))
        {
            return Some(LOCKS_OUT);
        }
        self.writes(std::iter::once(*to), true)
    }

    fn copies_raw(&self) -> Option<&'static str> {
        let targets = self.part.words.iter().skip(1).flat_map(|word| {
            self.scene
                .texts(word, self.part)
                .into_iter()
                .filter_map(|text| {
                    let target = text.strip_prefix("of=")?.to_owned();
                    Some(Word::plain(target))
                })
        });
        let targets: Vec<Word> = targets.collect();
        self.writes(targets.iter(), true)
    }

    fn writes<'w>(
        &self,
        mut targets: impl DoubleEndedIterator<Item = &'w Word>,
        overwrites: bool,
    ) -> Option<&'static str> {
        targets.find_map(|word| {
            self.paths(word)
                .iter()
                .find_map(|path| written(path, overwrites))
        })
    }

    fn mirrors(&self) -> Option<&'static str> {
        let deletes = self.literals().any(|word| word.starts_with("--del"));
        let to = self.operands().last()?;
        if deletes && self.worth(to).is_some() {
            return Some(REMOVES);
        }
        self.writes(std::iter::once(to), true)
    }

    /// File systems, partitions, volumes. A file that is no device may be formatted: an image of
    /// a disk is a file like any other.
    fn formats(&self, name: &str) -> Option<&'static str> {
        if self.only_asks() {
            return None;
        }
        let device = |word: &Word| self.paths(word).iter().any(Path::is_device);
        let on_device = self.operands().any(device);
        let unknown = |word: &Word| word.literal().is_none() && self.paths(word).len() != 1;
        let maybe = on_device || self.operands().any(unknown);
        let verb = |verbs: &[&str]| self.has(verbs);
        let acts = match name {
            "mke2fs" | "mkswap" | "mkntfs" | "mkdosfs" => maybe,
            _ if name.starts_with("mkfs") || name.starts_with("newfs") => maybe,
            "wipefs" => maybe && (self.has_letter('a') || self.has_letter('o') || verb(&["--all"])),
            "fdisk" | "sfdisk" | "cfdisk" | "gdisk" | "sgdisk" => {
                let looks = verb(&[
                    "--list", "--dump", "--json", "--print", "--info", "--verify",
                ]) || ['l', 'd', 'J', 'p', 'i', 'v'].iter().any(|letter| {
                    // `sgdisk -d` deletes; of the others it only prints.
                    !(*letter == 'd' && name == "sgdisk") && self.has_letter(*letter)
                });
                on_device && !looks
            }
            "parted" => on_device && !verb(&["print", "-l", "--list", "unit"]),
            "hdparm" => self
                .literals()
                .any(|w| w.contains("erase") || w.contains("sanitize")),
            "nvme" => verb(&[
                "format",
                "sanitize",
                "write-zeroes",
                "write-uncor",
                "delete-ns",
            ]),
            "cryptsetup" => on_device && verb(&["luksFormat", "luksErase", "erase", "reencrypt"]),
            "zpool" | "zfs" => verb(&["destroy", "labelclear"]),
            "mdadm" => verb(&["--zero-superblock"]),
            "badblocks" => on_device && self.has_letter('w'),
            "diskutil" => self.literals().any(|w| {
                let word = w.to_lowercase();
                word.contains("erase") || word.contains("partition") || word == "zerodisk"
            }),
            "vgremove" | "lvremove" | "pvremove" => self.operands().next().is_some(),
            _ => on_device,
        };
        acts.then_some(FORMATS)
    }

    fn stops(&self, name: &str) -> Option<&'static str> {
        if self.only_asks() {
            return None;
        }
        let first = self.literals().find(|word| !word.starts_with('-'));
        let stops = match name {
            "shutdown" => !self.has(&["-c", "-k", "--show"]),
            "init" | "telinit" => matches!(first, Some("0" | "6")),
            "systemctl" | "loginctl" => {
                matches!(
                    first,
                    Some(
                        "poweroff"
                            | "reboot"
                            | "halt"
                            | "kexec"
                            | "soft-reboot"
                            | "rescue"
                            | "emergency"
                            | "suspend"
                            | "hibernate"
                            | "hybrid-sleep"
                            | "exit"
                    )
                ) || (first == Some("isolate") || first == Some("start"))
                    && self.literals().any(|word| {
                        let target = word.strip_suffix(".target").unwrap_or_default();
                        ["poweroff", "reboot", "halt", "rescue", "emergency"].contains(&target)
                    })
            }
            "kexec" => self.has(&["-e", "--exec"]),
            _ => !self.has(&["-w", "--wtmp-only"]),
        };
        let own = name == "systemctl" && self.has(&["--user"]);
        (stops && !own).then_some(STOPS)
    }

    /// `git clean -fdx`, which removes all that is not kept.
    fn cleans(&self) -> Option<&'static str> {
        let mut words = self.part.words.iter().skip(1);
        let mut folder = Word::plain(".");
        loop {
            match words.next()?.literal() {
                Some("clean") => break,
                Some("-C" | "--work-tree") => folder = words.next()?.clone(),
                Some("-c" | "--git-dir" | "--namespace") => drop(words.next()),
                Some(option) if option.starts_with('-') => {
                    if let Some(tree) = option.strip_prefix("--work-tree=") {
                        folder = Word::plain(tree);
                    }
                }
                _ => return None,
            }
        }
        let forced = self.has(&["--force"]) || self.has_letter('f');
        let shows = self.has(&["--dry-run", "--interactive"])
            || self.has_letter('n')
            || self.has_letter('i');
        if !forced || shows {
            return None;
        }
        let (mut all, mut behind) = (true, false);
        for word in words {
            match word.literal() {
                Some("--") if !behind => behind = true,
                Some(option) if !behind && option.starts_with('-') => {}
                _ => {
                    all = false;
                    if self.worth(word).is_some() {
                        return Some(REMOVES);
                    }
                }
            }
        }
        (all && self.worth(&folder).is_some()).then_some(REMOVES)
    }

    /// `kill -9 -1`: the process -1 is every process.
    fn kills(&self) -> Option<&'static str> {
        let mut words = self.literals().peekable();
        match words.peek().copied() {
            Some("-s" | "-n" | "--signal") => {
                words.next();
                words.next();
            }
            Some("-l" | "-L" | "--list") => return None,
            Some(signal) if signal.starts_with('-') && signal != "--" => {
                words.next();
            }
            _ => {}
        }
        words.any(|word| word == "-1").then_some(ENDS_ALL)
    }

    /// Code of an interpreter that does nothing but fork.
    fn forks(&self) -> Option<&'static str> {
        let endless = |code: &str| {
            let code: String = code
                .chars()
                .filter(|letter| !letter.is_whitespace())
                .collect();
            code.contains("forkwhilefork")
                || code.contains("fork()while")
                || code.contains("whiletrue:fork")
                || code.contains("while(1){fork")
                || code.contains("loop{fork")
                || (code.contains("while1:os.fork()") || code.contains("whileTrue:os.fork()"))
        };
        self.literals().any(endless).then_some(MULTIPLIES)
    }
}

/// What a part does with what the part before it in the pipeline writes: paths for `xargs rm`, code
/// for a shell.
pub(super) fn fed(
    feeder: &Part,
    unwrapped: &Unwrapped,
    scene: &mut Scene<'_>,
) -> Option<&'static str> {
    let lists = matches!(feeder.name(), Some("echo" | "printf" | "ls" | "find"));
    if !lists {
        return None;
    }
    if removes_what_it_reads(unwrapped) {
        let call = Call {
            part: feeder,
            scene,
        };
        let picks = feeder.name() == Some("find") && call.picks();
        let listed = call.operands().any(|word| call.worth(word).is_some());
        return (listed && !picks).then_some(REMOVES);
    }
    // `echo CODE | sh`.
    if unwrapped.opaque.is_none() || !matches!(feeder.name(), Some("echo" | "printf")) {
        return None;
    }
    let code: Vec<&str> = feeder
        .words
        .iter()
        .skip(1)
        .filter_map(Word::literal)
        .collect();
    let parts = split(&code.join(" ")).ok()?;
    parts_of(&parts, scene).map(|found| found.reason)
}

fn removes_what_it_reads(unwrapped: &Unwrapped) -> bool {
    let any = |names: &[&str]| {
        let named = |part: &Part| part.name().is_some_and(|name| names.contains(&name));
        unwrapped.parts.iter().any(named)
    };
    any(&["xargs"]) && any(&["rm", "shred", "srm", "wipe", "unlink", "rmdir"])
}

/// What a part does with the text it is given to read: `xargs rm <<< PATHS`.
pub(super) fn handed(
    part: &Part,
    unwrapped: &Unwrapped,
    scene: &Scene<'_>,
) -> Option<&'static str> {
    if !removes_what_it_reads(unwrapped) {
        return None;
    }
    let call = Call { part, scene };
    let texts = part
        .redirections
        .iter()
        .filter(|one| one.operator.starts_with("<<"))
        .flat_map(|one| scene.texts(&one.target, part));
    texts
        .flat_map(|text| {
            let words = text.split_whitespace().take(MOST_HANDED);
            words.map(Word::plain).collect::<Vec<_>>()
        })
        .any(|word| call.worth(&word).is_some())
        .then_some(REMOVES)
}

/// Whether a command runs what it finds in a file of its own, which may set any variable: a login.
pub(super) fn may_set_anything(part: &Part) -> bool {
    let logs_in = |word: &Word| match word.literal() {
        Some("-" | "--login" | "--interactive") => true,
        Some(word) => word.starts_with('-') && !word.starts_with("--") && word.contains(['l', 'i']),
        None => true,
    };
    let name = part.name().unwrap_or_default();
    matches!(
        name,
        "bash" | "sh" | "dash" | "zsh" | "ksh" | "sudo" | "doas" | "su" | "runuser"
    ) && part
        .words
        .iter()
        .skip(1)
        .take_while(|word| word.head().starts_with('-') || word.literal().is_none())
        .any(logs_in)
}

/// A function that calls itself in a pipeline or in the background.
pub(super) fn fork_bomb(parts: &[Part]) -> Option<Refusal> {
    let calls_itself = |part: &&Part| {
        let within = part.function.as_deref();
        let reaches = part
            .words
            .iter()
            .take(8)
            .any(|word| word.literal() == within);
        within.is_some()
            && reaches
            && (part.literal(0) == within || part.unwrapped().parts.len() > 1)
            && (part.flow.piped || part.flow.background)
            && !part.substituted
    };
    // A script that starts itself: `$0 & $0`.
    let script = |part: &&Part| {
        part.words
            .first()
            .is_some_and(|word| word.raw().trim_matches('"') == "$0")
            && (part.flow.piped || part.flow.background)
    };
    let found = parts
        .iter()
        .find(calls_itself)
        .or_else(|| parts.iter().find(script))?;
    Some(Refusal::new(&found.text, MULTIPLIES))
}

/// The refusal of a text that multiplies itself.
pub(super) fn bomb(text: &str) -> Refusal {
    Refusal::new(text, MULTIPLIES)
}
