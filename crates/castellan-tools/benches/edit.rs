//! How long `edit_file` takes to change one place of a file of 50 MB, and how much of that is the
//! disk: beside it, the same bytes are written to a new file, synced and renamed.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use castellan_core::port::Unwatched;
use castellan_core::tool::{CallContext, Report, SessionEffect, SessionView, Typed, TypedTool};
use castellan_core::{CallId, CancelSource, Tool as _};
use castellan_testkit::{ManualClock, SequentialIds};
use castellan_tools::edit_file::EditFile;
use castellan_tools::file::Closed;
use castellan_tools::parse::InProcess;
use castellan_tools::read_file::ReadFile;
use serde_json::{Value, json};

const LINE: &str = "a line of text that is like every other one in this file\n";
const BYTES: usize = 50_000_000;
const ROUNDS: usize = 11;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let half = LINE.repeat(BYTES / 2 / LINE.len());
    let content = format!("{half}middle 0\n{half}");
    std::fs::write(folder.path().join("big"), &content).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut view = SessionView {
        session: None,
        cwd: folder.path().to_owned(),
        workspace: folder.path().to_owned(),
        seen: std::collections::BTreeMap::default(),
        shells: std::collections::BTreeMap::default(),
        result_limit: 256 * 1024,
        redaction: Default::default(),
    };
    let read = json!({"path": "big", "limit": 1});
    let (report, ..) = runtime.block_on(run(
        ReadFile::new(Closed::default(), Arc::new(InProcess)),
        &read,
        &view,
    ));
    see(&mut view, &report);
    let (mut looks, mut edits, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that whatever else the machine does meets both.
    for round in 0..ROUNDS {
        let arguments = json!({
            "path": "big",
            "old_string": format!("middle {round}\n"),
            "new_string": format!("middle {}\n", round + 1),
        });
        let tool = EditFile::new(Closed::default());
        let (report, look, edit) = runtime.block_on(run(tool, &arguments, &view));
        see(&mut view, &report);
        let text = report.outcome.into_text();
        assert!(text.starts_with("edited"), "{text}");
        looks.push(look);
        edits.push(look + edit);
        disk.push(save(folder.path(), content.as_bytes()));
    }
    for (name, times) in [
        ("one place in 50 MB", &mut edits),
        ("of that, until the preview", &mut looks),
        ("50 MB written, synced and renamed", &mut disk),
    ] {
        println!("edit: {name}: {:.0} ms", median(times).as_secs_f64() * 1e3);
    }
}

/// The report of a call, and how long it took to look and to do it.
async fn run<T: TypedTool>(
    tool: T,
    arguments: &Value,
    view: &SessionView,
) -> (Report, Duration, Duration) {
    let tool = Typed::new(tool);
    let mut call = tool.parse(arguments.as_object().unwrap().clone()).unwrap();
    let begun = Instant::now();
    call.inspect(view).await.unwrap();
    let looked = begun.elapsed();
    let stop = CancelSource::new();
    let context = CallContext {
        call_id: CallId::mint(&SequentialIds::default()),
        caller: castellan_core::Caller {
            principal: castellan_core::Principal::Person("tester".to_owned()),
            surface: castellan_core::Surface::Interactive,
            capabilities: Vec::new(),
        },
        view: Arc::new(view.clone()),
        cancel: stop.token(),
        progress: Arc::new(Unwatched),
        overflow: Arc::new(Unwatched),
        redaction: castellan_core::secret::Redaction::default(),
        left: castellan_core::tool::Left::default(),
        clock: Arc::new(ManualClock::new()),
        model: None,
        elicitation: None,
        peer: None,
    };
    let begun = Instant::now();
    let report = call.execute(context).await;
    (report, looked, begun.elapsed())
}

fn see(view: &mut SessionView, report: &Report) {
    for effect in &report.session {
        if let SessionEffect::FileSeen { path, mark } = effect {
            view.seen.insert(path.clone(), mark.clone());
        }
    }
}

/// What no program that saves safely can do without.
fn save(folder: &Path, content: &[u8]) -> Duration {
    let begun = Instant::now();
    let mut file = File::create(folder.join("new")).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(folder.join("new"), folder.join("other")).unwrap();
    File::open(folder).unwrap().sync_all().unwrap();
    begun.elapsed()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
