//! Landlock: the kernel refuses what the policy does not allow.
//!
//! The process that starts the command (`inside`) takes the restrictions on itself, and what it
//! starts inherits them. The helper stays free to end them all.
//!
//! Landlock knows only what is allowed. A hidden folder is therefore closed by allowing to read
//! everything around it, name by name: what its parents hold when the command starts. The names in
//! it stay visible. Inside a writable folder nothing can be closed, see `Sandbox::gaps`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
    Scope, make_bitflags,
};
use nix::libc::{O_NOFOLLOW, O_PATH};
use nix::unistd::geteuid;

use super::filter::{Sockets, cut_off};
use super::privilege;
use crate::sandbox::{Network, SandboxPolicy};

/// The rights that are handled, or nothing runs.
const HANDLED: ABI = ABI::V3;
/// What a folder with more entries than this on the way to a hidden one costs at each command is no
/// longer bearable.
const ENTRIES: usize = 20_000;

const LOOK: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
const FILE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{Execute | ReadFile | WriteFile | Truncate});
/// Devices can't be made: root could make one of a disk.
const DEVICES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeChar | MakeBlock});

/// Devices every program takes for granted.
const WRITABLE_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
    "/dev/mqueue",
];

/// Restricts this process, which has a single thread, and what it starts. Returns the version of
/// Landlock that is in force.
pub(super) fn restrict(policy: &SandboxPolicy) -> Result<u32, String> {
    privilege::give_up(geteuid().is_root())
        .map_err(|error| format!("powers can't be given up: {error}"))?;
    let landlock = |error: ::landlock::RulesetError| match error {
        ::landlock::RulesetError::HandleAccesses(_) => {
            "the kernel does not have Landlock, or one older than ABI 3 (Linux 6.2)".to_owned()
        }
        other => format!("Landlock refuses: {}", castellan_core::text::chain(&other)),
    };
    let mut rules = ruleset(policy.network).map_err(landlock)?;
    let writable = policy.checked_writable()?;
    for path in &writable {
        let all = AccessFs::from_all(HANDLED) & !DEVICES;
        rules = allow(rules, path, all).map_err(landlock)?;
    }
    for path in WRITABLE_DEVICES {
        let all = AccessFs::from_all(HANDLED) & !DEVICES;
        rules = allow(rules, Path::new(path), all).map_err(landlock)?;
    }
    for (path, rights) in readable(policy, &writable)? {
        rules = allow(rules, &path, rights).map_err(landlock)?;
    }
    let status = rules.restrict_self().map_err(landlock)?;
    if status.ruleset != RulesetStatus::FullyEnforced && status.ruleset != partly() {
        return Err("Landlock is not in force although the kernel took it".to_owned());
    }
    let LandlockStatus::Available { effective_abi, .. } = status.landlock else {
        return Err("the kernel does not have Landlock".to_owned());
    };
    if policy.network == Network::Deny {
        cut_off(Sockets::Local).map_err(|error| format!("seccomp refuses: {error}"))?;
    }
    Ok(effective_abi as u32)
}

/// Rights over files are required; what later versions add is taken where it is there, so a status
/// of "partially" is about that alone.
const fn partly() -> RulesetStatus {
    RulesetStatus::PartiallyEnforced
}

fn ruleset(network: Network) -> Result<RulesetCreated, ::landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(HANDLED))?
        .set_compatibility(CompatLevel::BestEffort)
        // The helper, and everything else outside, can't be ended from inside.
        .scope(Scope::Signal)?;
    if network == Network::Deny {
        rules = rules
            .handle_access(AccessNet::from_all(ABI::V4))?
            .scope(Scope::AbstractUnixSocket)?;
    }
    rules.create()
}

/// Adds a rule. A path that is not there needs none.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ::landlock::RulesetError> {
    let Ok((file, is_folder)) = open(path) else {
        return Ok(rules);
    };
    let rights = if is_folder { rights } else { rights & FILE };
    rules.add_rule(PathBeneath::new(file, rights).set_compatibility(CompatLevel::HardRequirement))
}

/// Opens a path to speak of it, not to read it, and never through a link at its end.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_PATH | O_NOFOLLOW)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_symlink() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok((file, kind.is_dir()))
}

/// What may be read: everything, or everything around what is hidden.
fn readable(
    policy: &SandboxPolicy,
    writable: &[&Path],
) -> Result<Vec<(PathBuf, BitFlags<AccessFs>)>, String> {
    policy.check_hidden()?;
    let root = Path::new("/");
    let hidden: Vec<&Path> = policy
        .hidden
        .iter()
        .map(|hidden| hidden.path.as_path())
        .filter(|path| !writable.iter().any(|folder| path.starts_with(folder)))
        .collect();
    if hidden.is_empty() {
        return Ok(vec![(root.to_owned(), LOOK)]);
    }
    let mut rules = vec![(root.to_owned(), AccessFs::ReadDir.into())];
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let on_the_way = |path: &Path| hidden.iter().any(|hidden| hidden.starts_with(path));
        match fs::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    let path = entry.path();
                    if hidden.contains(&path.as_path()) {
                    } else if on_the_way(&path) {
                        open.push(path);
                    } else if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                        rules.push((path, LOOK));
                    }
                    if rules.len() > ENTRIES {
                        return Err(format!(
                            "there are more than {ENTRIES} files and folders beside those to be \
                             hidden, such as in {}; Landlock would need a rule for each (bubblewrap \
                             needs none)",
                            folder.display()
                        ));
                    }
                }
            }
            // A folder that can be passed through but not listed: only our own way is known.
            Err(_) => open.extend(
                hidden
                    .iter()
                    .flat_map(|hidden| hidden.ancestors())
                    .filter(|path| path.parent() == Some(&folder) && !hidden.contains(path))
                    .map(Path::to_owned),
            ),
        }
    }
    let shown = policy.hidden.iter().flat_map(|hidden| &hidden.shown);
    rules.extend(shown.map(|shown| (shown.clone(), LOOK)));
    Ok(rules)
}
