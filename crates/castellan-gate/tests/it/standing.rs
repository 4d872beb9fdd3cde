//! Permissions that were given for good, on the path of a call.

use castellan_core::Timestamp;
use castellan_core::id::GrantId;
use castellan_gate::{Guards, Handled};
use castellan_store::grants::{self, GrantRow, Place};
use castellan_store::{Settings, Store};
use castellan_testkit::FakeTool;
use serde_json::json;

use crate::bench_of_tools::Bench;
use crate::guards::{one, question, tools};

/// A bench with a place for permissions, another handle to it as another process would have, and
/// the folder both are in.
fn with_store() -> (Bench, Store, tempfile::TempDir) {
    with_store_of(tools())
}

pub(crate) fn with_store_of(tools: Vec<FakeTool>) -> (Bench, Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("castellan.db");
    let open = || Store::open(&path, Settings::default()).unwrap();
    let guards = Guards {
        grants: Some(open()),
        ..Guards::default()
    };
    let mut bench = Bench::guarded(tools, guards);
    std::fs::create_dir(folder.path().join("project")).unwrap();
    std::fs::create_dir(folder.path().join("project/sub")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("project"), folder.path().join("link")).unwrap();
    bench.workspace = folder.path().join("project");
    (bench, open(), folder)
}

pub(crate) async fn give(store: &Store, bench: &Bench, text: &str, place: Place) -> GrantId {
    let id = GrantId::mint(&bench.ids);
    let row = GrantRow {
        id,
        grant: text.parse().unwrap(),
        place,
        who: "me".into(),
        surface: "interactive".into(),
        session: None,
        given: Timestamp(0),
        uses: 0,
        last_used: None,
    };
    assert!(store.write(move |tx| grants::give(tx, &row)).await.unwrap());
    id
}

#[tokio::test]
async fn a_grant_given_elsewhere_holds_at_once_and_until_it_is_revoked() {
    let (bench, other, _folder) = with_store();
    let asks = || one(&bench, "bash", json!({"text": "cargo test --all"}));
    assert!(matches!(asks().await, Handled::Waiting(_)));
    let id = give(&other, &bench, "bash:cargo test", Place::Everywhere).await;
    assert_eq!(asks().await, Handled::Finished);
    assert_eq!(asks().await, Handled::Finished);
    let uses = bench.gate.take_uses();
    assert_eq!((uses.len(), uses[0].id, uses[0].calls), (1, id, 2));
    other.write(move |tx| grants::revoke(tx, id)).await.unwrap();
    assert!(matches!(asks().await, Handled::Waiting(_)));
}

#[tokio::test]
async fn a_project_is_one_folder_however_it_is_spelled_and_not_what_lies_in_it() {
    let (mut bench, other, folder) = with_store();
    let real = folder.path().join("project").canonicalize().unwrap();
    give(&other, &bench, "bash", Place::Project(real)).await;
    for (workspace, covered) in [
        ("project", true),
        ("link", true),
        ("project/sub/..", true),
        ("project/sub", false),
        ("", false),
    ] {
        bench.workspace = folder.path().join(workspace);
        let handled = one(&bench, "bash", json!({"text": "ls"})).await;
        assert_eq!(handled == Handled::Finished, covered, "{workspace}");
    }
}

#[tokio::test]
async fn several_grants_cover_a_command_together_and_each_use_is_counted() {
    let (bench, other, _folder) = with_store();
    give(&other, &bench, "bash:cargo test", Place::Everywhere).await;
    give(&other, &bench, "bash:git status", Place::Everywhere).await;
    give(&other, &bench, "bash:ls", Place::Everywhere).await;
    let handle = |command: &str| one(&bench, "bash", json!({"text": command}));
    assert_eq!(handle("git status && cargo test").await, Handled::Finished);
    assert_eq!(bench.gate.take_uses().len(), 2);
    assert!(matches!(
        handle("git status && rm x").await,
        Handled::Waiting(_)
    ));
    assert!(bench.gate.take_uses().is_empty());
}

#[tokio::test]
async fn a_standing_grant_covers_no_high_impact_call() {
    let (bench, other, _folder) = with_store();
    give(&other, &bench, "revoke", Place::Everywhere).await;
    give(&other, &bench, "*", Place::Everywhere).await;
    assert!(matches!(
        one(&bench, "revoke", json!({})).await,
        Handled::Waiting(_)
    ));
    assert!(question(&bench).grants.is_empty());
}

#[tokio::test]
async fn what_is_offered_for_good_is_the_narrowest_first() {
    let (bench, _other, _folder) = with_store();
    for (command, expected) in [
        ("cargo test --all", &["bash:cargo test", "bash"][..]),
        ("cargo test && ls", &["bash"]),
        ("echo (", &["bash"]),
    ] {
        one(&bench, "bash", json!({"text": command})).await;
        assert_eq!(question(&bench).grants, expected, "{command}");
    }
}

#[tokio::test]
async fn a_grant_that_can_not_be_read_covers_nothing_and_hides_no_other() {
    let (bench, other, _folder) = with_store();
    give(&other, &bench, "bash:ls", Place::Everywhere).await;
    other
        .write(|tx| {
            tx.execute(
                "INSERT INTO grants (id, text, scope, place, who, surface, session, given, uses)
                 VALUES ('x', 'ba sh', 'everywhere', '', 'me', 'interactive', NULL, 0, 0)",
                &[],
            )
        })
        .await
        .unwrap();
    let handle = |command: &str| one(&bench, "bash", json!({"text": command}));
    assert_eq!(handle("ls -l").await, Handled::Finished);
    assert!(matches!(handle("make").await, Handled::Waiting(_)));
    let reason = question(&bench).reason;
    assert!(
        reason.contains("1 of the standing permissions could not be read"),
        "{reason}"
    );
}
