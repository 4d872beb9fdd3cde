//! What the specs of all file tools have in common.

use castellan_core::caller::Surface;
use castellan_core::tool::{DefaultDecision, Effect, ToolSpec};
use schemars::JsonSchema;

use crate::DOMAIN;

/// The spec of a tool that only looks.
pub(crate) fn reading<P: JsonSchema>(name: &str, summary: &str, description: &str) -> ToolSpec {
    let mut spec = common::<P>(name, summary, description);
    spec.effects = vec![Effect::ReadOnly];
    spec.default = DefaultDecision::Allow;
    spec.auto_in_task_agent = true;
    spec
}

/// The spec of a tool that changes a file.
pub(crate) fn writing<P: JsonSchema>(name: &str, summary: &str, description: &str) -> ToolSpec {
    let mut spec = common::<P>(name, summary, description);
    spec.effects = vec![Effect::Writes];
    spec
}

fn common<P: JsonSchema>(name: &str, summary: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new::<P>(name, DOMAIN, summary, description);
    spec.surfaces = vec![Surface::Interactive, Surface::TaskAgent, Surface::Mcp];
    spec.cwd_note = Some("Relative paths are under {working_dir}.".to_owned());
    spec
}
