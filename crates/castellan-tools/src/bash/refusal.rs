//! Commands that would destroy the machine: refused before anyone is asked, whatever is permitted.

use castellan_core::Outcome;
use castellan_core::command::{Homes, destructive};
use castellan_core::tool::SessionView;

/// The refusal of `command`, if it is one of those.
pub(super) fn refused(
    command: &str,
    view: &SessionView,
    environment: &[(String, String)],
) -> Option<Outcome> {
    // The home that the command itself would see; those in the usual places are known anyway.
    let home = environment.iter().find(|(name, _)| name == "HOME");
    let homes = Homes {
        homes: home.map(|(_, value)| value.clone()).into_iter().collect(),
        cwd: view.cwd.to_string_lossy().into_owned(),
    };
    let refusal = destructive(command, &homes)?;
    Some(Outcome::Denied {
        by: "the rule against destructive commands".to_owned(),
        reason: format!("{refusal}; no permission covers that"),
    })
}
