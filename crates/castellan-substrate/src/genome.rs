//! The genome: the part of the harness that may evolve, as data.
//!
//! Everything in it can be changed by a proposal that a person accepts (`change`, what a proposal
//! does to it; [`history`], its versions in the store). The default is what the program begins with,
//! version 1. Rooms that let themselves be steered by it read [`history::current`].

pub(crate) mod change;
pub mod history;
mod patch;

use std::collections::BTreeMap;

use castellan_core::event::Decision;
use castellan_core::field::{HALF_LIFE, HALF_LIFE_LIMIT};
use castellan_core::text::hexadecimal;
use castellan_store::genome::Document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::is_name;

/// How many prompt fragments there are at most.
const PROMPTS: usize = 32;
/// The longest prompt fragment, in characters.
const PROMPT_LIMIT: usize = 8192;
/// How many entries each of the other tables has at most.
const ENTRIES: usize = 500;
/// The longest summary of a tool, in characters.
const SUMMARY_LIMIT: usize = 80;
/// The heaviest weight.
const WEIGHT_LIMIT: f64 = 1e6;
/// The largest genome, in bytes of JSON.
pub(crate) const DOCUMENT_LIMIT: usize = 256 * 1024;

/// The part of the harness that may evolve.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Genome {
    /// Fragments that are added to the system prompt, in the order of their names.
    pub prompts: BTreeMap<String, String>,
    /// How tools are shown, by tool name.
    pub tools: BTreeMap<String, Tool>,
    /// What may run, and how far one mutation may go.
    pub policy: Policy,
    /// What the model of a role is asked for. The one role is `main`, the model of sessions.
    pub models: BTreeMap<String, Model>,
    /// How signals work.
    pub substrate: Substrate,
}

/// How a tool is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tool {
    /// Whether it is shown at all.
    pub visible: bool,
    /// Its one-line summary, in place of its own; at most 80 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl Default for Tool {
    fn default() -> Self {
        Self {
            visible: true,
            summary: None,
        }
    }
}

/// What may run, and how far one mutation may go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// What is said of calls, by tool name or label; `*` stands for any run of characters: `ask`
    /// or `deny`, beside all other rules, of which the strictest holds. No mutation takes a `deny`
    /// away or weakens it.
    pub actions: BTreeMap<String, Decision>,
    /// The largest share of the genome that one mutation may change, from 0 to 1.
    pub max_step_drift: f64,
    /// The largest share of the genome that may differ from version 1, from 0 to 1.
    pub max_drift: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            actions: BTreeMap::new(),
            max_step_drift: 1.0,
            max_drift: 1.0,
        }
    }
}

/// What a role asks of its model. What is left out stays as it is configured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// The name of a configured model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// From 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How many tokens an answer has at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// How signals work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Substrate {
    /// The half-life of a signal that is given none, in seconds; 0 for signals that do not fade.
    pub half_life: f64,
    /// What a signal counts in the pressure of its zone where `weights` has no other number.
    pub default_weight: f64,
    /// What signals count, by name. Negative ones relieve.
    pub weights: BTreeMap<String, f64>,
}

impl Default for Substrate {
    fn default() -> Self {
        Self {
            half_life: HALF_LIFE,
            default_weight: 1.0,
            weights: BTreeMap::new(),
        }
    }
}

impl Substrate {
    /// What the signal of that name counts.
    #[must_use]
    pub fn weight(&self, signal: &str) -> f64 {
        let weight = self.weights.get(signal).copied();
        weight.unwrap_or(self.default_weight)
    }
}

impl Genome {
    /// What is wrong with it, each with its place; empty for a sound one.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Problems(Vec::new());
        problems.table("/prompts", &self.prompts, PROMPTS, is_name);
        for (name, text) in &self.prompts {
            let length = text.chars().count();
            if text.trim().is_empty() || length > PROMPT_LIMIT {
                problems.add(
                    &format!("/prompts/{name}"),
                    &format!("has {length} characters, should have 1 to {PROMPT_LIMIT}"),
                );
            }
        }
        problems.table("/tools", &self.tools, ENTRIES, is_tool_name);
        for (name, tool) in &self.tools {
            let Some(summary) = &tool.summary else {
                continue;
            };
            let length = summary.chars().count();
            let plain = !summary.chars().any(char::is_control);
            if !(1..=SUMMARY_LIMIT).contains(&length) || !plain {
                let what = format!("should be one line of 1 to {SUMMARY_LIMIT} characters");
                problems.add(&format!("/tools/{name}/summary"), &what);
            }
        }
        problems.table("/policy/actions", &self.policy.actions, ENTRIES, is_pattern);
        for (pattern, decision) in &self.policy.actions {
            if *decision == Decision::Allow {
                problems.add(
                    &format!("/policy/actions/{pattern}"),
                    "is `allow`: a genome can `ask` and `deny`; what may run stands in the \
                     configuration",
                );
            }
        }
        let share = 0.0..=1.0;
        problems.number("/policy/max_step_drift", self.policy.max_step_drift, &share);
        problems.number("/policy/max_drift", self.policy.max_drift, &share);
        problems.table("/models", &self.models, ENTRIES, |role| role == "main");
        for (role, model) in &self.models {
            let place = format!("/models/{role}");
            if let Some(temperature) = model.temperature {
                problems.number(&format!("{place}/temperature"), temperature, &(0.0..=2.0));
            }
            if model.max_tokens == Some(0) {
                problems.add(&format!("{place}/max_tokens"), "is 0, should be at least 1");
            }
            if model
                .model
                .as_ref()
                .is_some_and(|name| name.trim().is_empty())
            {
                problems.add(&format!("{place}/model"), "is empty");
            }
        }
        let lengths = 0.0..=HALF_LIFE_LIMIT;
        problems.number("/substrate/half_life", self.substrate.half_life, &lengths);
        let weights = -WEIGHT_LIMIT..=WEIGHT_LIMIT;
        let weight = self.substrate.default_weight;
        problems.number("/substrate/default_weight", weight, &weights);
        problems.table(
            "/substrate/weights",
            &self.substrate.weights,
            ENTRIES,
            is_name,
        );
        for (name, weight) in &self.substrate.weights {
            problems.number(&format!("/substrate/weights/{name}"), *weight, &weights);
        }
        problems.0
    }

    /// It as text, always the same for the same genome, with the hash it is known by.
    ///
    /// # Errors
    /// What can't be written as JSON.
    pub fn document(&self) -> Result<Document, serde_json::Error> {
        let text = serde_json::to_string(self)?;
        let hash = hexadecimal(&Sha256::digest(&text));
        Ok(Document { text, hash })
    }
}

struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, place: &str, what: &str) {
        self.0.push(format!("{place} {what}"));
    }

    fn number(&mut self, place: &str, number: f64, range: &std::ops::RangeInclusive<f64>) {
        if !number.is_finite() || !range.contains(&number) {
            let (least, most) = (range.start(), range.end());
            self.add(
                place,
                &format!("is {number}, should be from {least} to {most}"),
            );
        }
    }

    fn table<T>(
        &mut self,
        place: &str,
        table: &BTreeMap<String, T>,
        limit: usize,
        is_key: fn(&str) -> bool,
    ) {
        if table.len() > limit {
            self.add(
                place,
                &format!("has {} entries, at most {limit} are taken", table.len()),
            );
        }
        let bad = table.keys().find(|key| !is_key(key));
        if let Some(key) = bad {
            let shown: String = key.chars().take(80).collect();
            self.add(place, &format!("has `{shown}`, which is no name there"));
        }
    }
}

fn is_tool_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(letter)
}

fn is_pattern(name: &str) -> bool {
    is_tool_name(&name.replace('*', "x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound_and_always_the_same_text() {
        let genome = Genome::default();
        assert_eq!(genome.problems(), Vec::<String>::new());
        let document = genome.document().unwrap();
        assert_eq!(document.hash.len(), 64);
        let again: Genome = serde_json::from_str(&document.text).unwrap();
        assert_eq!(again.document().unwrap(), document);
    }

    #[test]
    fn every_problem_is_named_with_its_place() {
        let mut genome = Genome::default();
        genome.prompts.insert("Bad Name".into(), "text".into());
        genome.prompts.insert("empty".into(), " ".into());
        let summary = Some("two\nlines".to_owned());
        genome.tools.insert(
            "bash".into(),
            Tool {
                visible: true,
                summary,
            },
        );
        genome.policy.max_drift = 1.5;
        let model = Model {
            model: Some(String::new()),
            temperature: Some(-1.0),
            max_tokens: Some(0),
        };
        genome.models.insert("main".into(), model);
        genome.policy.actions.insert("a b".into(), Decision::Ask);
        genome.policy.actions.insert("bash".into(), Decision::Allow);
        genome.models.insert("cook".into(), Model::default());
        genome.substrate.half_life = f64::NAN;
        genome
            .substrate
            .weights
            .insert("food".into(), f64::INFINITY);
        let problems = genome.problems().join("\n");
        for place in [
            "/prompts has `Bad Name`",
            "/prompts/empty has 1 characters",
            "/tools/bash/summary",
            "/policy/max_drift is 1.5",
            "/policy/actions has `a b`",
            "/policy/actions/bash is `allow`",
            "/models has `cook`",
            "/models/main/temperature",
            "/models/main/max_tokens",
            "/models/main/model is empty",
            "/substrate/half_life is NaN",
            "/substrate/weights/food is inf",
        ] {
            assert!(problems.contains(place), "{place} not in:\n{problems}");
        }
    }

    #[test]
    fn a_signal_without_a_weight_of_its_own_has_the_usual_one() {
        let mut substrate = Substrate::default();
        substrate.weights.insert("danger".to_owned(), -3.0);
        assert_eq!(
            (substrate.weight("danger"), substrate.weight("food")),
            (-3.0, 1.0)
        );
    }
}
