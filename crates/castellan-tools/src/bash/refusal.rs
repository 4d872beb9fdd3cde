//! Commands that would destroy the machine: refused before anyone is asked, whatever is permitted.

use castellan_core::Outcome;
use castellan_core::command::{Homes, destructive};
use castellan_core::tool::SessionView;

/// Refuses `command`, if it is one of those. Where it is too much to be looked through, says that
/// a person has to.
pub(super) fn refuse(
    command: &str,
    view: &SessionView,
    environment: &[(String, String)],
) -> Result<Option<String>, Outcome> {
    // The home that the command itself would see; those in the usual places are known anyway.
    let home = environment.iter().find(|(name, _)| name == "HOME");
    let homes = Homes {
        homes: home.map(|(_, value)| value.clone()).into_iter().collect(),
        cwd: view.cwd.to_string_lossy().into_owned(),
        environment: Some(environment.to_vec()),
    };
    match destructive(command, &homes) {
        Ok(None) => Ok(None),
        Ok(Some(refusal)) => Err(Outcome::Denied {
            by: "the rule against destructive commands".to_owned(),
            reason: format!("{refusal}; no permission covers that"),
        }),
        Err(unseen) => Ok(Some(unseen.to_string())),
    }
}
