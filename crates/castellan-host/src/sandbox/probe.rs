//! Climbing down the ladder: each rung runs a trial command and is judged by what came of it.
//!
//! That a program is there, or that the kernel says it knows Landlock, is no proof: namespaces may
//! be forbidden, a wrapper may be in the way. So the trial tries to write where it must not, and to
//! read what is hidden.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use castellan_core::CancelSource;
use castellan_core::Ids as _;

use super::{HiddenFolder, Network, Rung, Sandbox, SandboxPolicy};
use crate::env::Environment;
use crate::shell::{End, Shell, ShellJob};
use crate::system::SystemIds;

/// How long a trial may take: a hundred times what it takes.
const PATIENCE: Duration = Duration::from_secs(3);
/// The oldest Landlock that counts. Before it a command may truncate any file, which is writing.
const OLDEST_LANDLOCK: u32 = 3;
/// The most of a trial's output that is looked at.
const OUTPUT: usize = 16 * 1024;

/// Says what it could do, one word a line. `$1` is the trial's folder.
const SCRIPT: &str = r#"
echo x > "$1/in/file" && echo wrote-inside
echo x > "$1/out/file" || echo kept-outside
cat "$1/hidden/file" > /dev/null || echo kept-hidden
echo x > /dev/null && echo device
test -r /proc/self/stat && echo proc
echo "pid $(readlink /proc/self/ns/pid)"
echo "net $(readlink /proc/self/ns/net)"
test -n "$2" && echo "version $("$2" --version)"
exit 0
"#;

/// The best rung, and why those above it are not taken.
pub(super) async fn ladder(
    sandbox: &Sandbox,
    shell: &Shell,
    environment: &Environment,
) -> (Rung, Vec<String>) {
    let mut passed = Vec::new();
    match bubblewrap(sandbox, shell, environment).await {
        Ok(rung) => return (rung, passed),
        Err(why) => passed.push(format!("bubblewrap: {why}")),
    }
    match landlock(sandbox, shell, environment).await {
        Ok(rung) => return (rung, passed),
        Err(why) => passed.push(format!("Landlock: {why}")),
    }
    let why = passed.join("; ");
    (Rung::None { why }, passed)
}

async fn bubblewrap(
    sandbox: &Sandbox,
    shell: &Shell,
    environment: &Environment,
) -> Result<Rung, String> {
    let program = search("bwrap", environment.get("PATH").unwrap_or_default())
        .ok_or("it is not installed (apt-get install bubblewrap)")?;
    let rung = Rung::Bubblewrap {
        program: program.clone(),
        version: String::new(),
    };
    let trial = Trial::run(sandbox, shell, environment, rung).await?;
    trial.require("kept-hidden", "it let a command read what is hidden")?;
    trial.apart("pid", "it gave a command no process table of its own")?;
    if sandbox.network == Network::Deny {
        trial.apart("net", "it gave a command no network of its own")?;
    }
    let version = trial.after("version").unwrap_or_default();
    let version = version.trim_start_matches("bubblewrap").trim();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-+~".contains(letter);
    Ok(Rung::Bubblewrap {
        program,
        version: version
            .chars()
            .filter(|letter| plain(*letter))
            .take(20)
            .collect(),
    })
}

async fn landlock(
    sandbox: &Sandbox,
    shell: &Shell,
    environment: &Environment,
) -> Result<Rung, String> {
    let rung = Rung::Landlock {
        abi: OLDEST_LANDLOCK,
    };
    let trial = Trial::run(sandbox, shell, environment, rung).await?;
    trial.require("kept-hidden", "it let a command read what is hidden")?;
    match trial.landlock {
        Some(abi) if abi >= OLDEST_LANDLOCK => Ok(Rung::Landlock { abi }),
        Some(abi) => Err(format!(
            "the kernel has ABI {abi}, and ABI {OLDEST_LANDLOCK} (Linux 6.2) is the first that \
             stops all writing"
        )),
        None => Err("the kernel does not have it (Linux 6.2 or newer, built with Landlock)".into()),
    }
}

/// An absolute program of that name on a search path. Relative entries are left out: what they find
/// depends on the folder, and a workspace is no place to find a sandbox in.
fn search(name: &str, path: &str) -> Option<PathBuf> {
    path.split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

/// What a trial command came to.
#[derive(Debug)]
struct Trial {
    text: String,
    landlock: Option<u32>,
}

impl Trial {
    async fn run(
        sandbox: &Sandbox,
        shell: &Shell,
        environment: &Environment,
        rung: Rung,
    ) -> Result<Self, String> {
        let temp = sandbox
            .write
            .iter()
            .find(|folder| super::temporary(environment).contains(folder))
            .ok_or("there is no temporary folder to try it in")?;
        let ground =
            Ground::new(temp).map_err(|error| format!("it could not be tried: {error}"))?;
        let program = match &rung {
            Rung::Bubblewrap { program, .. } => program.to_string_lossy().into_owned(),
            Rung::Landlock { .. } | Rung::None { .. } => String::new(),
        };
        let mut job = ShellJob::bash(SCRIPT, "/", environment.child_environment(&[]), PATIENCE);
        let folder = ground.root.to_string_lossy().into_owned();
        job.args.extend(["trial".to_owned(), folder, program]);
        job.term_grace = Duration::ZERO;
        job.sandbox = Some(SandboxPolicy {
            rung,
            writable: vec![ground.root.join("in")],
            hidden: vec![HiddenFolder::new(&ground.root.join("hidden"), &[])],
            kept: Vec::new(),
            network: sandbox.network,
        });
        let mut said = Vec::new();
        let stop = CancelSource::new();
        let report = shell
            .run(
                job,
                |_, chunk| {
                    let room = OUTPUT.saturating_sub(said.len());
                    said.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
                },
                stop.token(),
            )
            .await
            .map_err(|error| match error {
                crate::Error::Sandbox { reason, .. } => reason,
                other => castellan_core::text::chain(&other),
            })?;
        if report.timed_out {
            return Err(format!("a trial took longer than {} s", PATIENCE.as_secs()));
        }
        let trial = Self {
            text: String::from_utf8_lossy(&said).into_owned(),
            landlock: report.landlock,
        };
        if report.end != End::Exited(0) {
            return Err(format!("a trial ended with {:?}", report.end));
        }
        trial.require(
            "wrote-inside",
            "it kept a command from writing in its own folder",
        )?;
        trial.require("kept-outside", "it let a command write outside its folder")?;
        if ground.root.join("out/file").exists() {
            return Err("it let a command write outside its folder".to_owned());
        }
        trial.require("device", "it kept a command from /dev/null")?;
        trial.require("proc", "it kept a command from /proc")?;
        Ok(trial)
    }

    fn require(&self, word: &str, otherwise: &str) -> Result<(), String> {
        if self.text.lines().any(|line| line == word) {
            Ok(())
        } else {
            Err(otherwise.to_owned())
        }
    }

    /// What stands behind a word.
    fn after<'a>(&'a self, word: &str) -> Option<&'a str> {
        let line = |line: &'a str| line.strip_prefix(word)?.strip_prefix(' ');
        self.text.lines().find_map(line).map(str::trim)
    }

    /// Makes sure that a namespace of the command is not ours.
    fn apart(&self, kind: &str, otherwise: &str) -> Result<(), String> {
        let own = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        match self.after(kind) {
            Some(theirs) if !theirs.is_empty() && own != Path::new(theirs) => Ok(()),
            _ => Err(otherwise.to_owned()),
        }
    }
}

/// Where a trial takes place: a folder to write in, one not to, one to hide. Removed when dropped.
#[derive(Debug)]
struct Ground {
    root: PathBuf,
}

impl Ground {
    fn new(temp: &Path) -> io::Result<Self> {
        let root = temp.join(format!("castellan-trial-{}", SystemIds.next()));
        let folder = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
        folder(&root)?;
        let ground = Self { root };
        for part in ["in", "out", "hidden"] {
            folder(&ground.root.join(part))?;
        }
        fs::write(ground.root.join("hidden/file"), "x")?;
        Ok(ground)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What can't be removed is an empty folder among temporary files.
        fs::remove_dir_all(&self.root).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_not_searched_for_in_relative_folders() {
        assert_eq!(search("sh", ".:bin::usr/bin"), None);
        assert!(search("sh", "nowhere:/usr/bin:/bin").is_some());
    }

    #[test]
    fn only_whole_lines_count_in_a_trial() {
        let trial = Trial {
            text: "not kept-outside\npid pid:[1]\nversion bubblewrap 0.8.0\n".to_owned(),
            landlock: None,
        };
        assert!(trial.require("kept-outside", "no").is_err());
        assert!(trial.apart("pid", "no").is_ok());
        assert_eq!(trial.after("version"), Some("bubblewrap 0.8.0"));
    }
}
