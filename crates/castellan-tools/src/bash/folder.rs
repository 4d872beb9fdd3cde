//! The session's working folder: where a command left it, and what happens when it is gone or can't
//! be entered.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use castellan_core::tool::{CallContext, Report, SessionEffect, SessionView};
use castellan_core::{EffectStatus, ErrorCode, Outcome, outcome::Retry};
use castellan_host::Folder;
use castellan_host::shell::{End, ShellReport};

/// Why no command can start in `folder`; `None` where one can.
pub(super) fn lost(folder: &Path) -> Option<&'static str> {
    // What is in a folder is looked up as a command that starts there does it.
    match fs::metadata(folder.join(".")) {
        Ok(inside) if inside.is_dir() => None,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Some("can't be entered (permission denied)")
        }
        Ok(_) | Err(_) => Some("is gone"),
    }
}

/// Where to go instead of a folder that is lost: the workspace, else the user's home, else the root.
pub(super) fn refuge(view: &SessionView, environment: &[(String, String)]) -> PathBuf {
    let home = environment.iter().find(|(name, _)| name == "HOME");
    let home = home.map(|(_, value)| PathBuf::from(value));
    [Some(view.workspace.clone()), home]
        .into_iter()
        .flatten()
        .find(|folder| folder.is_absolute() && lost(folder).is_none())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// The report of a command that was not run because its folder is lost. It was meant for that
/// folder; `rm -r *` in another one would be another command.
pub(super) fn vanished(view: &SessionView, refuge: PathBuf) -> Report {
    let what = format!(
        "the working folder {} {}, and nothing was run",
        view.cwd.display(),
        lost(&view.cwd).unwrap_or("was gone for a moment")
    );
    let next = format!(
        "commands run in {} from now on: make the call again if it is meant for there",
        refuge.display()
    );
    let outcome = Outcome::Failed {
        output: String::new(),
        code: ErrorCode::ToolFailed,
        what,
        effect: EffectStatus::None,
        retry: Retry::Useful,
        next,
    };
    Report {
        session: vec![SessionEffect::WorkingFolder { path: refuge }],
        ..outcome.into()
    }
}

/// What a command changes of the session's working folder, and what is said of that.
pub(super) fn left(
    report: &ShellReport,
    command: &str,
    context: &CallContext,
    environment: &[(String, String)],
) -> (Vec<SessionEffect>, String) {
    let view = &context.view;
    let moved = |path: PathBuf, said: String| {
        let mut said = format!("[{said}]\n");
        if let Some(other) = context.left.go(&path) {
            said.push_str(&format!(
                "[a call made together with this one went to {}: the last of them, in the order \
                 they were made, decides where the session is]\n",
                other.display()
            ));
        }
        (vec![SessionEffect::WorkingFolder { path }], said)
    };
    match &report.folder {
        Folder::At(path) if is_same(Path::new(path), &view.cwd) => (Vec::new(), String::new()),
        Folder::At(path) => moved(path.into(), format!("the working folder is now {path}")),
        Folder::Gone => {
            let refuge = refuge(view, environment);
            let said = format!(
                "the folder this command ended in is gone; the working folder is now {}",
                refuge.display()
            );
            moved(refuge, said)
        }
        Folder::Unknown if may_move(command) && !matches!(report.end, End::HelperLost { .. }) => {
            let said = format!(
                "[where this command ended could not be learned; the working folder is still {}]\n",
                view.cwd.display()
            );
            (Vec::new(), said)
        }
        Folder::Unknown => (Vec::new(), String::new()),
    }
}

/// Whether two paths name one folder: the session's may go through links, the command's never does.
fn is_same(ended: &Path, session: &Path) -> bool {
    ended == session || session.canonicalize().is_ok_and(|path| path == ended)
}

/// Whether a text looks as if it changed its folder.
fn may_move(command: &str) -> bool {
    command
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| ["cd", "pushd", "popd"].contains(&word))
}
