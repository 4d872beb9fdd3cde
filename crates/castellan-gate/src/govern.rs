//! Govern: whether a prepared call may run, must be asked about, or may not run.
//!
//! The tool's own default stands first. What policy rules and hooks say replaces it, the strictest
//! of them. What would ask then becomes allowed through grants or through `--skip-permissions`,
//! unless it needs a person whatever was permitted: a high-impact call, one whose hook broke down,
//! one of which it can't be told whether a rule denies it. A high-impact call may also be confirmed
//! by a caller with `admin`. Where nobody can be asked, what would ask is denied.

use castellan_core::event::Decision;
use castellan_core::tool::{DefaultDecision, Inspection};
use castellan_core::{Caller, Capability, Grant, ToolSpec};

/// What has been permitted in advance for this run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permission {
    /// Calls like these need not be asked about.
    pub grants: Vec<Grant>,
    /// Nothing ordinary needs to be asked about.
    pub skip: bool,
}

/// A decision with what made it: of one that guards calls, or of all together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// Whether an `Ask` needs a person, whatever was permitted in advance.
    pub firm: bool,
    /// What decided.
    pub by: String,
    /// Why.
    pub reason: String,
}

impl Verdict {
    /// The strictest is the greatest.
    pub(crate) const fn strictness(&self) -> (Decision, bool) {
        (self.decision, self.firm)
    }
}

/// Decides about one call before what was permitted in advance is looked at. `spoken` is what rules
/// and hooks say of it.
#[must_use]
pub fn decide(
    spec: &ToolSpec,
    inspection: &Inspection,
    caller: &Caller,
    spoken: &[Verdict],
) -> Verdict {
    let strictest = spoken.iter().map(Verdict::strictness).max();
    let Some(strictest) = strictest else {
        return by_default(spec, inspection, caller);
    };
    // The first of them decides, and all that say the same are heard.
    let mut agreeing = spoken.iter().filter(|one| one.strictness() == strictest);
    let Some(first) = agreeing.next() else {
        return by_default(spec, inspection, caller);
    };
    let reasons = agreeing.fold(first.reason.clone(), |reasons, next| {
        format!("{reasons}; {} says: {}", next.by, next.reason)
    });
    let said = Verdict {
        decision: first.decision,
        firm: first.firm,
        by: first.by.clone(),
        reason: reasons,
    };
    if !spec.is_high_impact() {
        return said;
    }
    // No rule and no hook lets such a call through.
    match said.decision {
        Decision::Deny => said,
        Decision::Ask => Verdict {
            firm: true,
            reason: format!("{}; {}", said.reason, irrevocable(spec)),
            ..said
        },
        Decision::Allow => by_default(spec, inspection, caller),
    }
}

fn by_default(spec: &ToolSpec, inspection: &Inspection, caller: &Caller) -> Verdict {
    let verdict = |decision, by: &str, reason| Verdict {
        decision,
        firm: false,
        by: by.to_owned(),
        reason,
    };
    if spec.is_high_impact() {
        if caller.capabilities.contains(&Capability::Admin) {
            let reason = "the caller may confirm high-impact calls".to_owned();
            return verdict(Decision::Allow, "admin", reason);
        }
        return Verdict {
            firm: true,
            ..verdict(Decision::Ask, "high-impact", irrevocable(spec))
        };
    }
    match inspection.default.unwrap_or(spec.default) {
        DefaultDecision::Allow => {
            let reason = format!("{} runs unasked", spec.name);
            verdict(Decision::Allow, "default", reason)
        }
        DefaultDecision::Ask => {
            let reason = format!("{} asks first", spec.name);
            verdict(Decision::Ask, "default", reason)
        }
    }
}

fn irrevocable(spec: &ToolSpec) -> String {
    format!(
        "{} can't be taken back and always needs a person",
        spec.name
    )
}

/// What is denied because nobody can be asked.
#[must_use]
pub fn unattended(verdict: Verdict) -> Verdict {
    Verdict {
        decision: Decision::Deny,
        reason: format!(
            "needs a person, and nobody can be asked here ({})",
            verdict.reason
        ),
        ..verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castellan_core::tool::Effect;
    use castellan_core::{Principal, Surface};

    #[derive(schemars::JsonSchema)]
    struct Nothing {}

    fn decided(effect: Effect, capabilities: Vec<Capability>, spoken: &[Verdict]) -> Verdict {
        let mut spec = ToolSpec::new::<Nothing>("bash", "workspace", "Run", "Run");
        spec.effects = vec![effect];
        if effect == Effect::ReadOnly {
            spec.default = DefaultDecision::Allow;
        }
        let principal = Principal::Person("me".into());
        let caller = Caller {
            principal,
            surface: Surface::Interactive,
            capabilities,
        };
        decide(&spec, &Inspection::new("bash", "ls"), &caller, spoken)
    }

    fn says(by: &str, decision: Decision) -> Verdict {
        Verdict {
            decision,
            firm: false,
            by: by.to_owned(),
            reason: format!("{by}'s reason"),
        }
    }

    #[test]
    fn the_strictest_of_what_speaks_replaces_the_default() {
        use Decision::{Allow, Ask, Deny};
        for (spoken, expected) in [
            (vec![], Ask),
            (vec![Allow], Allow),
            (vec![Allow, Ask], Ask),
            (vec![Ask, Deny, Allow], Deny),
        ] {
            let spoken: Vec<Verdict> = spoken.into_iter().map(|one| says("x", one)).collect();
            let verdict = decided(Effect::Executes, vec![], &spoken);
            assert_eq!(verdict.decision, expected, "{spoken:?}");
        }
        let read = decided(Effect::ReadOnly, vec![], &[says("x", Ask)]);
        assert_eq!(read.decision, Ask);
        assert_eq!(decided(Effect::ReadOnly, vec![], &[]).decision, Allow);
    }

    #[test]
    fn all_who_deny_are_heard() {
        let spoken = [
            says("one", Decision::Deny),
            says("two", Decision::Allow),
            says("three", Decision::Deny),
        ];
        let verdict = decided(Effect::Executes, vec![], &spoken);
        assert_eq!(verdict.by, "one");
        assert!(verdict.reason.contains("one's") && verdict.reason.contains("three's"));
        assert!(!verdict.reason.contains("two's"));
    }

    #[test]
    fn nothing_that_allows_lets_a_high_impact_call_through() {
        let allowed = decided(
            Effect::HighImpact,
            vec![],
            &[says("policy", Decision::Allow)],
        );
        assert_eq!((allowed.decision, allowed.firm), (Decision::Ask, true));
        let asked = decided(Effect::HighImpact, vec![], &[says("x", Decision::Ask)]);
        assert_eq!((asked.decision, asked.firm), (Decision::Ask, true));
        let denied = decided(Effect::HighImpact, vec![], &[says("x", Decision::Deny)]);
        assert_eq!(denied.decision, Decision::Deny);
    }

    #[test]
    fn an_admin_confirms_a_high_impact_call_but_no_denial() {
        let admin = vec![Capability::Admin];
        let confirmed = decided(Effect::HighImpact, admin.clone(), &[]);
        assert_eq!(
            (confirmed.decision, confirmed.by.as_str()),
            (Decision::Allow, "admin")
        );
        let denied = decided(Effect::HighImpact, admin, &[says("x", Decision::Deny)]);
        assert_eq!(denied.decision, Decision::Deny);
    }
}
