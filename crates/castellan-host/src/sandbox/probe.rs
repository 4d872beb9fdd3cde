//! Climbing down the ladder: each rung runs a trial command and is judged by what came of it.
//!
//! That a program is there, or that the kernel says it knows Landlock, is no proof: namespaces may
//! be forbidden, a wrapper may be in the way. So the trial tries to write where it must not, and to
//! read what is hidden. It says what it could do and what it could not; where it says neither, or
//! does not come to its end, nothing is known, and it is run once more before the rung is given up.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use castellan_core::CancelSource;
use castellan_core::Ids as _;

use super::{HiddenFolder, Network, Rung, Sandbox, SandboxPolicy};
use crate::env::Environment;
use crate::shell::{End, Shell, ShellJob, Stream};
use crate::system::SystemIds;

/// How long a trial may take: a hundred times what it takes, and longer where it is run again, which
/// may be because the machine is busy.
const PATIENCE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(6)];
/// The oldest Landlock that counts. Before it a command may truncate any file, which is writing.
const OLDEST_LANDLOCK: u32 = 3;
/// The most of a trial's output that is looked at.
const OUTPUT: usize = 16 * 1024;

/// Says what it could do and what not, one word a line. `$1` is the trial's folder. The shell itself
/// does what is judged: a program that could not be started would look like one that was kept away.
const SCRIPT: &str = r#"
if echo x > "$1/in/file"; then echo wrote-inside; else echo kept-inside; fi
if echo x > "$1/out/file"; then echo wrote-outside; else echo kept-outside; fi
if read -r _ < "$1/hidden/file"; then echo read-hidden; else echo kept-hidden; fi
if echo x > /dev/null; then echo device; else echo no-device; fi
if test -r /proc/self/stat; then echo proc; else echo no-proc; fi
echo "pid $(readlink /proc/self/ns/pid)"
echo "net $(readlink /proc/self/ns/net)"
test -n "$2" && echo "version $("$2" --version)"
exit 0
"#;

/// Why a rung is not taken.
#[derive(Debug, PartialEq, Eq)]
enum Flaw {
    /// It was seen not to do what it must.
    Certain(String),
    /// The trial did not show what it does.
    Unjudged(String),
}

impl Flaw {
    fn certain(why: impl Into<String>) -> Self {
        Self::Certain(why.into())
    }

    fn why(self) -> String {
        match self {
            Self::Certain(why) | Self::Unjudged(why) => why,
        }
    }
}

/// The best rung, and why those above it are not taken.
pub(super) async fn ladder(
    sandbox: &Sandbox,
    shell: &Shell,
    environment: &Environment,
) -> (Rung, Vec<String>) {
    let mut passed = Vec::new();
    match bubblewrap(sandbox, shell, environment).await {
        Ok(rung) => return (rung, passed),
        Err(flaw) => passed.push(format!("bubblewrap: {}", flaw.why())),
    }
    match landlock(sandbox, shell, environment).await {
        Ok(rung) => return (rung, passed),
        Err(flaw) => passed.push(format!("Landlock: {}", flaw.why())),
    }
    let why = passed.join("; ");
    (Rung::None { why }, passed)
}

async fn bubblewrap(
    sandbox: &Sandbox,
    shell: &Shell,
    environment: &Environment,
) -> Result<Rung, Flaw> {
    let program = search("bwrap", environment.get("PATH").unwrap_or_default())
        .ok_or_else(|| Flaw::certain("it is not installed (apt-get install bubblewrap)"))?;
    let rung = Rung::Bubblewrap {
        program: program.clone(),
        version: String::new(),
    };
    let judge = |trial: &Trial| {
        trial.apart("pid", "it gave a command no process table of its own")?;
        if sandbox.network == Network::Deny {
            trial.apart("net", "it gave a command no network of its own")?;
        }
        Ok(())
    };
    let trial = Trial::passed(sandbox, shell, environment, &rung, judge).await?;
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
) -> Result<Rung, Flaw> {
    let rung = Rung::Landlock {
        abi: OLDEST_LANDLOCK,
    };
    let trial = Trial::passed(sandbox, shell, environment, &rung, |_| Ok(())).await?;
    match trial.landlock {
        Some(abi) if abi >= OLDEST_LANDLOCK => Ok(Rung::Landlock { abi }),
        Some(abi) => Err(Flaw::Certain(format!(
            "the kernel has ABI {abi}, and ABI {OLDEST_LANDLOCK} (Linux 6.2) is the first that \
             stops all writing"
        ))),
        None => Err(Flaw::certain(
            "the kernel does not have it (Linux 6.2 or newer, built with Landlock)",
        )),
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
    /// A trial that shows that the rung does what it must. One that shows nothing is run again.
    async fn passed(
        sandbox: &Sandbox,
        shell: &Shell,
        environment: &Environment,
        rung: &Rung,
        judge: impl Fn(&Self) -> Result<(), Flaw>,
    ) -> Result<Self, Flaw> {
        let mut last = Flaw::Unjudged(String::new());
        for patience in PATIENCE {
            let trial = Self::run(sandbox, shell, environment, rung, patience).await;
            let judged = trial.and_then(|trial| {
                trial.keeps()?;
                judge(&trial)?;
                Ok(trial)
            });
            match judged {
                Err(flaw @ Flaw::Unjudged(_)) => last = flaw,
                judged => return judged,
            }
        }
        Err(last)
    }

    async fn run(
        sandbox: &Sandbox,
        shell: &Shell,
        environment: &Environment,
        rung: &Rung,
        patience: Duration,
    ) -> Result<Self, Flaw> {
        let temp = sandbox
            .write
            .iter()
            .find(|folder| super::temporary(environment).contains(folder))
            .ok_or_else(|| Flaw::certain("there is no temporary folder to try it in"))?;
        let ground = Ground::new(temp)
            .map_err(|error| Flaw::Unjudged(format!("it could not be tried: {error}")))?;
        let program = match rung {
            Rung::Bubblewrap { program, .. } => program.to_string_lossy().into_owned(),
            Rung::Landlock { .. } | Rung::None { .. } => String::new(),
        };
        let mut job = ShellJob::bash(SCRIPT, "/", environment.child_environment(&[]), patience);
        let folder = ground.root.to_string_lossy().into_owned();
        job.args.extend(["trial".to_owned(), folder, program]);
        job.term_grace = Duration::ZERO;
        job.sandbox = Some(SandboxPolicy {
            rung: rung.clone(),
            writable: vec![ground.root.join("in")],
            hidden: vec![HiddenFolder::new(&ground.root.join("hidden"), &[])],
            kept: Vec::new(),
            network: sandbox.network,
        });
        let mut said = Said::default();
        let stop = CancelSource::new();
        let report = shell
            .run(job, |stream, chunk| said.take(stream, chunk), stop.token())
            .await
            .map_err(|error| match error {
                // What can't be put into force now may be so for want of a moment's memory.
                crate::Error::Sandbox { reason, .. } => Flaw::Unjudged(reason),
                other => Flaw::Unjudged(castellan_core::text::chain(&other)),
            })?;
        if report.timed_out {
            return Err(Flaw::Unjudged(format!(
                "a trial took longer than {} s",
                patience.as_secs()
            )));
        }
        if report.end != End::Exited(0) {
            return Err(Flaw::Unjudged(format!(
                "a trial ended with {:?}",
                report.end
            )));
        }
        if ground.root.join("out/file").exists() {
            return Err(Flaw::certain("it let a command write outside its folder"));
        }
        Ok(Self {
            text: said.text(),
            landlock: report.landlock,
        })
    }

    /// Makes sure of what every rung must do.
    fn keeps(&self) -> Result<(), Flaw> {
        self.require(
            "wrote-inside",
            "kept-inside",
            "it kept a command from writing in its own folder",
        )?;
        self.require(
            "kept-outside",
            "wrote-outside",
            "it let a command write outside its folder",
        )?;
        self.require(
            "kept-hidden",
            "read-hidden",
            "it let a command read what is hidden",
        )?;
        self.require("device", "no-device", "it kept a command from /dev/null")?;
        self.require("proc", "no-proc", "it kept a command from /proc")
    }

    /// Makes sure that the trial said `good` and not `bad`.
    fn require(&self, good: &str, bad: &str, otherwise: &str) -> Result<(), Flaw> {
        let said = |word: &str| self.text.lines().any(|line| line == word);
        if said(bad) {
            Err(Flaw::certain(otherwise))
        } else if said(good) {
            Ok(())
        } else {
            Err(Flaw::Unjudged(format!(
                "a trial said neither {good} nor {bad}"
            )))
        }
    }

    /// What stands behind a word.
    fn after<'a>(&'a self, word: &str) -> Option<&'a str> {
        let line = |line: &'a str| line.strip_prefix(word)?.strip_prefix(' ');
        self.text.lines().find_map(line).map(str::trim)
    }

    /// Makes sure that a namespace of the command is not ours.
    fn apart(&self, kind: &str, otherwise: &str) -> Result<(), Flaw> {
        let own = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        match self.after(kind) {
            Some("") => Err(Flaw::Unjudged(format!(
                "a trial could not tell its {kind} namespace"
            ))),
            Some(theirs) if own != Path::new(theirs) => Ok(()),
            Some(_) => Err(Flaw::certain(otherwise)),
            None => Err(Flaw::Unjudged(format!(
                "a trial did not tell its {kind} namespace"
            ))),
        }
    }
}

/// What a trial command has said on its standard output. Its programs complain on the other one, at
/// any moment, also in the middle of a line.
#[derive(Debug, Default)]
struct Said(Vec<u8>);

impl Said {
    fn take(&mut self, stream: Stream, chunk: &[u8]) {
        if stream == Stream::Stdout {
            let room = OUTPUT.saturating_sub(self.0.len());
            self.0.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
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
        fs::write(ground.root.join("hidden/file"), "x\n")?;
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

    fn trial(text: &str) -> Trial {
        Trial {
            text: text.to_owned(),
            landlock: None,
        }
    }

    #[test]
    fn only_whole_lines_count_in_a_trial() {
        let trial = trial("not kept-outside\npid pid:[1]\nversion bubblewrap 0.8.0\n");
        assert!(
            trial
                .require("kept-outside", "wrote-outside", "no")
                .is_err()
        );
        assert!(trial.apart("pid", "no").is_ok());
        assert_eq!(trial.after("version"), Some("bubblewrap 0.8.0"));
    }

    const GOOD: &str = "wrote-inside\nkept-outside\nkept-hidden\ndevice\nproc\n";

    #[test]
    fn complaints_in_the_middle_of_a_line_change_nothing() {
        let complaint = b"bash: line 4: /tmp/t/hidden/file: No such file or directory\n";
        for cut in 0..GOOD.len() {
            let mut said = Said::default();
            let (before, after) = GOOD.as_bytes().split_at(cut);
            said.take(Stream::Stdout, before);
            said.take(Stream::Stderr, complaint);
            said.take(Stream::Stdout, after);
            assert_eq!(trial(&said.text()).keeps(), Ok(()), "cut at {cut}");
        }
    }

    #[test]
    fn a_trial_that_says_nothing_is_unjudged_and_one_that_shows_a_leak_is_not() {
        for word in GOOD.lines() {
            let silent = GOOD.replace(&format!("{word}\n"), "");
            let judged = trial(&silent).keeps();
            assert!(
                matches!(judged, Err(Flaw::Unjudged(_))),
                "{word}: {judged:?}"
            );
        }
        let leak = format!("{GOOD}read-hidden\n");
        let judged = trial(&leak).keeps();
        assert!(matches!(judged, Err(Flaw::Certain(_))), "{judged:?}");
        assert!(matches!(
            trial("pid \n").apart("pid", "no"),
            Err(Flaw::Unjudged(_))
        ));
    }
}
