//! A disk that is full, and calls that are stopped.

use std::fs;
use std::path::Path;

use castellan_core::outcome::EffectStatus;
use castellan_core::{ErrorCode, Outcome};
use nix::unistd::geteuid;
use serde_json::json;

use crate::child::{Other, say};
use crate::drive::World;

/// A started process that fills the small disk it has, is given more, and goes on.
pub(crate) async fn fill(place: &Path) {
    let ballast = place.with_file_name("ballast");
    let world = World::at(place);
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let value = "words ".repeat(5000);
    let mut kept = 0_u64;
    let (code, text) = loop {
        let key = format!("k{kept}");
        let arguments = json!({"key": key, "value": value});
        let outcome = world.report("castellan_remember", &arguments).await.outcome;
        match outcome.code() {
            None => kept += 1,
            Some(code) => break (code, outcome.into_text()),
        }
    };
    assert_eq!(code, ErrorCode::StoreUnavailable, "{text}");
    assert!(text.contains("no room left on its disk"), "{text}");
    assert!(!text.contains(place.to_str().unwrap()), "{text}");
    assert!(kept > 10, "{kept}");
    // A deposit of a few bytes may still fit; where it fails, it fails whole.
    let deposit = json!({"zone": "z", "signal": "s", "amount": 1.0, "half_life": 0});
    let mut deposits = 0;
    for _ in 0..1000 {
        let report = world.report("castellan_deposit_signal", &deposit).await;
        if report.outcome.is_error() {
            break;
        }
        deposits += 1;
    }
    fs::remove_file(&ballast).unwrap();
    let after = world.call("castellan_deposit_signal", deposit).await;
    assert_eq!(after["deposits"], json!(deposits + 1));
    let last = json!({"key": format!("k{}", kept - 1)});
    let recalled = world.call("castellan_recall", last).await;
    assert_eq!(recalled["value"], json!(value));
    world
        .fails("castellan_recall", json!({"key": format!("k{kept}")}))
        .await;
    world.store.get().unwrap().check().await.unwrap();
    say("filled");
}

/// In a mount namespace of its own, so that the disk goes when the process does.
const ON_A_SMALL_DISK: &str = r#"mount -t tmpfs -o size=4m none "$0" && exec "$@""#;

#[test]
fn a_full_disk_is_said_and_costs_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    let launcher = if geteuid().is_root() {
        vec!["unshare", "--mount", "sh", "-c", ON_A_SMALL_DISK, disk]
    } else {
        let with_names = ["unshare", "--map-root-user", "--mount"];
        [&with_names[..], &["sh", "-c", ON_A_SMALL_DISK, disk]].concat()
    };
    let path = folder.path().join("castellan.db");
    let mut other = Other::start_under(&launcher, "fill", &path);
    let said = other.hear();
    other.succeeds();
    assert_eq!(said.as_deref(), Some("filled"));
}

#[tokio::test]
async fn a_stopped_call_says_whether_it_may_have_had_an_effect() {
    let world = World::new();
    world.stop.cancel();
    let (gate, held) = std::sync::mpsc::sync_channel::<()>(0);
    // The writer is busy, so that the call has to wait and can be stopped.
    let store = world.store.clone();
    let (begun, beginning) = std::sync::mpsc::sync_channel(1);
    let held = std::sync::Mutex::new(held);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        store
            .write(move |_tx| {
                begun.send(()).unwrap_or_default();
                let held = held.lock().unwrap();
                // An error means that the sender is gone, which is the sign to go on.
                held.recv().unwrap_or_default();
                Ok(())
            })
            .await
            .unwrap();
    });
    tokio::task::spawn_blocking(move || beginning.recv().unwrap())
        .await
        .unwrap();
    let deposit = json!({"zone": "z", "signal": "s", "amount": 1.0});
    let outcome = world
        .report("castellan_deposit_signal", &deposit)
        .await
        .outcome;
    drop(gate);
    tasks.join_next().await.unwrap().unwrap();
    assert!(
        matches!(
            outcome,
            Outcome::Cancelled {
                effect: EffectStatus::Unknown,
                ..
            }
        ),
        "{outcome:?}"
    );
}
