//! bubblewrap: the command gets a file system, a process table and, where asked for, a network of
//! its own.
//!
//! What it is told is what stands here. The first process inside is this program again (`inside`),
//! because bubblewrap's own would make an exit code of a death by signal, and would end what the
//! command left behind before anyone could be told.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::privilege::KEPT;
use crate::sandbox::{Network, SandboxPolicy};

/// What stands over what is below it.
enum Layer<'a> {
    Write(&'a Path),
    Hide(&'a Path, &'a [PathBuf]),
    Keep(&'a Path),
}

impl Layer<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Write(path) | Self::Hide(path, _) | Self::Keep(path) => path,
        }
    }
}

/// The arguments that make the sandbox, up to the command.
pub(super) fn arguments(policy: &SandboxPolicy, as_root: bool) -> Result<Vec<OsString>, String> {
    policy.check_hidden()?;
    let writable = policy.checked_writable()?;
    let mut arguments = Arguments(Vec::new());
    let all = if writable.contains(&Path::new("/")) {
        "--bind"
    } else {
        "--ro-bind"
    };
    arguments.add([all, "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    if as_root {
        // Root may write there what changes the whole machine, whatever else is taken from it.
        arguments.add(["--remount-ro", "/proc", "--cap-drop", "ALL"]);
        for (name, _) in KEPT {
            arguments.add(["--cap-add", name]);
        }
    }
    // What is hidden and does not exist need not be hidden, where nobody can make it.
    let hidden = policy.hidden.iter().filter(|hidden| {
        hidden.path.is_dir() || writable.iter().any(|w| hidden.path.starts_with(w))
    });
    let mut layers: Vec<Layer<'_>> = writable
        .iter()
        .filter(|path| **path != Path::new("/"))
        .map(|path| Layer::Write(path))
        .chain(hidden.map(|hidden| Layer::Hide(&hidden.path, &hidden.shown)))
        .chain(policy.checked_kept()?.into_iter().map(Layer::Keep))
        .collect();
    // Each covers what stands above it, so the outer ones come first.
    layers.sort_by_key(|layer| layer.path().components().count());
    for layer in layers {
        match layer {
            Layer::Write(path) => arguments.path("--bind", path),
            Layer::Keep(path) => arguments.path("--ro-bind", path),
            Layer::Hide(path, shown) => {
                arguments.add(["--perms", "0555", "--tmpfs"]);
                arguments.0.push(path.into());
                for shown in shown.iter().filter(|shown| shown.is_dir()) {
                    arguments.path("--ro-bind", shown);
                }
                arguments.add(["--remount-ro"]);
                arguments.0.push(path.into());
            }
        }
    }
    arguments.add(["--unshare-pid", "--as-pid-1", "--die-with-parent"]);
    if policy.network == Network::Deny {
        arguments.add(["--unshare-net"]);
    }
    Ok(arguments.0)
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, arguments: [&str; N]) {
        self.0.extend(arguments.map(OsString::from));
    }

    /// The same place inside as outside.
    fn path(&mut self, how: &str, path: &Path) {
        self.0.extend([how.into(), path.into(), path.into()]);
    }
}
