//! What a proposal does to a genome, and whether anyone may accept it.

use castellan_core::event::Decision;
use castellan_core::nearest::nearest;
use castellan_core::text::{one_line, shorten};
use castellan_core::{ErrorCode, Outcome};
use castellan_store::genome::Document;
use serde_json::Value;
use similar::TextDiff;

use super::patch::{drift, merge_at, places};
use super::{DOCUMENT_LIMIT, Genome};
use crate::operation::failed;

/// How many places an error lists.
const LISTED: usize = 8;
/// How many problems an error lists.
const PROBLEMS: usize = 8;
/// The longest diff that is shown, in characters.
const DIFF_LIMIT: usize = 32 * 1024;

/// A sound change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Changed {
    /// The genome after it.
    pub(crate) genome: Genome,
    /// The same as it is stored.
    pub(crate) document: Document,
    /// The share of leaves it changes.
    pub(crate) step_drift: f64,
    /// The share of leaves that differ from the first genome then.
    pub(crate) drift: f64,
}

/// What `change` at `target` makes of `base`.
///
/// # Errors
/// `NOT_FOUND` for a target that isn't there, `VALIDATION` for a result that is no genome or the
/// same one, `MUTATION_REFUSED` for one that weakens a denial or goes too far.
pub(crate) fn apply(
    base: &Genome,
    first: &Genome,
    target: &str,
    change: &Value,
) -> Result<Changed, Outcome> {
    let before = value(base)?;
    let mut after = before.clone();
    if !merge_at(&mut after, target, change) {
        return Err(no_target(&before, target));
    }
    let genome: Genome = serde_path_to_error::deserialize(&after).map_err(|error| {
        let place = error.path().to_string();
        let what = shorten(&error.inner().to_string(), 200);
        invalid(&format!("at {place}: {}", one_line(&what)))
    })?;
    // Before what else is wrong: whoever tries this should read that nobody may.
    refuse_weakening(base, &genome)?;
    let problems = genome.problems();
    if !problems.is_empty() {
        return Err(invalid(&listed(&problems, PROBLEMS)));
    }
    let document = genome
        .document()
        .map_err(|error| invalid(&error.to_string()))?;
    if document.text.len() > DOCUMENT_LIMIT {
        let size = document.text.len();
        return Err(invalid(&format!(
            "it has {size} bytes of JSON, a genome has at most {DOCUMENT_LIMIT}"
        )));
    }
    // With what the change leaves out, as it is stored.
    let after = value(&genome)?;
    if after == before {
        return Err(Outcome::invalid(
            "the change changes nothing: the genome has these values already",
            "",
        ));
    }
    let step_drift = drift(&before, &after);
    let total = drift(&value(first)?, &after);
    refuse_drift(base, step_drift, total)?;
    Ok(Changed {
        genome,
        document,
        step_drift,
        drift: total,
    })
}

/// Refuses to take a denial away, which nobody may accept.
fn refuse_weakening(base: &Genome, after: &Genome) -> Result<(), Outcome> {
    let weakened: Vec<&str> = base
        .policy
        .actions
        .iter()
        .filter(|(_, decision)| **decision == Decision::Deny)
        .filter(|(name, _)| after.policy.actions.get(*name) != Some(&Decision::Deny))
        .map(|(name, _)| name.as_str())
        .collect();
    match weakened.first() {
        None => Ok(()),
        Some(name) => Err(failed(
            ErrorCode::MutationRefused,
            format!("it would weaken a denial: /policy/actions/{name} is `deny`"),
            "leave every `deny` as it is; only the person can take one away, with a rollback",
        )),
    }
}

/// Refuses to go further than policy lets anyone.
fn refuse_drift(base: &Genome, step: f64, total: f64) -> Result<(), Outcome> {
    let refused = |what: String, next: &str| failed(ErrorCode::MutationRefused, what, next);
    let policy = &base.policy;
    if step > policy.max_step_drift {
        return Err(refused(
            format!(
                "it would change {step:.2} of the genome at once, and /policy/max_step_drift is {}",
                policy.max_step_drift
            ),
            "propose less at once",
        ));
    }
    if total > policy.max_drift {
        return Err(refused(
            format!(
                "the genome would be {total:.2} from where it began, and /policy/max_drift is {}",
                policy.max_drift
            ),
            "propose something nearer to version 1",
        ));
    }
    Ok(())
}

/// A genome as JSON.
fn value(genome: &Genome) -> Result<Value, Outcome> {
    serde_json::to_value(genome).map_err(|error| invalid(&error.to_string()))
}

fn invalid(problem: &str) -> Outcome {
    Outcome::invalid(
        format!("the result would be no genome: {problem}"),
        "read genome://current for what it looks like",
    )
}

fn no_target(genome: &Value, target: &str) -> Outcome {
    let places = places(genome);
    let known: Vec<&str> = places
        .iter()
        .map(String::as_str)
        .filter(|place| !place.is_empty())
        .collect();
    let near = nearest(target, known.iter().copied());
    let near: Vec<String> = near.into_iter().take(LISTED).map(str::to_owned).collect();
    let shown = one_line(&shorten(target, 80));
    failed(
        ErrorCode::NotFound,
        format!("the genome has nothing at `{shown}`"),
        format!(
            "the nearest of its {} places are {}; to add something, target the object it goes into",
            known.len(),
            near.join(", ")
        ),
    )
}

fn listed(items: &[String], limit: usize) -> String {
    let mut text = items
        .iter()
        .take(limit)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if items.len() > limit {
        text.push_str(&format!("; and {} more", items.len() - limit));
    }
    text
}

/// A unified diff of two genomes as they are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diff {
    /// The hunks; a long one is cut, which its last line says. Empty where nothing differs.
    pub(crate) unified: String,
    /// Lines that are added.
    pub(crate) added: u64,
    /// Lines that are removed.
    pub(crate) removed: u64,
}

/// How `after` differs from `before`.
pub(crate) fn diff(before: &Genome, after: &Genome) -> Result<Diff, serde_json::Error> {
    let before = format!("{}\n", serde_json::to_string_pretty(before)?);
    let after = format!("{}\n", serde_json::to_string_pretty(after)?);
    let lines = TextDiff::from_lines(&before, &after);
    let mut unified = lines.unified_diff().context_radius(3).to_string();
    let count = |tag| {
        lines
            .iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count()
    };
    let (added, removed) = (
        count(similar::ChangeTag::Insert),
        count(similar::ChangeTag::Delete),
    );
    if unified.chars().count() > DIFF_LIMIT {
        let whole = unified.lines().count();
        unified = unified.chars().take(DIFF_LIMIT).collect();
        unified.push_str(&format!("\n… cut; the whole diff has {whole} lines\n"));
    }
    Ok(Diff {
        unified,
        added: u64::try_from(added).unwrap_or(u64::MAX),
        removed: u64::try_from(removed).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply_to(base: &Genome, target: &str, change: &Value) -> Result<Changed, Outcome> {
        apply(base, &Genome::default(), target, change)
    }

    fn code(result: Result<Changed, Outcome>) -> Option<ErrorCode> {
        result.err().and_then(|outcome| outcome.code())
    }

    #[test]
    fn a_change_lands_in_its_target_and_says_how_far_it_goes() {
        let base = Genome::default();
        let changed = apply_to(&base, "/substrate/weights", &json!({"food": 2.0})).unwrap();
        assert_eq!(changed.genome.substrate.weight("food"), 2.0);
        // Four leaves before, five after.
        assert_eq!((changed.step_drift, changed.drift), (0.2, 0.2));
        let more = apply_to(&changed.genome, "/substrate/half_life", &json!(60)).unwrap();
        assert_eq!((more.step_drift, more.drift), (0.2, 0.4));
        let back = apply_to(&more.genome, "/substrate/weights/food", &Value::Null).unwrap();
        assert_eq!(back.genome.substrate.weights.len(), 0);
        let diff = diff(&base, &changed.genome).unwrap();
        assert!(
            diff.unified.contains("+      \"food\": 2.0"),
            "{}",
            diff.unified
        );
        assert_eq!((diff.added, diff.removed), (3, 1));
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is_near() {
        let outcome = apply_to(&Genome::default(), "/substrate/weight", &json!(1)).unwrap_err();
        assert_eq!(outcome.code(), Some(ErrorCode::NotFound));
        assert!(outcome.into_text().contains("/substrate/weights"));
    }

    #[test]
    fn what_would_be_no_genome_is_refused() {
        let base = Genome::default();
        for (target, change) in [
            ("", json!({"unknown": 1})),
            ("", json!(5)),
            ("", json!([])),
            ("/substrate", json!({"half_life": "long"})),
            ("/substrate/half_life", json!(-1)),
            ("/policy/actions", json!({"bash": "perhaps"})),
            ("/prompts", json!({"a": "x".repeat(10_000)})),
            ("/substrate/half_life", json!(600)),
            ("/substrate/weights", json!({})),
            // What is left out has its default again.
            ("/substrate/half_life", Value::Null),
        ] {
            let found = code(apply_to(&base, target, &change));
            assert_eq!(found, Some(ErrorCode::Validation), "{target} {change}");
        }
        let error = apply_to(&base, "", &json!({"substrate": {"half_life": "x"}})).unwrap_err();
        assert!(error.into_text().contains("substrate.half_life"));
    }

    #[test]
    fn no_mutation_weakens_a_denial() {
        let mut base = Genome::default();
        base.policy.actions.insert("bash".into(), Decision::Deny);
        base.policy
            .actions
            .insert("read_file".into(), Decision::Ask);
        for (target, change) in [
            ("/policy/actions/bash", json!("ask")),
            ("/policy/actions/bash", Value::Null),
            ("/policy/actions", json!({"bash": "allow"})),
            ("/policy/actions", json!({"bash": null, "x": "deny"})),
            ("/policy", json!({"actions": null})),
            ("", json!({"policy": {"actions": {"bash": "allow"}}})),
            ("", json!({"policy": null})),
        ] {
            let found = code(apply_to(&base, target, &change));
            assert_eq!(found, Some(ErrorCode::MutationRefused), "{target} {change}");
        }
        let other = apply_to(&base, "/policy/actions/read_file", &json!("deny"));
        assert!(other.is_ok());
        let more = apply_to(&base, "/policy/actions", &json!({"write_file": "deny"}));
        assert!(more.is_ok());
    }

    #[test]
    fn nobody_may_go_further_than_policy_lets_them() {
        let mut base = Genome::default();
        base.policy.max_step_drift = 0.25;
        let two = json!({"half_life": 60, "default_weight": 2});
        assert_eq!(
            code(apply_to(&base, "/substrate", &two)),
            Some(ErrorCode::MutationRefused)
        );
        let one = apply_to(&base, "/substrate", &json!({"half_life": 60}));
        assert!(one.is_ok());
        base.policy.max_step_drift = 1.0;
        base.policy.max_drift = 0.4;
        assert_eq!(
            code(apply_to(&base, "/substrate", &two)),
            Some(ErrorCode::MutationRefused)
        );
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let mut after = Genome::default();
        for number in 0..8 {
            after.prompts.insert(format!("p{number}"), "x".repeat(8000));
        }
        let diff = diff(&Genome::default(), &after).unwrap();
        assert!(diff.unified.ends_with("lines\n") && diff.unified.contains("… cut"));
    }
}
