//! How long `search` takes on a tree of 10,000 files, beside `rg` where it is installed.
//!
//! Both sides are whole: the tool from its arguments to the text a model reads, the program from
//! its start to the end of its output.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, starts what it compares with, and stops \
              where something is wrong"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use castellan_core::port::Unwatched;
use castellan_core::tool::{CallContext, SessionView, Typed};
use castellan_core::{CallId, CancelSource, Tool as _};
use castellan_testkit::{ManualClock, SequentialIds};
use castellan_tools::file::Closed;
use castellan_tools::search::Search;
use serde_json::{Value, json};

const FOLDERS: usize = 100;
const FILES: usize = 100;
const ROUNDS: usize = 21;

/// What is searched for, and how `rg` is told.
const QUERIES: [(&str, &str, &str); 4] = [
    ("a rare word", "needle_in_the_hay", "sensitive"),
    ("a regex", r"fn \w+_7\d9\(", "sensitive"),
    ("either case", "NEEDLE_in_the_hay", "insensitive"),
    ("nothing", "not_in_any_of_them", "sensitive"),
];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    plant(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let has_rg = rg(folder.path(), "x", "sensitive").is_some();
    if !has_rg {
        println!("search: rg is not installed, there is nothing to compare with");
    }
    for (name, query, case) in QUERIES {
        let arguments = json!({"query": query, "case": case});
        let (mut own, mut other) = (Vec::new(), Vec::new());
        // In turn, so that whatever else the machine does meets both.
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let text = runtime.block_on(search(folder.path(), &arguments));
            own.push(begun.elapsed());
            assert!(text.contains("10000 files searched"), "{text}");
            if has_rg {
                let begun = Instant::now();
                rg(folder.path(), query, case).unwrap();
                other.push(begun.elapsed());
            }
        }
        let own = median(&mut own);
        println!("search: {name}: {:.1} ms", milliseconds(own));
        if has_rg {
            let other = median(&mut other);
            println!("search: {name}, rg: {:.1} ms", milliseconds(other));
            let ratio = own.as_secs_f64() / other.as_secs_f64();
            println!("search: {name}, ratio to rg: {ratio:.2} times");
        }
    }
}

/// 10,000 files of code-like text in nested folders, with rules to ignore some more.
fn plant(root: &Path) {
    std::fs::create_dir(root.join(".git")).unwrap();
    std::fs::write(root.join(".gitignore"), "/build\n*.log\n!keep.log\n").unwrap();
    for folder in 0..FOLDERS {
        let place = root.join(format!("part{}/unit{folder}/src", folder % 7));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("trace.log"), "needle_in_the_hay\n").unwrap();
        for file in 0..FILES {
            let number = folder * FILES + file;
            let mut text = String::new();
            for line in 0..80 {
                text.push_str(&format!(
                    "    fn handler_{line}_{number}(input: &str) -> Option<usize> {{ input.len() }}\n"
                ));
            }
            if number.is_multiple_of(200) {
                text.push_str("// needle_in_the_hay\n");
            }
            std::fs::write(place.join(format!("file_{file}.rs")), text).unwrap();
        }
    }
}

async fn search(root: &Path, arguments: &Value) -> String {
    let tool = Typed::new(Search::new(Closed::default()));
    let mut call = tool.parse(arguments.as_object().unwrap().clone()).unwrap();
    let view = SessionView {
        session: None,
        cwd: root.to_owned(),
        workspace: root.to_owned(),
        seen: std::collections::BTreeMap::default(),
        shells: Default::default(),
        result_limit: 256 * 1024,
        redaction: Default::default(),
    };
    call.inspect(&view).await.unwrap();
    let stop = CancelSource::new();
    let context = CallContext {
        call_id: CallId::mint(&SequentialIds::default()),
        caller: castellan_core::Caller {
            principal: castellan_core::Principal::Person("tester".to_owned()),
            surface: castellan_core::Surface::Interactive,
            capabilities: Vec::new(),
        },
        view: Arc::new(view),
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
    call.execute(context).await.outcome.into_text()
}

/// Runs `rg`; `None` where there is none.
fn rg(root: &Path, query: &str, case: &str) -> Option<Vec<u8>> {
    let case = format!("--{}", case.replace("insensitive", "ignore-case"));
    let case = case.replace("--sensitive", "--case-sensitive");
    let ran = Command::new("rg")
        .args([
            "--no-config",
            "--line-number",
            "--no-heading",
            &case,
            "-e",
            query,
            ".",
        ])
        .current_dir(root)
        .stdin(Stdio::null())
        .output();
    ran.ok().map(|output| output.stdout)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
