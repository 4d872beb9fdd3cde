//! What the gate costs: a read-only call from end to end with its trace, preparing large
//! arguments, and searching a catalog.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use castellan_core::bm25::Index;
use castellan_core::caller::{Claim, Unidentified};
use castellan_core::message::{IssuedCall, RawCall};
use castellan_core::secret::Redaction;
use castellan_core::tool::{Effect, SessionView};
use castellan_core::{
    CallId, Caller, CancelSource, Clock, Event, Outcome, Principal, Principals, Recorded,
    SessionId, Surface, Timestamp, Tool,
};
use castellan_gate::gate::Parts;
use castellan_gate::trace::Trace;
use castellan_gate::{
    Batch, Catalog, Error, Gate, Guards, Pending, Permission, Policy, Recorder, Settings,
};
use castellan_host::SystemClock;
use castellan_store::audit::AuditEntry;
use castellan_testkit::{FakeTool, SequentialIds};
use futures::future::{BoxFuture, FutureExt as _};

struct Anyone;

impl Principals for Anyone {
    fn resolve(&self, claim: &Claim) -> Result<Caller, Unidentified> {
        let principal = claim.principal.clone();
        Ok(Caller {
            principal,
            surface: claim.surface,
            capabilities: Vec::new(),
        })
    }
}

/// Writes every event to a trace, as for a call outside any session; commits nothing.
struct Traced {
    session: SessionId,
    trace: Mutex<Trace>,
    noted: Mutex<Vec<Recorded>>,
}

impl Recorder for Traced {
    fn note(&self, event: Event) {
        let ts = Timestamp(0);
        let recorded = Recorded {
            ts,
            seq: Some(1),
            session: self.session,
            event,
        };
        self.noted.lock().unwrap().push(recorded);
    }

    fn audit(&self, _entry: AuditEntry) {}

    fn commit(&self) -> BoxFuture<'_, Result<(), Error>> {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap());
        let written = self.trace.lock().unwrap().append(&noted);
        futures::future::ready(written).boxed()
    }

    fn pass(&self, _event: Event) {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(calls());
    search();
}

async fn calls() {
    let folder = tempfile::tempdir().unwrap();
    let ids = SequentialIds::default();
    let session = SessionId::mint(&ids);
    let no_op = FakeTool::new("no_op", Effect::ReadOnly, |_, _| async {
        Outcome::read("nothing to do")
    });
    let gate = Gate::new(Parts {
        catalog: Arc::new(Catalog::new(vec![Arc::new(no_op) as Arc<dyn Tool>]).unwrap()),
        principals: Arc::new(Anyone),
        clock: Arc::new(SystemClock::new()) as Arc<dyn Clock>,
        ids: Arc::new(SequentialIds::default()),
        redaction: Redaction::new(["sk-0123456789".to_owned()]),
        settings: Settings {
            parallel: 4,
            timeout: Duration::from_secs(60),
            spill: folder.path().to_owned(),
        },
        guards: Guards::default(),
    });
    let trace = Trace::open(folder.path(), session, &[]).unwrap();
    let recorder: Arc<dyn Recorder> = Arc::new(Traced {
        session,
        trace: Mutex::new(trace),
        noted: Mutex::default(),
    });
    let large = format!("{{\"text\": \"{}\"}}", "0123456789 abcde".repeat(65_536));
    for (name, arguments, rounds) in [
        ("read-only call, trace on", "{\"text\": \"x\"}", 20_000),
        ("the same, 1 MB of arguments", &large, 200),
    ] {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let raw = RawCall::new("no_op", arguments);
            let issued = IssuedCall {
                call_id: CallId::mint(&ids),
                raw,
            };
            let pending = [Pending {
                issued,
                prepared: false,
                asked: None,
                answer: None,
                answered_by: None,
            }];
            let begun = Instant::now();
            one(&gate, &pending, &recorder).await;
            times.push(begun.elapsed());
        }
        report(name, &mut times);
    }
}

async fn one(gate: &Gate, calls: &[Pending], recorder: &Arc<dyn Recorder>) {
    let claim = Claim {
        principal: Principal::Person("me".into()),
        surface: Surface::Interactive,
        token: None,
    };
    let view = SessionView {
        session: None,
        cwd: "/".into(),
        workspace: "/".into(),
        seen: std::collections::BTreeMap::default(),
        shells: Default::default(),
        result_limit: 256 * 1024,
        redaction: Default::default(),
    };
    let stop = CancelSource::new();
    let batch = Batch {
        claim: &claim,
        view: Arc::new(view),
        calls,
        permission: &Permission::default(),
        rules: &Policy::default(),
        cancel: stop.token(),
        model: None,
        elicitation: None,
        peer: None,
        recorder: Arc::clone(recorder),
    };
    gate.handle(batch).await.unwrap();
}

fn search() {
    let words = [
        "read", "write", "merge", "signal", "deposit", "user", "page", "issue", "file",
    ];
    for size in [1_000_usize, 10_000] {
        let names: Vec<(String, String)> = (0..size)
            .map(|n| {
                let word = |step: usize| words[(n / step) % words.len()];
                let name = format!("{}_{}_{n}", word(1), word(9));
                (
                    name,
                    format!("{} a {} and tell about its {}", word(3), word(7), word(11)),
                )
            })
            .collect();
        let index = Index::new(
            names
                .iter()
                .map(|(name, text)| [(name.as_str(), 3.0), (text.as_str(), 1.0)]),
        );
        let mut times = Vec::new();
        for _ in 0..500 {
            let begun = Instant::now();
            black_box(index.search(black_box("merge user pages"), 10));
            times.push(begun.elapsed());
        }
        report(&format!("search among {size} tools"), &mut times);
    }
}

fn report(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
    println!(
        "gate: {name}: {:.1} µs at the median, {:.1} at the 95th percentile",
        at(50),
        at(95)
    );
}
