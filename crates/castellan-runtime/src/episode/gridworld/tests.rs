//! The colony on a field kept in memory.

use serde_json::json;

use super::*;
use crate::episode::time::STEP;

/// After so many seconds half of a signal has faded.
const HALF_LIFE: f64 = 600.0;
/// After so many steps a colony has had its chance.
const STEPS: u64 = 250;

/// Signals by zone and name, with when they were last changed.
#[derive(Default)]
struct Field {
    now: f64,
    signals: BTreeMap<(String, String), (f64, f64)>,
    deposits: usize,
}

impl Field {
    fn strength(&self, zone: &str, signal: &str) -> f64 {
        let key = (zone.to_owned(), signal.to_owned());
        let (strength, at) = self.signals.get(&key).copied().unwrap_or((0.0, self.now));
        strength * (-(self.now - at) / HALF_LIFE).exp2()
    }

    fn make(&mut self, call: &ToolUse) -> Value {
        let zone = call.args["zone"].as_str().unwrap();
        let result = if call.tool == DEPOSIT {
            let signal = call.args["signal"].as_str().unwrap();
            let amount = call.args["amount"].as_f64().unwrap();
            assert_eq!(amount < 0.0, call.args["evaporate"] == true);
            let after = (self.strength(zone, signal) + amount).max(0.0);
            let key = (zone.to_owned(), signal.to_owned());
            self.signals.insert(key, (after, self.now));
            self.deposits += 1;
            json!({"after": after})
        } else {
            let signals = [colony::HOME, colony::FOOD, colony::SEARCHED]
                .map(|signal| json!({"signal": signal, "strength": self.strength(zone, signal)}));
            json!({"zone": zone, "signals": signals})
        };
        json!({"tool": call.tool, "ok": true, "result": result})
    }
}

/// What a colony came to.
struct Played {
    /// How many steps it took to bring all food home; `None` where it was not done in time.
    steps: Option<u64>,
    delivered: usize,
    most_calls: usize,
    deposits: usize,
    pictures: Vec<String>,
}

fn play(settings: &Settings, seed: u64) -> Played {
    let mut gridworld = Gridworld::new(settings.clone()).unwrap();
    let mut field = Field::default();
    let mut results = Vec::new();
    let mut played = Played {
        steps: None,
        delivered: 0,
        most_calls: 0,
        deposits: 0,
        pictures: Vec::new(),
    };
    for step in 1..=STEPS {
        field.now += STEP.as_secs_f64();
        let act = gridworld
            .step(&json!({"seed": seed, "results": results}))
            .unwrap();
        results = act.mcp_tools.iter().map(|call| field.make(call)).collect();
        played.most_calls = played.most_calls.max(results.len());
        played.pictures.extend(act.picture);
        if act.done {
            played.steps = Some(step);
            break;
        }
    }
    let world = gridworld.world.unwrap();
    played.delivered = world.colony.delivered();
    played.deposits = field.deposits;
    played
}

#[test]
fn with_signals_the_colony_does_clearly_better() {
    for seed in 1..=4 {
        let [with, without] = [true, false].map(|deposits| {
            let settings = Settings {
                deposits,
                ..Settings::default()
            };
            play(&settings, seed)
        });
        let food = Settings::default().food;
        assert_eq!(with.delivered, food, "seed {seed}");
        assert!(with.steps.is_some_and(|steps| steps < STEPS), "seed {seed}");
        assert!(
            2 * without.delivered < food,
            "seed {seed}: {} of {food} without signals",
            without.delivered
        );
    }
}

#[test]
fn the_seed_decides_everything() {
    let settings = Settings::default();
    let (one, same, other) = (play(&settings, 7), play(&settings, 7), play(&settings, 8));
    assert_eq!(one.pictures, same.pictures);
    assert_ne!(one.pictures, other.pictures);
    assert!(one.steps.is_some());
}

#[test]
fn a_colony_without_deposits_leaves_nothing() {
    let settings = Settings {
        deposits: false,
        ..Settings::default()
    };
    let played = play(&settings, 7);
    assert_eq!(played.deposits, 0);
    let marked = |row: char| row.is_ascii_digit() || row == '.';
    assert!(
        !played
            .pictures
            .iter()
            .any(|picture| picture.contains(marked))
    );
}

#[test]
fn the_field_can_be_seen_as_it_forms() {
    let played = play(&Settings::default(), 7);
    let last = played.pictures.last().unwrap();
    assert!(
        last.contains('H') && last.contains('#') && last.contains('.'),
        "{last}"
    );
    let led = played.pictures.iter().any(|picture| picture.contains('9'));
    assert!(led, "{last}");
}

#[test]
fn the_largest_colony_makes_no_more_calls_than_a_step_has() {
    let settings = Settings {
        agents: CALLS / 8,
        width: 60,
        height: 40,
        food: 20,
        walls: 0,
        deposits: true,
    };
    let played = play(&settings, 3);
    assert!(played.most_calls <= CALLS, "{}", played.most_calls);
}

#[test]
fn a_call_that_failed_is_said_with_its_reason() {
    let mut gridworld = Gridworld::new(Settings::default()).unwrap();
    let act = gridworld.step(&json!({"seed": 1, "results": []})).unwrap();
    let refused =
        json!({"tool": READ, "ok": false, "error_code": "DENIED", "error": "Denied by policy"});
    let results: Vec<Value> = act.mcp_tools.iter().map(|_| refused.clone()).collect();
    let problem = gridworld.step(&json!({"results": results})).unwrap_err();
    assert!(
        problem.contains(READ) && problem.contains("Denied by policy"),
        "{problem}"
    );
    let problem = gridworld.step(&json!({"results": []})).unwrap_err();
    assert!(problem.contains("0 results"), "{problem}");
}

#[test]
fn settings_are_read_as_they_are_written_on_a_command_line() {
    let read = |text: Value| Settings::read(text.as_object().unwrap());
    let settings = read(json!({"agents": "4", "deposits": "off", "food": 3})).unwrap();
    assert_eq!(
        (settings.agents, settings.food, settings.deposits),
        (4, 3, false)
    );
    assert_eq!(read(json!({})).unwrap(), Settings::default());
    for (wrong, word) in [
        (json!({"agents": "0"}), "1 to 12"),
        (json!({"agents": "many"}), "set up"),
        (json!({"ants": 3}), "ants"),
        (json!({"width": -3}), "set up"),
    ] {
        let problem = read(wrong).unwrap_err();
        assert!(problem.contains(word), "{problem}");
    }
}
