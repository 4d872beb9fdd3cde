//! The audit chain: whatever is done to a row shows, and retention doesn't break it.

use castellan_core::Timestamp;
use castellan_store::audit::{self, AuditEntry, Bad, End, Filter, Verdict};
use castellan_store::{Error, ErrorKind, Store};
use sha2::{Digest as _, Sha256};

use crate::sample::{Counting, Place as _, SqlitePlace, entry, session};

/// A chain of `count` rows, one second apart, of anna and bert by turns.
async fn chain(store: &Store, count: i64) -> Vec<AuditEntry> {
    let ids = Counting::from(3);
    let entries: Vec<AuditEntry> = (1..=count)
        .map(|n| {
            let caller = if n % 2 == 0 { "anna" } else { "bert" };
            let mut entry = entry(&ids, n * 1000, caller);
            if n % 3 == 0 {
                entry.claimed = Some("root".to_owned());
                entry.session = Some(session(5));
                entry.code = None;
            }
            entry
        })
        .collect();
    // In two appends, so that one begins at the end of another.
    let (head, tail) = entries.split_at(entries.len() / 2);
    for part in [head.to_vec(), tail.to_vec()] {
        store
            .write(move |tx| audit::append(tx, &part))
            .await
            .unwrap();
    }
    entries
}

async fn verify(store: &Store) -> Verdict {
    store.read(audit::verify).await.unwrap()
}

/// Does `sql` to a sound chain of 9 rows; where the chain is found broken then.
async fn after(sql: &'static str) -> Option<Bad> {
    let place = SqlitePlace::new();
    let store = place.open();
    chain(&store, 9).await;
    assert_eq!(verify(&store).await.rows, 9);
    let changed = store.write(move |tx| tx.execute(sql, &[])).await.unwrap();
    assert!(changed > 0, "`{sql}` changed nothing");
    verify(&store).await.first_bad
}

#[tokio::test]
async fn every_column_of_a_row_is_covered() {
    for sql in [
        "UPDATE audit SET id = 'aud_00000000000000000000000000000000' WHERE seq = 5",
        "UPDATE audit SET ts = ts + 1 WHERE seq = 5",
        "UPDATE audit SET caller = 'carl' WHERE seq = 5",
        "UPDATE audit SET claimed = '' WHERE seq = 5",
        "UPDATE audit SET tool = 'bas' WHERE seq = 5",
        "UPDATE audit SET source = 'mcp' WHERE seq = 5",
        "UPDATE audit SET session = '' WHERE seq = 5",
        "UPDATE audit SET call_id = '' WHERE seq = 5",
        "UPDATE audit SET outcome = 'done' WHERE seq = 5",
        "UPDATE audit SET code = NULL WHERE seq = 5",
        "UPDATE audit SET duration_ms = -12 WHERE seq = 5",
        "UPDATE audit SET params = 'x' WHERE seq = 5",
        "UPDATE audit SET prev = zeroblob(32) WHERE seq = 5",
        "UPDATE audit SET hash = zeroblob(32) WHERE seq = 5",
        "UPDATE audit SET hash = x'00' WHERE seq = 5",
        // Content that moves from one field to the next.
        "UPDATE audit SET tool = 'bashinter', source = 'active' WHERE seq = 5",
    ] {
        let bad = after(sql)
            .await
            .unwrap_or_else(|| panic!("`{sql}` goes unseen"));
        assert_eq!(bad.seq, 5, "{sql}: {}", bad.what);
    }
}

#[tokio::test]
async fn removed_and_added_and_exchanged_rows_are_found() {
    for (sql, seq) in [
        ("DELETE FROM audit WHERE seq = 1", 1),
        ("DELETE FROM audit WHERE seq = 5", 5),
        ("DELETE FROM audit WHERE seq > 6", 7),
        ("DELETE FROM audit", 1),
        ("UPDATE audit SET seq = seq + 10 WHERE seq = 5", 5),
        ("UPDATE audit SET seq = seq - 5 WHERE seq < 3", 1),
        (
            "INSERT INTO audit SELECT 10, 'aud_x', ts, caller, claimed, tool, source, session,
             call_id, outcome, code, duration_ms, params, prev, hash FROM audit WHERE seq = 9",
            10,
        ),
        ("UPDATE audit_head SET seq = 8", 9),
        ("UPDATE audit_head SET seq = 10", 10),
        ("UPDATE audit_head SET hash = zeroblob(32)", 9),
        ("UPDATE audit_anchor SET seq = 1", 2),
        (
            "UPDATE audit_anchor SET hash = x'00000000000000000000000000000000000000000000000000000000000000ff'",
            1,
        ),
    ] {
        let bad = after(sql)
            .await
            .unwrap_or_else(|| panic!("`{sql}` goes unseen"));
        assert_eq!(bad.seq, seq, "{sql}: {}", bad.what);
    }
}

#[tokio::test]
async fn a_chain_without_its_record_of_the_newest_row_is_broken() {
    let place = SqlitePlace::new();
    let store = place.open();
    chain(&store, 2).await;
    store
        .write(|tx| tx.execute("DELETE FROM audit_head", &[]))
        .await
        .unwrap();
    let error = store.read(audit::verify).await.unwrap_err();
    assert!(matches!(error, Error::BrokenChain { .. }), "{error}");
    let more = [entry(&Counting::from(8), 1, "anna")];
    let refused = store.write(move |tx| audit::append(tx, &more)).await;
    assert!(
        matches!(refused, Err(Error::BrokenChain { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_hash_can_be_recomputed_from_the_description() {
    let place = SqlitePlace::new();
    let store = place.open();
    let mut only = entry(&Counting::from(3), 77, "änna");
    only.params = "a\0b".to_owned();
    let entries = [only.clone()];
    store
        .write(move |tx| audit::append(tx, &entries))
        .await
        .unwrap();
    let mut bytes = b"castellan audit 1\n".to_vec();
    bytes.extend([0; 32]);
    let (id, call) = (only.id.to_string(), only.call_id.to_string());
    for field in [
        Some("1"),
        Some(&id),
        Some("77"),
        Some("änna"),
        None,
        Some("bash"),
        Some("interactive"),
        None,
        Some(&call),
        Some("failed"),
        Some("TOOL_FAILED"),
        Some("12"),
        Some("a\u{fffd}b"),
    ] {
        match field {
            Some(text) => {
                bytes.extend(u64::try_from(text.len()).unwrap().to_be_bytes());
                bytes.extend(text.as_bytes());
            }
            None => bytes.extend([0xff; 8]),
        }
    }
    let expected: audit::Hash = Sha256::digest(&bytes).into();
    let head = store.read(audit::head).await.unwrap();
    assert_eq!(
        head,
        End {
            seq: 1,
            hash: expected
        }
    );
    assert!(
        audit::hex(&head.hash)
            .chars()
            .all(|digit| digit.is_ascii_hexdigit())
    );
    assert_eq!(audit::hex(&[0xa5; 32]), "a5".repeat(32));
}

#[tokio::test]
async fn a_chain_longer_than_one_query_is_verified_whole() {
    let place = SqlitePlace::new();
    let store = place.open();
    chain(&store, 2500).await;
    assert_eq!(
        verify(&store).await,
        Verdict {
            rows: 2500,
            first_bad: None
        }
    );
    store
        .write(|tx| tx.execute("UPDATE audit SET params = '' WHERE seq = 2001", &[]))
        .await
        .unwrap();
    let verdict = verify(&store).await;
    assert_eq!(verdict.rows, 2000);
    assert_eq!(verdict.first_bad.unwrap().seq, 2001);
}

#[tokio::test]
async fn rows_are_listed_newest_first_with_their_total() {
    let place = SqlitePlace::new();
    let store = place.open();
    let entries = chain(&store, 9).await;
    let list = |since: Option<i64>, caller: Option<&str>, limit: u32| {
        let filter = Filter {
            since: since.map(Timestamp),
            caller: caller.map(str::to_owned),
            limit,
        };
        store.read(move |tx| audit::list(tx, &filter))
    };
    let page = list(None, None, 2).await.unwrap();
    assert_eq!(page.total, 9);
    let found: Vec<_> = page.rows.iter().map(|row| (row.seq, &row.entry)).collect();
    assert_eq!(found, [(9, &entries[8]), (8, &entries[7])]);
    let page = list(Some(5000), Some("anna"), 10).await.unwrap();
    let found: Vec<u64> = page.rows.iter().map(|row| row.seq).collect();
    assert_eq!((found, page.total), (vec![8, 6], 2));
}

#[tokio::test]
async fn retention_keeps_the_chain() {
    let place = SqlitePlace::new();
    let store = place.open();
    chain(&store, 9).await;
    let prune = |before: i64| store.write(move |tx| audit::prune(tx, Timestamp(before)));
    assert_eq!(prune(0).await.unwrap(), 0);
    assert_eq!(prune(4000).await.unwrap(), 3);
    assert_eq!(
        verify(&store).await,
        Verdict {
            rows: 6,
            first_bad: None
        }
    );
    // Again, from an anchor that is a real row's.
    assert_eq!(prune(4000).await.unwrap(), 0);
    assert_eq!(prune(6000).await.unwrap(), 2);
    assert_eq!(
        verify(&store).await,
        Verdict {
            rows: 4,
            first_bad: None
        }
    );
    // All of it; the chain goes on from there.
    assert_eq!(prune(i64::MAX).await.unwrap(), 4);
    assert_eq!(
        verify(&store).await,
        Verdict {
            rows: 0,
            first_bad: None
        }
    );
    let more = [entry(&Counting::from(4), 1, "anna")];
    store
        .write(move |tx| audit::append(tx, &more))
        .await
        .unwrap();
    assert_eq!(
        verify(&store).await,
        Verdict {
            rows: 1,
            first_bad: None
        }
    );
    assert_eq!(store.read(audit::head).await.unwrap().seq, 10);
}

#[tokio::test]
async fn rows_that_do_not_verify_are_not_pruned() {
    for sql in [
        "UPDATE audit SET params = '' WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 9",
    ] {
        let place = SqlitePlace::new();
        let store = place.open();
        chain(&store, 9).await;
        store.write(move |tx| tx.execute(sql, &[])).await.unwrap();
        let refused = store
            .write(|tx| audit::prune(tx, Timestamp(i64::MAX)))
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corrupt, "{sql}");
        let kept: Option<u64> = store
            .read(|tx| tx.one("SELECT count(*) FROM audit", &[], |row| row.get(0)))
            .await
            .unwrap();
        assert!(kept.is_some_and(|kept| kept >= 8), "{sql}");
    }
}
