//! Which paths are the machine's own.

/// Stands for `*` in a path.
pub(in crate::command) const ANY: char = '\u{1}';
/// Stands for `?`.
pub(in crate::command) const ONE: char = '\u{2}';
/// Stands for the `[` of a set.
pub(in crate::command) const SET: char = '\u{3}';
/// Stands for what is not known.
pub(in crate::command) const UNKNOWN: char = '\u{4}';
/// Stands for what lies past a bound and was not looked at.
pub(super) const UNSEEN: char = '\u{6}';

/// What makes a path one that must not go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// `/`, or a folder the system can't run without.
    System,
    /// A folder of the system that holds what was put there: `/opt`, `/usr/local`, `/mnt`.
    Place,
    /// A home folder.
    Home,
}

/// Without these nothing runs.
const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "boot/efi",
    "boot/grub",
    "dev",
    "etc",
    "etc/pam.d",
    "etc/ssh",
    "etc/systemd",
    "lib",
    "lib/modules",
    "lib/systemd",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "usr",
    "usr/bin",
    "usr/include",
    "usr/lib",
    "usr/lib32",
    "usr/lib64",
    "usr/libexec",
    "usr/sbin",
    "usr/share",
    "var",
    "var/lib",
    "var/lib/dpkg",
    "var/spool",
    "nix",
    "nix/store",
    "gnu",
    "gnu/store",
    "System",
    "Library",
    "private",
    "private/etc",
    "private/var",
];
/// Kept by the system, filled by people.
const PLACES: &[&str] = &[
    "home",
    "media",
    "mnt",
    "opt",
    "snap",
    "srv",
    "usr/local",
    "usr/local/bin",
    "usr/local/lib",
    "usr/local/sbin",
    "usr/local/share",
    "usr/src",
    "var/log",
    "var/mail",
    "var/db",
    "Users",
    "Applications",
    "Volumes",
];
/// Files nobody can log in without.
const LOGIN_FILES: &[&str] = &[
    "etc/passwd",
    "etc/shadow",
    "etc/group",
    "etc/gshadow",
    "etc/sudoers",
    "etc/fstab",
];
/// How the names of block devices and of raw memory begin.
const RAW_DEVICES: &[&str] = &[
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "loop", "sr", "nbd",
    "zd", "zram", "pmem", "mapper/", "disk/", "block/", "mem", "kmem", "port",
];

/// A path in its parts, and whether it means what lies in the folder rather than the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) parts: Vec<String>,
    pub(super) contents: bool,
}

/// The path that `text` means in the folder `cwd`. `None` where it hangs on what is not known.
pub(super) fn path(text: &str, cwd: Option<&str>) -> Option<Path> {
    let mut parts: Vec<String> = Vec::new();
    let whole = if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("{}/{text}", cwd?)
    };
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_some_and(|gone| gone.contains(UNKNOWN)) {
                    return None;
                }
            }
            part => {
                parts.push(part.to_owned());
                through_proc(&mut parts, cwd);
            }
        }
    }
    let mut contents = false;
    while parts.last().is_some_and(|part| is_everything(part)) {
        parts.pop();
        contents = true;
    }
    Some(Path { parts, contents })
}

/// `/proc/self/root` and its kind are the folders that the links there lead to.
fn through_proc(parts: &mut Vec<String>, cwd: Option<&str>) {
    if let [proc, process, link] = parts.as_slice() {
        let number = process.bytes().all(|byte| byte.is_ascii_digit());
        let pattern = process.contains([ANY, ONE, SET, UNKNOWN]);
        let known = number || pattern || matches!(process.as_str(), "self" | "thread-self");
        let to = match link.as_str() {
            "root" => "",
            "cwd" => cwd.unwrap_or_default(),
            _ => return,
        };
        if proc != "proc" || !known || (link == "cwd" && cwd.is_none()) {
            return;
        }
        let folder = to.split('/').filter(|part| !part.is_empty());
        let folder: Vec<String> = folder.map(str::to_owned).collect();
        *parts = folder;
    }
}

/// Whether a pattern takes everything, or everything hidden, in its folder.
fn is_everything(pattern: &str) -> bool {
    let mut letters = pattern.chars();
    let mut any = false;
    while let Some(letter) = letters.next() {
        match letter {
            ANY => any = true,
            ONE | '.' => {}
            SET => {
                letters
                    .by_ref()
                    .take_while(|letter| *letter != ']')
                    .for_each(drop);
            }
            _ => return false,
        }
    }
    any
}

impl Path {
    /// What makes it a path that must not go, if anything does.
    pub(super) fn worth(&self, homes: &[String]) -> Option<Worth> {
        let parts: Vec<&str> = self.parts.iter().map(String::as_str).collect();
        if let [place @ ("home" | "Users"), user] = parts.as_slice() {
            // Any user's, also one whose name is not known; a pattern has to fit one that is known.
            let shared = *place == "Users" && *user == "Shared";
            let pattern = user.contains([ANY, ONE, SET]);
            let home = !shared && (!pattern || homes.iter().any(|home| self.holds(home)));
            return home.then_some(Worth::Home);
        }
        if parts.iter().any(|part| part.contains(UNKNOWN)) {
            return None;
        }
        if parts.is_empty() {
            return Some(Worth::System);
        }
        if homes.iter().any(|home| self.holds(home)) {
            return Some(Worth::Home);
        }
        if SYSTEM.iter().any(|known| self.is(known)) {
            return Some(Worth::System);
        }
        PLACES
            .iter()
            .any(|known| self.is(known))
            .then_some(Worth::Place)
    }

    /// Whether it is the absolute path `known`, written without its first slash.
    fn is(&self, known: &str) -> bool {
        let mut known = known.split('/');
        self.parts
            .iter()
            .all(|pattern| known.next().is_some_and(|name| matches(pattern, name)))
            && known.next().is_none()
    }

    /// Whether the folder `home` is it or lies in it.
    fn holds(&self, home: &str) -> bool {
        let home: Vec<&str> = home.split('/').filter(|part| !part.is_empty()).collect();
        self.parts.len() <= home.len()
            && self
                .parts
                .iter()
                .zip(&home)
                .all(|(pattern, name)| matches(pattern, name))
    }

    /// Whether it is a disk or the memory, not a file on one.
    pub(super) fn is_raw_device(&self) -> bool {
        match self.parts.split_first() {
            Some((dev, rest)) if dev == "dev" && !rest.is_empty() => {
                let name = rest.join("/");
                let known = RAW_DEVICES.iter().any(|begin| name.starts_with(begin));
                // Not what begins alike: /dev/mem is listed, /dev/memory is nothing.
                known && !name.starts_with("shm/")
            }
            _ => false,
        }
    }

    /// Whether it is anything below `/dev` but the usual harmless ones.
    pub(super) fn is_device(&self) -> bool {
        const HARMLESS: &[&str] = &["null", "zero", "full", "stdin", "stdout", "stderr", "tty"];
        match self.parts.as_slice() {
            [dev, name, ..] if dev == "dev" => !HARMLESS.contains(&name.as_str()) && name != "shm",
            _ => false,
        }
    }

    /// Whether nobody could log in without this file.
    pub(super) fn is_login_file(&self) -> bool {
        !self.contents && LOGIN_FILES.iter().any(|known| self.is(known))
    }

    /// Whether writing to it stops the machine.
    pub(super) fn is_trigger(&self) -> bool {
        self.is("proc/sysrq-trigger")
    }
}

/// Whether a file pattern fits a name. Sets of letters are taken to fit any letter.
pub(in crate::command) fn matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains([ANY, ONE, SET]) {
        return pattern == name;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // The places in the name that the pattern up to here may have come to.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut index = 0;
    while let Some(letter) = pattern.get(index) {
        index += 1;
        let mut next = vec![false; name.len() + 1];
        if *letter == SET {
            let rest = pattern.get(index..).unwrap_or_default();
            index += rest
                .iter()
                .position(|letter| *letter == ']')
                .map_or(0, |end| end + 1);
        }
        let mut before = false;
        for place in 0..=name.len() {
            let here = reached.get(place).copied().unwrap_or_default();
            let came = place
                .checked_sub(1)
                .and_then(|last| reached.get(last))
                .copied();
            let one = came.unwrap_or_default();
            before |= here;
            let fits = match *letter {
                ANY => before,
                ONE | SET => one,
                plain => one && name.get(place.wrapping_sub(1)) == Some(&plain),
            };
            if let Some(slot) = next.get_mut(place) {
                *slot = fits;
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}
