//! Govern: whether a prepared call may run, must be asked about, or may not run.
//!
//! The tool's own default stands first. What would ask becomes allowed through a grant or through
//! `--skip-permissions`. A high-impact call needs a person, or a caller with `admin`; neither a
//! grant nor a blanket flag covers it.

use castellan_core::event::Decision;
use castellan_core::tool::{DefaultDecision, Inspection};
use castellan_core::{Caller, Capability, Grant, ToolSpec};

/// What has been permitted in advance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permission {
    /// Calls like these need not be asked about.
    pub grants: Vec<Grant>,
    /// Nothing ordinary needs to be asked about.
    pub skip: bool,
}

/// A decision with what made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// What decided.
    pub by: &'static str,
    /// Why.
    pub reason: String,
}

/// Decides about one call.
#[must_use]
pub fn decide(
    spec: &ToolSpec,
    inspection: &Inspection,
    caller: &Caller,
    permission: &Permission,
) -> Verdict {
    let verdict = |decision, by, reason| Verdict {
        decision,
        by,
        reason,
    };
    if spec.is_high_impact() {
        return if caller.capabilities.contains(&Capability::Admin) {
            verdict(
                Decision::Allow,
                "admin",
                "the caller may confirm high-impact calls".to_owned(),
            )
        } else {
            let reason = format!(
                "{} can't be taken back and always needs a person",
                spec.name
            );
            verdict(Decision::Ask, "high-impact", reason)
        };
    }
    if inspection.default.unwrap_or(spec.default) == DefaultDecision::Allow {
        return verdict(
            Decision::Allow,
            "default",
            format!("{} runs unasked", spec.name),
        );
    }
    let covering = permission.grants.iter().find(|grant| {
        if inspection.own_grant {
            grant.is_exactly(&inspection.label)
        } else {
            grant.covers(&spec.name, &inspection.commands)
        }
    });
    if let Some(grant) = covering {
        return verdict(Decision::Allow, "grant", format!("covered by `{grant}`"));
    }
    if permission.skip {
        return verdict(
            Decision::Allow,
            "--skip-permissions",
            "nothing is asked".to_owned(),
        );
    }
    verdict(
        Decision::Ask,
        "default",
        if inspection.own_grant {
            format!("only a permission for `{}` covers it", inspection.label)
        } else {
            format!("{} asks first", spec.name)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use castellan_core::tool::Effect;
    use castellan_core::{Principal, Surface};

    #[derive(schemars::JsonSchema)]
    struct Nothing {}

    fn decided(effect: Effect, capabilities: Vec<Capability>, permission: &Permission) -> Verdict {
        let mut spec = ToolSpec::new::<Nothing>("bash", "workspace", "Run", "Run");
        spec.effects = vec![effect];
        let principal = Principal::Person("me".into());
        let caller = Caller {
            principal,
            surface: Surface::Interactive,
            capabilities,
        };
        decide(&spec, &Inspection::new("bash", "ls"), &caller, permission)
    }

    fn all() -> Permission {
        Permission {
            grants: vec!["*".parse().unwrap()],
            skip: true,
        }
    }

    #[test]
    fn a_call_that_asks_is_let_through_by_a_grant_or_the_flag_only() {
        let none = Permission::default();
        assert_eq!(
            decided(Effect::Executes, vec![], &none).decision,
            Decision::Ask
        );
        let skip = Permission { skip: true, ..none };
        assert_eq!(
            decided(Effect::Executes, vec![], &skip).by,
            "--skip-permissions"
        );
        assert_eq!(decided(Effect::Executes, vec![], &all()).by, "grant");
    }

    #[test]
    fn a_call_that_needs_its_own_grant_is_covered_by_no_wider_one() {
        let mut spec = ToolSpec::new::<Nothing>("bash", "workspace", "Run", "Run");
        spec.effects = vec![Effect::Executes];
        let caller = Caller {
            principal: Principal::Person("me".into()),
            surface: Surface::Interactive,
            capabilities: vec![],
        };
        let mut inspection = Inspection::new("bash_outside_sandbox", "ls");
        inspection.commands = vec!["ls".to_owned()];
        inspection.own_grant = true;
        let decided = |grant: &str, skip| {
            let grants = vec![grant.parse().unwrap()];
            decide(&spec, &inspection, &caller, &Permission { grants, skip }).decision
        };
        for grant in ["bash", "bash:ls", "*", "bash*"] {
            assert_eq!(decided(grant, false), Decision::Ask, "{grant}");
        }
        assert_eq!(decided("bash_outside_sandbox", false), Decision::Allow);
        assert_eq!(decided("bash", true), Decision::Allow);
    }

    #[test]
    fn no_grant_and_no_flag_covers_a_high_impact_call() {
        assert_eq!(
            decided(Effect::HighImpact, vec![], &all()).decision,
            Decision::Ask
        );
        let admin = decided(
            Effect::HighImpact,
            vec![Capability::Admin],
            &Permission::default(),
        );
        assert_eq!((admin.decision, admin.by), (Decision::Allow, "admin"));
    }
}
