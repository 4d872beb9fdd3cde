//! The rules of a project guard themselves: whoever could take them away would be rid of them from
//! the next session on. A call that may change them needs a person.

use std::path::{Path, PathBuf};

use castellan_core::ToolSpec;
use castellan_core::command::mentions;
use castellan_core::event::Decision;
use castellan_core::tool::{Inspection, SessionView};

use crate::govern::Verdict;

/// The folder of a project that is ours, below the folder a session begins in.
pub const PROJECT_FOLDER: &str = ".castellan";
/// The file in it with the project's own rules.
pub const PROJECT_RULES: &str = ".castellan/policy.toml";

/// Asks about a call that would change a project's rules, or that has a command which names them.
/// `None` where it does neither, or the project has no such folder.
pub(crate) fn guarded(
    spec: &ToolSpec,
    inspection: &Inspection,
    view: &SessionView,
) -> Option<Verdict> {
    let commands = &inspection.commands;
    if commands.is_empty() && (spec.is_read_only() || inspection.paths.is_empty()) {
        return None;
    }
    let folder = view.workspace.join(PROJECT_FOLDER);
    if folder.symlink_metadata().is_err() {
        return None;
    }
    let places = places(&view.workspace);
    let touches = |path: &PathBuf| {
        let meets = |place: &PathBuf| path.starts_with(place) || place.starts_with(path);
        places.iter().any(meets)
    };
    let written = !spec.is_read_only() && inspection.paths.iter().any(touches);
    let inside = !commands.is_empty() && places.iter().any(|place| view.cwd.starts_with(place));
    let named = || {
        let names = places
            .iter()
            .filter_map(|place| place.file_name()?.to_str())
            // A link may lead to a name that every other file has; only ours are told apart by it.
            .filter(|name| name.starts_with('.'));
        let names: Vec<&str> = names.collect();
        let names_one = |command: &String| names.iter().any(|name| mentions(command, name));
        commands.iter().any(names_one)
    };
    (written || inside || named()).then(|| Verdict {
        decision: Decision::Ask,
        firm: true,
        by: "the project's rules".to_owned(),
        reason: format!("it may change {PROJECT_FOLDER}, where the project's own rules are"),
    })
}

/// Our folder and the rules in it, as written and with links followed.
fn places(workspace: &Path) -> Vec<PathBuf> {
    let folder = workspace.join(PROJECT_FOLDER);
    let real = |path: &Path| path.canonicalize().ok();
    let found = [
        real(workspace).map(|workspace| workspace.join(PROJECT_FOLDER)),
        real(&folder),
        real(&workspace.join(PROJECT_RULES)),
        Some(folder),
    ];
    let mut places: Vec<PathBuf> = found.into_iter().flatten().collect();
    places.sort();
    places.dedup();
    places
}
