//! What every database must do, as functions over how one is opened; at the end the list of them,
//! run on SQLite.

use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::Poll;

use castellan_core::event::State;
use castellan_core::{Event, Timestamp};
use castellan_store::audit::{self, ReadCount};
use castellan_store::grants::{self, Filter, Use};
use castellan_store::{Error, ErrorKind, Result, Store, Tx, Value, events, sessions};
use futures::future::join_all;
use futures::poll;

use crate::sample::{
    Counting, Place, entry, granted, idle, recorded, request, session, start, user,
};

pub(crate) type Write<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

async fn table(store: &Store) {
    store
        .write(|tx| tx.execute("CREATE TABLE t (a INTEGER, b TEXT)", &[]))
        .await
        .unwrap();
}

fn put(tx: &Tx<'_>, number: i64) -> Result<()> {
    tx.execute("INSERT INTO t (a) VALUES ($1)", &[number.into()])
        .map(drop)
}

async fn numbers(store: &Store) -> Vec<i64> {
    store
        .read(|tx| tx.query("SELECT a FROM t ORDER BY a", &[], |row| row.get(0)))
        .await
        .unwrap()
}

/// Starts a job that runs until the returned sender is dropped, so that what is queued meanwhile
/// waits together.
pub(crate) async fn occupied(store: &Store) -> (SyncSender<()>, Write<'_>) {
    let (go, gate) = sync_channel(0);
    let (begun, beginning) = sync_channel(1);
    let mut busy: Write<'_> = Box::pin(store.write(move |_tx| {
        begun.send(()).unwrap();
        // An error means that the sender is gone, which is the sign to go on.
        gate.recv().unwrap_or_default();
        Ok(())
    }));
    assert!(matches!(poll!(&mut busy), Poll::Pending));
    beginning.recv().unwrap();
    (go, busy)
}

pub(crate) async fn queued<'a>(jobs: impl IntoIterator<Item = Write<'a>>) -> Vec<Write<'a>> {
    let mut waiting = Vec::new();
    for mut job in jobs {
        assert!(matches!(poll!(&mut job), Poll::Pending));
        waiting.push(job);
    }
    waiting
}

async fn writes_that_wait_share_one_commit(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let before = store.commits();
    let (go, busy) = occupied(&store).await;
    let jobs = (0..32).map(|n| Box::pin(store.write(move |tx| put(tx, n))) as Write<'_>);
    let waiting = queued(jobs).await;
    drop(go);
    busy.await.unwrap();
    for answer in join_all(waiting).await {
        answer.unwrap();
    }
    // The job that held the queue up, and all the others.
    assert_eq!(store.commits() - before, 2);
    assert_eq!(numbers(&store).await, (0..32).collect::<Vec<i64>>());
}

async fn a_failing_or_panicking_job_undoes_only_itself(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let (go, busy) = occupied(&store).await;
    let jobs: [Write<'_>; 4] = [
        Box::pin(store.write(|tx| put(tx, 1))),
        Box::pin(store.write(|tx| {
            put(tx, 2)?;
            tx.execute("INSERT INTO nowhere VALUES (1)", &[]).map(drop)
        })),
        Box::pin(store.write(|tx| {
            put(tx, 3)?;
            panic!("the job gave up")
        })),
        Box::pin(store.write(|tx| put(tx, 4))),
    ];
    let waiting = queued(jobs).await;
    drop(go);
    busy.await.unwrap();
    let answers = join_all(waiting).await;
    assert!(answers[0].is_ok() && answers[3].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Internal);
    let Err(Error::Panicked { message }) = &answers[2] else {
        panic!("{:?}", answers[2]);
    };
    assert_eq!(message, "the job gave up");
    assert_eq!(numbers(&store).await, [1, 4]);
}

async fn a_job_that_ends_its_transaction_does_not_take_others_with_it(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let (go, busy) = occupied(&store).await;
    let jobs: [Write<'_>; 3] = [
        Box::pin(store.write(|tx| put(tx, 1))),
        Box::pin(store.write(|tx| {
            put(tx, 2)?;
            tx.execute("ROLLBACK", &[]).map(drop)
        })),
        Box::pin(store.write(|tx| put(tx, 3))),
    ];
    let waiting = queued(jobs).await;
    drop(go);
    busy.await.unwrap();
    let answers = join_all(waiting).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(numbers(&store).await, [1, 3]);
}

async fn dropping_the_last_handle_finishes_what_was_queued(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let other = store.clone();
    let (go, busy) = occupied(&other).await;
    let jobs = (0..5).map(|n| Box::pin(other.write(move |tx| put(tx, n))) as Write<'_>);
    let waiting = queued(jobs).await;
    // Nobody waits for the answers any more.
    drop((waiting, busy));
    drop(store);
    drop(go);
    drop(other);
    assert_eq!(numbers(&place.open()).await, [0, 1, 2, 3, 4]);
}

async fn the_last_handle_can_be_dropped_by_a_job(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let (go, gate) = sync_channel(1);
    let inner = store.clone();
    let mut job: Write<'_> = Box::pin(async move {
        let kept = inner.clone();
        inner
            .write(move |tx| {
                let _kept = &kept;
                gate.recv().unwrap_or_default();
                put(tx, 7)
            })
            .await
    });
    assert!(matches!(poll!(&mut job), Poll::Pending));
    drop((job, store));
    go.send(()).unwrap();
    // Opening again waits for nothing; the row is there once the job's thread has committed it,
    // which a write of our own comes after.
    let again = place.open();
    while again
        .write(|tx| tx.query("SELECT a FROM t", &[], |row| row.get::<i64>(0)))
        .await
        .unwrap()
        != [7]
    {
        tokio::task::yield_now().await;
    }
}

async fn what_was_written_is_there_after_reopening(place: &impl Place) {
    let id = session(1);
    let log = [start(id, 5), user(id, 6, "hello")];
    let wrote = log.clone();
    let store = place.open();
    let last = store
        .write(move |tx| events::append(tx, id, 0, &wrote, &[]))
        .await;
    assert_eq!(last.unwrap(), 2);
    drop(store);
    let store = place.open();
    let found = store.read(move |tx| events::load(tx, id, 0)).await.unwrap();
    let numbered: Vec<_> = (1..)
        .zip(log)
        .map(|(seq, mut recorded)| {
            recorded.seq = Some(seq);
            recorded
        })
        .collect();
    assert_eq!(found, numbered);
    let rest = store.read(move |tx| events::load(tx, id, 1)).await.unwrap();
    assert_eq!(rest, numbered[1..]);
}

async fn parameters_go_where_their_numbers_say(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let found = store
        .write(|tx| {
            tx.execute(
                "INSERT INTO t (b, a) VALUES ($2, $1)",
                &[1_i64.into(), "one".into()],
            )?;
            tx.one(
                "SELECT a, b, $2, $1 FROM t WHERE b = $3 AND a = $4",
                &[Value::Null, true.into(), "one".into(), 1_i64.into()],
                |row| {
                    let rest: (bool, Option<i64>) = (row.get(2)?, row.get(3)?);
                    Ok((row.get::<i64>(0)?, row.get::<String>(1)?, rest))
                },
            )
        })
        .await
        .unwrap();
    assert_eq!(found, Some((1, "one".to_owned(), (true, None))));
}

async fn a_column_of_another_type_is_said_and_not_guessed(place: &impl Place) {
    let store = place.open();
    let read = |job: fn(&Tx<'_>) -> Result<()>| store.read(job);
    let wrong = read(|tx| tx.one("SELECT 'x'", &[], |row| row.get::<i64>(0)).map(drop)).await;
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Corrupt);
    let negative = read(|tx| tx.one("SELECT -1", &[], |row| row.get::<u64>(0)).map(drop)).await;
    assert_eq!(negative.unwrap_err().kind(), ErrorKind::Corrupt);
    let beyond = read(|tx| tx.one("SELECT 1", &[], |row| row.get::<i64>(1)).map(drop)).await;
    assert_eq!(beyond.unwrap_err().kind(), ErrorKind::Corrupt);
}

async fn text_with_nul_is_refused(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let refused = store
        .write(|tx| tx.execute("INSERT INTO t (b) VALUES ($1)", &["a\0b".into()]))
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn a_read_cannot_write(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let refused = store.read(|tx| put(tx, 1)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(numbers(&store).await.is_empty());
}

async fn a_glance_reads_what_holds_and_nothing_it_does_lasts(place: &impl Place) {
    let store = place.open();
    table(&store).await;
    let glance =
        || store.glance(|tx| tx.query("SELECT a FROM t ORDER BY a", &[], |row| row.get::<i64>(0)));
    assert!(glance().await.unwrap().is_empty());
    for number in 1..3 {
        store.write(move |tx| put(tx, number)).await.unwrap();
        assert_eq!(glance().await.unwrap().last(), Some(&number));
    }
    let refused = store.glance(|tx| put(tx, 3)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    let broken: Result<()> = store.glance(|_tx| panic!("the job gave up")).await;
    assert!(matches!(broken, Err(Error::Panicked { .. })));
    assert_eq!(glance().await.unwrap(), [1, 2]);
}

async fn reads_run_side_by_side(place: &impl Place) {
    let store = place.open();
    let (first, second) = (sync_channel(1), sync_channel(1));
    let swap = |tell: SyncSender<()>, hear: std::sync::mpsc::Receiver<()>| {
        store.read(move |_tx| {
            // Each is answered only if both run at the same time.
            tell.send(()).unwrap();
            hear.recv().unwrap();
            Ok(())
        })
    };
    let (one, two) = futures::join!(swap(first.0, second.1), swap(second.0, first.1));
    one.and(two).unwrap();
}

async fn an_append_at_the_wrong_place_is_a_conflict(place: &impl Place) {
    let store = place.open();
    let id = session(1);
    let append = |expected: u64, events: Vec<castellan_core::Recorded>| {
        store.write(move |tx| events::append(tx, id, expected, &events, &[]))
    };
    assert_eq!(append(0, vec![start(id, 1)]).await.unwrap(), 1);
    for (expected, log) in [
        (0, vec![start(id, 2)]),
        (2, vec![user(id, 2, "late")]),
        (7, Vec::new()),
    ] {
        let error = append(expected, log).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(
            error.to_string().contains("another process is writing"),
            "{error}"
        );
    }
    assert_eq!(append(1, Vec::new()).await.unwrap(), 1);
    assert_eq!(append(1, vec![user(id, 2, "in time")]).await.unwrap(), 2);
    let other = session(2);
    let missing = store
        .write(move |tx| events::append(tx, other, 3, &[], &[]))
        .await;
    assert!(
        matches!(missing, Err(Error::Conflict { found: 0, .. })),
        "{missing:?}"
    );
}

async fn only_a_sound_log_is_appended(place: &impl Place) {
    let store = place.open();
    let (id, other) = (session(1), session(2));
    let passing = Event::Content {
        text: "word".to_owned(),
    };
    let mut misnumbered = user(id, 2, "x");
    misnumbered.seq = Some(9);
    let thinking = Event::StateChange {
        state: State::Thinking,
        reason: None,
    };
    for bad in [
        vec![user(id, 1, "before the start")],
        vec![start(id, 1), recorded(id, 2, passing)],
        vec![start(id, 1), recorded(id, 2, thinking)],
        vec![start(id, 1), user(other, 2, "elsewhere")],
        vec![start(id, 1), misnumbered],
    ] {
        let refused = store
            .write(move |tx| events::append(tx, id, 0, &bad, &[]))
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let none = store.read(move |tx| events::load(tx, id, 0)).await;
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn an_event_of_a_newer_version_is_named(place: &impl Place) {
    let store = place.open();
    let id = session(1);
    let rewrite = |body: &'static str| {
        store.write(move |tx| {
            tx.execute("DELETE FROM events", &[])?;
            tx.execute("DELETE FROM sessions", &[])?;
            events::append(tx, id, 0, &[start(id, 1), user(id, 2, "x")], &[])?;
            tx.execute(
                "UPDATE events SET kind = 'dream', body = $1 WHERE seq = 2",
                &[body.into()],
            )
        })
    };
    rewrite(r#"{"kind":"dream","about":"sheep"}"#)
        .await
        .unwrap();
    let error = store
        .read(move |tx| events::load(tx, id, 0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Newer);
    let text = error.to_string();
    assert!(
        text.contains("event 2") && text.contains("`dream`"),
        "{text}"
    );
    rewrite(r#"{"kind":"user_turn","te"#).await.unwrap();
    let error = store
        .read(move |tx| events::load(tx, id, 0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

async fn a_log_with_a_gap_is_damaged(place: &impl Place) {
    let store = place.open();
    let id = session(1);
    let log = [
        start(id, 1),
        user(id, 2, "a"),
        user(id, 3, "b"),
        user(id, 4, "c"),
    ];
    store
        .write(move |tx| events::append(tx, id, 0, &log, &[]))
        .await
        .unwrap();
    for missing in [4_i64, 2] {
        let text = store
            .write(move |tx| tx.execute("DELETE FROM events WHERE seq = $1", &[missing.into()]))
            .await;
        assert_eq!(text.unwrap(), 1);
        let error = store
            .read(move |tx| events::load(tx, id, 0))
            .await
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("event {missing} is missing")),
            "{error}"
        );
        let rest = store.read(move |tx| events::load(tx, id, 4)).await.unwrap();
        assert!(rest.is_empty());
    }
}

async fn events_and_their_audit_stand_or_fall_together(place: &impl Place) {
    let store = place.open();
    let id = session(1);
    let ids = Counting::from(9);
    let (first, second) = (entry(&ids, 1, "anna"), entry(&ids, 2, "anna"));
    let audits = [first.clone()];
    store
        .write(move |tx| events::append(tx, id, 0, &[start(id, 1)], &audits))
        .await
        .unwrap();
    let doubled = [second, first];
    let refused = store
        .write(move |tx| events::append(tx, id, 1, &[user(id, 2, "x")], &doubled))
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Constraint);
    let (log, verdict) = store
        .read(move |tx| Ok((events::load(tx, id, 0)?, audit::verify(tx)?)))
        .await
        .unwrap();
    assert_eq!((log.len(), verdict.rows, verdict.first_bad), (1, 1, None));
}

async fn a_session_is_listed_as_its_events_tell(place: &impl Place) {
    let store = place.open();
    let (old, new) = (session(1), session(2));
    let said = "Fix the\n  login   bug";
    for (id, ts) in [(old, 100), (new, 50)] {
        let log = vec![
            start(id, ts),
            user(id, ts + 1, said),
            request(id, ts + 2, "first-model"),
            user(id, ts + 3, "something else"),
            request(id, ts + 4, "second-model"),
        ];
        store
            .write(move |tx| events::append(tx, id, 0, &log, &[]))
            .await
            .unwrap();
    }
    store
        .write(move |tx| events::append(tx, new, 5, &[idle(new, 500)], &[]))
        .await
        .unwrap();
    let page = store.read(|tx| sessions::list(tx, 1)).await.unwrap();
    assert_eq!((page.rows.len(), page.total), (1, 2));
    let row = &page.rows[0];
    assert_eq!(
        (row.id, row.created, row.updated),
        (new, Timestamp(50), Timestamp(500))
    );
    assert_eq!(
        (row.title.as_str(), row.model.as_deref()),
        ("Fix the login bug", Some("second-model"))
    );
    assert_eq!((row.state.as_str(), row.last_seq), ("idle", 6));
    assert_eq!(row.cwd.to_str(), Some("/home/me/project"));
    let row = store.read(move |tx| sessions::get(tx, old)).await.unwrap();
    assert_eq!((row.state.as_str(), row.last_seq), ("thinking", 5));
}

async fn a_session_is_found_by_the_beginning_of_its_id(place: &impl Place) {
    let store = place.open();
    let ids = [
        session(0x1234_5678_0000_0000),
        session(0x1234_5678_9000_0000),
        session(7),
    ];
    for id in ids {
        store
            .write(move |tx| events::append(tx, id, 0, &[start(id, 1)], &[]))
            .await
            .unwrap();
    }
    let find = |text: &str| {
        let text = text.to_owned();
        store.read(move |tx| sessions::find(tx, &text).map(|row| row.id))
    };
    let whole = ids[0].to_string();
    assert_eq!(find(&whole).await.unwrap(), ids[0]);
    assert_eq!(find("ws_1234567890").await.unwrap(), ids[1]);
    assert_eq!(find(" WS_000000 ").await.unwrap(), ids[2]);
    assert_eq!(find("1234567890").await.unwrap(), ids[1]);
    let error = find("ws_123456").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    let text = error.to_string();
    assert!(
        text.contains(&whole) && text.contains(&ids[1].to_string()),
        "{text}"
    );
    assert!(!text.contains(&ids[2].to_string()), "{text}");
    for (text, kind) in [
        ("ws_12345", ErrorKind::Invalid),
        ("ws_", ErrorKind::Invalid),
        ("ws_%%%%%%%", ErrorKind::Invalid),
        ("ws_abcdef", ErrorKind::NotFound),
    ] {
        assert_eq!(find(text).await.unwrap_err().kind(), kind, "{text}");
    }
}

async fn reads_are_counted_per_caller_and_minute(place: &impl Place) {
    let store = place.open();
    let count = |caller: &str, minute: i64, calls: u64| ReadCount {
        caller: caller.to_owned(),
        minute,
        calls,
    };
    for _ in 0..2 {
        let counts = [
            count("anna", 1, 2),
            count("anna", 2, 1),
            count("bert", 2, 5),
        ];
        store
            .write(move |tx| audit::count_reads(tx, &counts))
            .await
            .unwrap();
    }
    let page = store.read(|tx| audit::reads(tx, None, 2)).await.unwrap();
    assert_eq!(page.rows, [count("anna", 2, 2), count("bert", 2, 10)]);
    assert_eq!(page.total, 3);
    let since = Some(Timestamp(60_000 * 2 + 59_999));
    let page = store
        .read(move |tx| audit::reads(tx, since, 10))
        .await
        .unwrap();
    assert_eq!(page.total, 2);
}

async fn a_sound_store_passes_its_check(place: &impl Place) {
    let store = place.open();
    let checked = store.check().await.unwrap();
    assert_eq!(checked.schema, castellan_store::SCHEMA);
}

async fn a_grant_is_kept_once_per_place(place: &impl Place) {
    let store = place.open();
    let ids = Counting::from(7);
    let rows = [
        granted(&ids, "bash:cargo test", grants::Place::Everywhere),
        granted(&ids, "bash:cargo test", grants::Place::Project("/p".into())),
        granted(&ids, "bash:cargo test", grants::Place::Session(session(1))),
        granted(&ids, "bash:cargo test", grants::Place::Everywhere),
    ];
    let mut made = Vec::new();
    for row in rows.clone() {
        made.push(store.write(move |tx| grants::give(tx, &row)).await.unwrap());
    }
    assert_eq!(made, [true, true, true, false]);
    let page = store
        .read(|tx| grants::list(tx, &Filter::default(), 2))
        .await
        .unwrap();
    assert_eq!((page.rows.len(), page.total), (2, 3));
    let filter = Filter {
        project: Some("/p".into()),
        session: None,
    };
    let of_project = store
        .read(move |tx| grants::list(tx, &filter, 10))
        .await
        .unwrap();
    assert_eq!(of_project.rows, [rows[1].clone()]);
}

async fn a_grant_holds_where_it_was_given_and_nowhere_else(place: &impl Place) {
    let store = place.open();
    let ids = Counting::from(7);
    for row in [
        granted(&ids, "everywhere", grants::Place::Everywhere),
        granted(&ids, "project", grants::Place::Project("/p".into())),
        granted(&ids, "session", grants::Place::Session(session(1))),
    ] {
        store.write(move |tx| grants::give(tx, &row)).await.unwrap();
    }
    for (id, folder, expected) in [
        (None, None, vec!["everywhere"]),
        (Some(session(2)), Some("/p/sub"), vec!["everywhere"]),
        (Some(session(2)), Some("/p"), vec!["everywhere", "project"]),
        (Some(session(1)), Some("/P"), vec!["everywhere", "session"]),
    ] {
        let rows = store
            .read(move |tx| grants::in_force(tx, id, folder.map(std::path::Path::new)))
            .await
            .unwrap();
        let texts: Vec<String> = rows.rows.iter().map(|row| row.grant.to_string()).collect();
        assert_eq!(texts, expected, "{id:?} {folder:?}");
    }
}

async fn a_revoked_grant_is_gone_and_its_uses_with_it(place: &impl Place) {
    let store = place.open();
    let ids = Counting::from(7);
    let row = granted(&ids, "bash", grants::Place::Everywhere);
    let id = row.id;
    store.write(move |tx| grants::give(tx, &row)).await.unwrap();
    for (calls, last) in [(2, 500), (1, 300)] {
        let uses = [Use {
            id,
            calls,
            last: Timestamp(last),
        }];
        store
            .write(move |tx| grants::count_uses(tx, &uses))
            .await
            .unwrap();
    }
    let find = |text: String| store.read(move |tx| grants::find(tx, &text));
    let found = find(id.to_string()).await.unwrap().unwrap();
    assert_eq!((found.uses, found.last_used), (3, Some(Timestamp(500))));
    assert!(store.write(move |tx| grants::revoke(tx, id)).await.unwrap());
    assert!(!store.write(move |tx| grants::revoke(tx, id)).await.unwrap());
    let uses = [Use {
        id,
        calls: 1,
        last: Timestamp(900),
    }];
    store
        .write(move |tx| grants::count_uses(tx, &uses))
        .await
        .unwrap();
    assert_eq!(
        find(id.to_string()).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

async fn a_grant_is_found_by_the_beginning_of_its_id(place: &impl Place) {
    let store = place.open();
    let ids = Counting::from(7);
    let rows = ["a", "b"].map(|text| granted(&ids, text, grants::Place::Everywhere));
    for row in rows.clone() {
        store.write(move |tx| grants::give(tx, &row)).await.unwrap();
    }
    let find = |text: String| store.read(move |tx| grants::find(tx, &text));
    let whole = rows[0].id.to_string();
    assert_eq!(find(whole.clone()).await.unwrap().unwrap(), rows[0]);
    assert_eq!(
        find(whole.replace("grant_", "")).await.unwrap().unwrap(),
        rows[0]
    );
    for (text, kind) in [
        ("grant_00000000", ErrorKind::Ambiguous),
        ("grant_0", ErrorKind::Invalid),
        ("bash", ErrorKind::Invalid),
        ("grant_ffffff", ErrorKind::NotFound),
    ] {
        assert_eq!(find(text.into()).await.unwrap_err().kind(), kind, "{text}");
    }
}

async fn a_damaged_grant_permits_nothing_hides_none_and_can_be_taken_away(place: &impl Place) {
    let store = place.open();
    let ids = Counting::from(7);
    let sound = granted(&ids, "bash", grants::Place::Everywhere);
    let row = sound.clone();
    store.write(move |tx| grants::give(tx, &row)).await.unwrap();
    let whole = |digit: &str| format!("grant_{}", digit.repeat(32));
    for (id, text, in_session) in [
        (whole("a"), "ba sh", None),
        (whole("b"), "look", Some("nobody")),
        ("not an id".to_owned(), "write_file", None),
    ] {
        store
            .write(move |tx| {
                tx.execute(
                    "INSERT INTO grants
                     (id, text, scope, place, who, surface, session, given, uses)
                     VALUES ($1, $2, 'everywhere', '', 'me', 'interactive', $3, 0, 0)",
                    &[(&id).into(), text.into(), in_session.into()],
                )
            })
            .await
            .unwrap();
    }
    let held = store
        .read(|tx| grants::in_force(tx, None, None))
        .await
        .unwrap();
    assert_eq!(held.rows, std::slice::from_ref(&sound));
    assert_eq!(held.damaged.len(), 3);
    let all = Filter::default();
    let listed = store
        .read(move |tx| grants::list(tx, &all, 100))
        .await
        .unwrap();
    assert_eq!(listed.rows, std::slice::from_ref(&sound));
    assert_eq!((listed.total, listed.damaged.len()), (4, 3));
    for (id, part) in [
        (whole("a"), "its text"),
        (whole("b"), "its session"),
        ("not an id".to_owned(), "its id"),
    ] {
        let damaged = listed.damaged.iter().find(|one| one.id == id).unwrap();
        assert!(damaged.why.starts_with(part), "{damaged}");
    }
    let damaged = store
        .read(|tx| grants::find(tx, "grant_aaaa"))
        .await
        .unwrap()
        .unwrap_err();
    let discard = || {
        let damaged = damaged.clone();
        store.write(move |tx| grants::discard(tx, &damaged))
    };
    assert!(discard().await.unwrap());
    assert!(!discard().await.unwrap());
}

macro_rules! suite {
    ($($test:ident),+ $(,)?) => {
        mod on_sqlite {
            use crate::sample::SqlitePlace;

            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(&SqlitePlace::new()).await;
                }
            )+
        }
    };
}
pub(crate) use suite;

suite!(
    writes_that_wait_share_one_commit,
    a_failing_or_panicking_job_undoes_only_itself,
    a_job_that_ends_its_transaction_does_not_take_others_with_it,
    dropping_the_last_handle_finishes_what_was_queued,
    the_last_handle_can_be_dropped_by_a_job,
    what_was_written_is_there_after_reopening,
    parameters_go_where_their_numbers_say,
    a_column_of_another_type_is_said_and_not_guessed,
    text_with_nul_is_refused,
    a_read_cannot_write,
    a_glance_reads_what_holds_and_nothing_it_does_lasts,
    reads_run_side_by_side,
    an_append_at_the_wrong_place_is_a_conflict,
    only_a_sound_log_is_appended,
    an_event_of_a_newer_version_is_named,
    a_log_with_a_gap_is_damaged,
    events_and_their_audit_stand_or_fall_together,
    a_session_is_listed_as_its_events_tell,
    a_session_is_found_by_the_beginning_of_its_id,
    reads_are_counted_per_caller_and_minute,
    a_grant_is_kept_once_per_place,
    a_grant_holds_where_it_was_given_and_nowhere_else,
    a_revoked_grant_is_gone_and_its_uses_with_it,
    a_grant_is_found_by_the_beginning_of_its_id,
    a_damaged_grant_permits_nothing_hides_none_and_can_be_taken_away,
    a_sound_store_passes_its_check,
);
