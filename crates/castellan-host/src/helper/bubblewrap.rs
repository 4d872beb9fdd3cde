//! bubblewrap: the command gets a file system, a process table and, where asked for, a network of
//! its own.
//!
//! The first process inside is this program again (`inside`), because bubblewrap's own would make
//! an exit code of a death by signal, and would end what the command left behind before anyone
//! could be told. It is started through a descriptor, so that it is found whatever is hidden and
//! whatever became of the file since, and speaks to the helper through its standard input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::geteuid;

use super::privilege::KEPT;
use super::{HELPER_ARG, INSIDE_ARG, errno};
use crate::protocol::{Inner, Job, Refused, Word};
use crate::sandbox::{Network, SandboxPolicy};

/// How long bubblewrap may take to read what it is to run.
const PATIENCE: Duration = Duration::from_secs(5);

/// The helper's end of what is said with the first process inside.
#[derive(Debug)]
pub(super) struct Inside {
    socket: UnixStream,
    buffer: Vec<u8>,
}

impl Inside {
    /// What there is to wait for.
    pub(super) const fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// The words that have come, without waiting for more.
    pub(super) fn words(&mut self) -> Vec<Word> {
        let mut chunk = [0; 256];
        // Whatever error there is, nothing more can be learned here.
        while let Ok(length @ 1..) = self.socket.read(&mut chunk) {
            self.buffer
                .extend_from_slice(chunk.get(..length).unwrap_or_default());
        }
        let mut words = Vec::new();
        while let Some(bytes) = self.buffer.first_chunk::<{ Word::LENGTH }>() {
            words.extend(Word::from_bytes(*bytes));
            self.buffer.drain(..Word::LENGTH);
        }
        words
    }
}

/// Starts bubblewrap with the command. The command itself is not started before a word says so.
pub(super) fn start_inside(
    job: &Job,
    policy: &SandboxPolicy,
    program: &Path,
) -> Result<(Child, Inside), Refused> {
    let refuse = |reason: String| Refused::Sandbox { reason };
    let failed = |what: &'static str| move |error: io::Error| refuse(format!("{what}: {error}"));
    let arguments = arguments(policy, geteuid().is_root()).map_err(refuse)?;
    let own = File::open("/proc/self/exe").map_err(failed("our own program can't be opened"))?;
    let inherited = FcntlArg::F_SETFD(FdFlag::empty());
    fcntl(own.as_fd(), inherited).map_err(|errno| failed("a descriptor")(errno.into()))?;
    let (ours, theirs) = UnixStream::pair().map_err(failed("a pair of sockets"))?;

    let child = spawn(
        program,
        arguments,
        &format!("/proc/self/fd/{}", own.as_raw_fd()),
        theirs,
    )
    .map_err(|error| refuse(format!("{} can't be started: {error}", program.display())))?;
    // With a bound: what was started may not be bubblewrap at all. What it is that ended without
    // reading is learned from what it says.
    let told = ours.set_write_timeout(Some(PATIENCE)).and_then(|()| tell(&ours, job, policy));
    match told {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(refuse(format!(
                "{} did not take the command within {} s",
                program.display(),
                PATIENCE.as_secs()
            )));
        }
        Ok(()) | Err(_) => {}
    }
    ours.set_nonblocking(true).map_err(failed("a socket"))?;
    let inside = Inside {
        socket: ours,
        buffer: Vec::new(),
    };
    Ok((child, inside))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the place where a command in a sandbox is born"
)]
fn spawn(
    program: &Path,
    arguments: Vec<OsString>,
    own: &str,
    socket: UnixStream,
) -> io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    Command::new(program)
        .args(arguments)
        .args(["--", own, HELPER_ARG, INSIDE_ARG])
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

fn tell(mut socket: &UnixStream, job: &Job, policy: &SandboxPolicy) -> io::Result<()> {
    let text = serde_json::to_vec(&Inner {
        program: job.program.clone(),
        args: job.args.clone(),
        cwd: job.cwd.clone(),
        env: job.env.clone(),
        is_cut_off: policy.network == Network::Deny,
    })?;
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    socket.write_all(&length.to_le_bytes())?;
    socket.write_all(&text)
}

/// What stands over what is below it.
enum Layer<'a> {
    Write(&'a Path),
    Hide(&'a Path, &'a [PathBuf]),
}

impl Layer<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Write(path) | Self::Hide(path, _) => path,
        }
    }
}

/// The arguments that make the sandbox, up to the command.
fn arguments(policy: &SandboxPolicy, as_root: bool) -> Result<Vec<OsString>, String> {
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
        .collect();
    // Each covers what stands above it, so the outer ones come first.
    layers.sort_by_key(|layer| layer.path().components().count());
    for layer in layers {
        match layer {
            Layer::Write(path) => arguments.path("--bind", path),
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

/// The system's number in a word of refusal, as a refusal.
pub(super) fn refusal(word: Word) -> Option<Refused> {
    match word {
        Word::WorkingFolder(errno) => Some(Refused::WorkingFolder { errno }),
        Word::Program(errno) => Some(Refused::Program { errno }),
        Word::Broken(errno) => Some(Refused::Sandbox {
            reason: format!(
                "the network can't be cut off: {}",
                io::Error::from_raw_os_error(errno)
            ),
        }),
        Word::Started(_) | Word::Exited(_) | Word::Signalled(_) => None,
    }
}
