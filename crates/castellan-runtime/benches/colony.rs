//! What signals are worth: the same colonies with and without them, as whole episodes through the
//! gate and the store. Prints the table of `docs/episodes.md`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use castellan_core::secret::Redaction;
use castellan_core::{CancelSource, Recorded};
use castellan_gate::gate::Settings as GateSettings;
use castellan_gate::policy::NoProjectRules;
use castellan_gate::{Guards, Permission, Profile};
use castellan_runtime::catalog::Shared;
use castellan_runtime::episode::gridworld::Settings;
use castellan_runtime::episode::{
    Ended, Gridworld, How, Onlooker, Plan, Stage, StageParts, Standing, Time, Watch, run,
};
use castellan_runtime::meta::Looking;
use castellan_runtime::principals::Local;
use castellan_runtime::session::Watcher;
use castellan_runtime::{Evolved, TraceTo};
use castellan_store::{LateStore, Settings as StoreSettings, Store, Synchronous};
use castellan_testkit::ManualClock;

/// How many colonies there are of each kind.
const SEEDS: u64 = 20;
/// After so many steps a colony has had its chance.
const STEPS: u64 = 500;
/// How much is home is asked after so many steps.
const EARLY: u64 = 150;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let began = Instant::now();
    let both = [true, false].map(|deposits| {
        let played = (1..=SEEDS).map(|seed| runtime.block_on(play(seed, deposits)));
        played.collect::<Vec<_>>()
    });
    let took = began.elapsed();
    let calls: u64 = both.iter().flatten().map(|colony| colony.ended.calls).sum();
    print(&both);
    println!(
        "colony: {} episodes, {calls} calls, {:.0} µs a call",
        2 * SEEDS,
        took.as_secs_f64() * 1e6 / as_float(calls)
    );
}

/// What a colony came to.
struct Colony {
    ended: Ended,
    /// How many pieces were home after so many steps.
    home: Vec<u64>,
}

impl Colony {
    fn steps(&self) -> Option<u64> {
        (self.ended.how == How::Reached).then_some(self.ended.steps)
    }

    fn home_after(&self, steps: u64) -> u64 {
        let at = usize::try_from(steps).unwrap().min(self.home.len());
        self.home[at - 1]
    }
}

fn print([with, without]: &[Vec<Colony>; 2]) {
    let food = Settings::default().food;
    println!(
        "| seed | all {food} home, with signals | without | home after {EARLY} steps, with | without |"
    );
    println!("|---|---|---|---|---|");
    let steps = |colony: &Colony| match colony.steps() {
        Some(steps) => format!("{steps} steps"),
        None => format!("not in {STEPS}"),
    };
    for (seed, (one, other)) in (1..).zip(with.iter().zip(without)) {
        println!(
            "| {seed} | {} | {} | {} | {} |",
            steps(one),
            steps(other),
            one.home_after(EARLY),
            other.home_after(EARLY)
        );
    }
    let done = |all: &[Colony]| all.iter().filter(|one| one.steps().is_some()).count();
    let home = |all: &[Colony]| {
        let home: u64 = all.iter().map(|one| one.home_after(EARLY)).sum();
        as_float(home) / as_float(SEEDS)
    };
    println!(
        "| all | {} of {SEEDS}, {:.0} steps on average | {} of {SEEDS} | {:.1} | {:.1} |",
        done(with),
        as_float(with.iter().filter_map(Colony::steps).sum()) / as_float(done(with) as u64),
        done(without),
        home(with),
        home(without)
    );
}

#[expect(clippy::cast_precision_loss, reason = "a count of steps or calls")]
fn as_float(number: u64) -> f64 {
    number as f64
}

async fn play(seed: u64, deposits: bool) -> Colony {
    let folder = tempfile::tempdir().unwrap();
    let stage = stage(seed, folder.path());
    let settings = Settings {
        deposits,
        ..Settings::default()
    };
    let plan = Plan {
        goal: "bring food home".to_owned(),
        mcp: true,
        max_steps: STEPS,
        seed,
        zones: "own".to_owned(),
        version: "bench".to_owned(),
    };
    let counted = Arc::<Home>::default();
    let watch = Watch {
        events: Arc::new(Nobody),
        steps: Arc::clone(&counted) as _,
    };
    let never = CancelSource::new();
    let plugin = Box::new(Gridworld::new(settings).unwrap());
    let ended = run(&stage, &plan, plugin, watch, never.token()).await;
    let home = counted.0.lock().unwrap().clone();
    Colony {
        ended: ended.unwrap(),
        home,
    }
}

/// The stage that `castellan run` lays.
fn stage(seed: u64, folder: &Path) -> Stage {
    let time = Time::simulated(seed, Arc::new(ManualClock::new()));
    let settings = StoreSettings {
        synchronous: Synchronous::Normal,
        ..StoreSettings::default()
    };
    let store = Store::open(folder.join("castellan.db"), settings).unwrap();
    let shared = Shared {
        store: LateStore::of(store),
        ids: Arc::clone(&time.ids),
        user: "episode".to_owned(),
        meter: Arc::default(),
        looking: Looking::default(),
        evolved: Evolved::of(LateStore::default()),
    };
    Stage::new(StageParts {
        tools: shared.tools(),
        looking: shared.looking.clone(),
        meter: Arc::clone(&shared.meter),
        time,
        principals: Arc::new(Local),
        redaction: Redaction::new([]),
        settings: GateSettings {
            parallel: 4,
            timeout: Duration::from_secs(60),
            spill: folder.join("spill"),
        },
        guards: Guards::default(),
        permission: Permission::default(),
        rules: Arc::new(NoProjectRules),
        profile: Profile::named("team").unwrap(),
        store: None,
        trace: TraceTo::File(folder.join("trace.jsonl")),
        workspace: folder.to_owned(),
    })
    .unwrap()
}

struct Nobody;

impl Watcher for Nobody {
    fn see(&self, _event: &Recorded) {}
}

/// How much was home after each step.
#[derive(Default)]
struct Home(Mutex<Vec<u64>>);

impl Onlooker for Home {
    fn step(&self, standing: &Standing<'_>) {
        let home = standing.act.state["home"].as_u64().unwrap();
        self.0.lock().unwrap().push(home);
    }
}
