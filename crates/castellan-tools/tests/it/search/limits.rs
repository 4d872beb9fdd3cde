//! Where a search ends before its end.

use std::time::Duration;

use castellan_core::tool::Typed;
use castellan_core::{CancelSource, Outcome, Tool as _};
use castellan_testkit::{Home, ManualClock};
use castellan_tools::file::Closed;
use castellan_tools::search::Search;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::search;
use crate::drive::{call, context, text, view};

/// The outcome of a search with this clock, which is cancelled after a while.
async fn stopped(home: &Home, arguments: Value, clock: ManualClock, after: Duration) -> Outcome {
    let view = view(&home.workspace());
    let tool = Typed::new(Search::new(Closed::default()));
    let mut call = tool.parse(arguments.as_object().unwrap().clone()).unwrap();
    call.inspect(&view).await.unwrap();
    let stop = CancelSource::new();
    let run = call.execute(context(&view, &stop, clock));
    let cancel = async {
        tokio::time::sleep(after).await;
        stop.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        report = run => report.outcome,
        () = cancel => unreachable!("the other one never ends"),
    }
}

#[tokio::test]
async fn the_number_of_matches_is_bounded_and_the_rest_is_said() {
    let home = Home::new();
    for file in 0..30 {
        home.write(format!("{file:02}.txt"), "needle\n".repeat(100));
    }
    let said = search(&home, json!({"query": "needle"})).await;
    assert_eq!(said.matches(": needle").count(), 1000);
    assert!(
        said.contains("09.txt:100: needle") && !said.contains("10.txt"),
        "{said}"
    );
    let (_, totals) = said.rsplit_once("[stopped").unwrap();
    assert!(
        totals.contains("at least 1") && totals.contains("of 30 files"),
        "{totals}"
    );
    assert!(totals.contains("narrow `path`"), "{totals}");
    home.write("one.txt", "needle\n".repeat(5000));
    let said = search(&home, json!({"query": "needle", "path": "one.txt"})).await;
    assert!(
        said.contains("at least 1000 matches in 1 of 1 file"),
        "{}",
        said.len()
    );
}

#[tokio::test]
async fn the_bytes_of_an_answer_are_bounded() {
    let home = Home::new();
    let line = format!("needle {}\n", "x".repeat(290));
    for file in 0..30 {
        home.write(format!("{file:02}.txt"), line.repeat(50));
    }
    let mut view = view(&home.workspace());
    view.result_limit = 20_000;
    let arguments = json!({"query": "needle", "context": 3});
    let said = text(call(Search::new(Closed::default()), arguments, &view).await);
    assert!(
        said.len() <= 20_000 && said.len() > 10_000,
        "{}",
        said.len()
    );
    assert!(
        said.contains("at least") && said.contains("are shown"),
        "{said}"
    );
}

#[tokio::test]
async fn a_search_that_takes_too_long_gives_what_it_found() {
    let home = Home::new();
    let file = std::fs::File::create(home.workspace().join("huge")).unwrap();
    file.set_len(1 << 36).unwrap();
    let arguments = json!({"query": "needle", "path": "huge"});
    // A clock on which every wait is over at once.
    let clock = ManualClock::skipping();
    let begun = Instant::now();
    let outcome = stopped(&home, arguments, clock, Duration::from_secs(60)).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let said = outcome.into_text();
    assert!(
        said.contains("stopped after 20 s: at least 0 matches in "),
        "{said}"
    );
}

#[tokio::test]
async fn a_cancelled_search_stops_at_once_and_gives_what_it_found() {
    let home = Home::new();
    home.write("huge", "needle\n");
    let file = std::fs::File::options()
        .append(true)
        .open(home.workspace().join("huge"))
        .unwrap();
    file.set_len(1 << 36).unwrap();
    let arguments = json!({"query": "absent", "path": "huge"});
    let begun = Instant::now();
    let after = Duration::from_millis(100);
    let outcome = stopped(&home, arguments, ManualClock::new(), after).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let Outcome::Cancelled { output, .. } = outcome else {
        unreachable!("{outcome:?}")
    };
    assert!(output.contains("cancelled: at least 0 matches"), "{output}");
}

#[tokio::test]
async fn a_line_that_is_too_long_to_search_is_said() {
    let home = Home::new();
    home.write(
        "long",
        [b"needle\n".to_vec(), vec![b'x'; 40 << 20]].concat(),
    );
    home.write("other", "needle\n");
    let said = search(&home, json!({"query": "needle"})).await;
    assert!(said.contains("long:1: needle\nother:1: needle\n"), "{said}");
    assert!(said.contains("a line is too long: long"), "{said}");
}

/// It could not be stopped: nothing looks at a clock within a line.
#[tokio::test]
async fn a_query_that_takes_many_steps_for_each_byte_gets_shorter_lines() {
    let home = Home::new();
    let line: String = (0..4_000_000_u64)
        .map(|n| {
            if n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0 {
                'a'
            } else {
                'b'
            }
        })
        .collect();
    home.write("long", format!("needle\n{line}\n"));
    let said = search(&home, json!({"query": "needle|a[ab]{2000}c"})).await;
    assert!(said.contains("a line is too long: long"), "{said}");
    let said = search(&home, json!({"query": "needle|a[ab]{20}c"})).await;
    assert!(!said.contains("too long"), "{said}");
}
