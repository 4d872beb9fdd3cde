//! How commands end, and why some never begin, in words for a model.

use castellan_core::Outcome;
use castellan_core::text::{chain, shorten};
use castellan_host::shell::{End, ShellReport};
use castellan_host::{Error, ErrorKind};

use super::background::{MOST, NotStarted};

/// How it ended by itself.
pub(super) fn words(end: &End) -> String {
    match end {
        End::Exited(code) => format!("exit code {code}"),
        End::Signalled { name, .. } => format!("ended by {name}"),
        End::Unended => "it could not be ended".to_owned(),
        End::HelperLost { reason } => format!("it lost its supervisor: {reason}"),
    }
}

/// The processes of it that could not be ended, such as `pid 7, 8`; `None` where there are none.
pub(super) fn survivors(report: &ShellReport) -> Option<String> {
    let pids: Vec<String> = report.survivors.iter().map(|s| s.pid.to_string()).collect();
    (!pids.is_empty()).then(|| format!("pid {}", pids.join(", ")))
}

/// A command that did not run.
pub(super) fn unstarted(error: &Error) -> Outcome {
    let next = match error.kind() {
        ErrorKind::Sandbox => "nothing was run; tell the person that the sandbox does not work",
        _ => "",
    };
    let what = format!("the command could not be started: {}", chain(error));
    Outcome::failed(what, next)
}

/// A command that does not run in the background.
pub(super) fn not_started(refused: NotStarted) -> Outcome {
    match refused {
        NotStarted::TooMany(running) => {
            let names: Vec<String> = running
                .iter()
                .map(|listed| format!("{} ({})", listed.id, shorten(&listed.command, 60)))
                .collect();
            let what = format!(
                "{} background shells run, and no more than {MOST} may: {}",
                names.len(),
                names.join(", ")
            );
            Outcome::failed(
                what,
                "end one with `kill_shell`, or run it in the foreground",
            )
        }
        NotStarted::Failed(error) => unstarted(&error),
        NotStarted::BrokeDown => {
            let what = "the command could not be started: it broke down before it began";
            Outcome::failed(what, "")
        }
    }
}

/// What is said where `nuls` of `total` bytes are not shown; `None` where all are.
pub(crate) fn without_nuls(nuls: u64, total: u64) -> Option<String> {
    match nuls {
        0 => None,
        _ if nuls == total => Some(format!(
            "all {total} bytes of the output are NUL and left out"
        )),
        1 => Some("1 NUL byte of the output is left out".to_owned()),
        _ => Some(format!("{nuls} NUL bytes of the output are left out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_done_about_a_failure_is_said_in_the_background_too() {
        let broken = || Error::Sandbox {
            rung: "none".to_owned(),
            reason: "no reason".to_owned(),
        };
        let said = not_started(NotStarted::Failed(broken()));
        assert_eq!(said, unstarted(&broken()));
        assert!(said.into_text().contains("tell the person"));
    }
}
