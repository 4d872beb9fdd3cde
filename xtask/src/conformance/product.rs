//! What the suite can ask of the product itself, which has none of the suite's fixtures.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::score::Score;

/// A scenario that needs no fixture.
struct Scenario {
    name: &'static str,
    /// What it asks, of any server.
    asks: &'static str,
    /// The only checks of it that may fail, since each asks for a tool of the suite's own.
    needs_fixture: &'static [&'static str],
}

const fn scenario(name: &'static str, asks: &'static str) -> Scenario {
    Scenario {
        name,
        asks,
        needs_fixture: &[],
    }
}

/// Of both revisions.
const BOTH: [Scenario; 6] = [
    scenario(
        "completion-complete",
        "completes an argument, or offers nothing",
    ),
    scenario("tools-list", "lists real tools, each fit for a client"),
    scenario("resources-list", "lists real resources"),
    scenario("prompts-list", "lists real prompts, or none"),
    scenario(
        "server-sse-multiple-streams",
        "answers several requests at once",
    ),
    scenario(
        "dns-rebinding-protection",
        "refuses foreign hosts and origins",
    ),
];

/// Of the handshake and its sessions.
const LEGACY: [Scenario; 6] = [
    scenario("server-initialize", "says who it is and what it can do"),
    scenario("ping", "answers a ping"),
    scenario("logging-set-level", "takes a level for log messages"),
    scenario("resources-subscribe", "takes a subscription to a resource"),
    scenario("resources-unsubscribe", "ends it"),
    scenario("server-session-lifecycle", "opens, keeps and ends sessions"),
];

/// Of the revision without sessions.
const MODERN: [Scenario; 6] = [
    Scenario {
        name: "server-stateless",
        asks: "needs no handshake, takes each request by itself, keeps subscriptions",
        needs_fixture: &[
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-server-no-log-without-loglevel",
        ],
    },
    scenario("caching", "says how long its lists may be kept"),
    scenario(
        "sep-2164-resource-not-found",
        "names a resource that is not there",
    ),
    scenario(
        "http-header-validation",
        "holds headers against the request",
    ),
    scenario(
        "input-required-result-unsupported-methods",
        "asks back for calls, prompts and readings only",
    ),
    scenario(
        "input-required-result-validate-input",
        "refuses answers that are none",
    ),
];

/// What of the product was found right and wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    right: usize,
    pub(super) wrong: Vec<String>,
}

impl Verdict {
    pub(super) fn summary(&self) -> String {
        let all = self.right + self.wrong.len();
        let mut lines = vec![format!(
            "{} of {all} scenarios that need no fixture pass",
            self.right
        )];
        lines.extend(self.wrong.iter().map(|wrong| format!("✗ {wrong}")));
        lines.join("\n")
    }
}

/// Judges a run of the suite, whose single checks are in the folder `out`.
pub(super) fn judge(revision: &str, score: &Score, out: &Path) -> Verdict {
    let own = match revision {
        "2025-11-25" => &LEGACY,
        _ => &MODERN,
    };
    let mut verdict = Verdict {
        right: 0,
        wrong: Vec::new(),
    };
    for scenario in BOTH.iter().chain(own) {
        let Scenario { name, asks, .. } = scenario;
        let wrong = match score.of(name) {
            Some(true) => None,
            Some(false) if scenario.needs_fixture.is_empty() => Some("failed".to_owned()),
            Some(false) => unforeseen(scenario, &checks(out, name)),
            None => Some("did not run".to_owned()),
        };
        match wrong {
            None => verdict.right += 1,
            Some(wrong) => verdict.wrong.push(format!("{name} ({asks}): {wrong}")),
        }
    }
    verdict
}

/// What failed of a scenario beyond what needs a fixture.
fn unforeseen(scenario: &Scenario, checks: &[Value]) -> Option<String> {
    let text = |check: &Value, field: &str| {
        let value = check.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    if !checks
        .iter()
        .any(|check| text(check, "status") == "SUCCESS")
    {
        return Some("it left no record of what passed".to_owned());
    }
    let failed: Vec<String> = checks
        .iter()
        .filter(|check| text(check, "status") == "FAILURE")
        .map(|check| text(check, "id"))
        .filter(|id| !scenario.needs_fixture.contains(&id.as_str()))
        .collect();
    (!failed.is_empty()).then(|| failed.join(", "))
}

/// The single checks of a scenario, as the suite wrote them down; none where it did not.
fn checks(out: &Path, scenario: &str) -> Vec<Value> {
    let begins = format!("server-{scenario}-");
    let folder = fs::read_dir(out).ok().and_then(|mut entries| {
        entries.find_map(|entry| {
            let entry = entry.ok()?;
            let ours = entry.file_name().to_string_lossy().starts_with(&begins);
            ours.then(|| entry.path())
        })
    });
    let text = folder.and_then(|folder| fs::read_to_string(folder.join("checks.json")).ok());
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_needs_a_fixture_may_fail() {
        let [stateless, ..] = &MODERN;
        let passed = json!({"id": "a", "status": "SUCCESS"});
        let fixture = json!({"id": stateless.needs_fixture[0], "status": "FAILURE"});
        let other = json!({"id": "b", "status": "FAILURE"});
        let only_fixture = [passed.clone(), fixture.clone()];
        assert_eq!(unforeseen(stateless, &only_fixture), None);
        let found = unforeseen(stateless, &[passed, fixture, other]);
        assert_eq!(found.as_deref(), Some("b"));
        assert!(unforeseen(stateless, &[]).is_some());
    }

    #[test]
    fn a_scenario_that_did_not_run_is_wrong() {
        let score = Score::read("✓ ping: 2 passed, 0 failed\n✗ tools-list: 1 passed, 1 failed\n");
        let verdict = judge("2025-11-25", &score, Path::new("nowhere"));
        assert_eq!(verdict.right, 1);
        assert_eq!(verdict.wrong.len(), BOTH.len() + LEGACY.len() - 1);
        let of = |name: &str| verdict.wrong.iter().find(|wrong| wrong.starts_with(name));
        assert!(of("tools-list").unwrap().ends_with("failed"));
        assert!(of("server-initialize").unwrap().ends_with("did not run"));
    }
}
