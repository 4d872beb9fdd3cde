//! The conformance suite goes on: signals, the blackboard, memories, the genome.

use std::time::Duration;

use castellan_core::Timestamp;
use castellan_core::field;
use castellan_core::id::{EpisodeId, ProposalId};
use castellan_store::blackboard::{self, Writing, Written};
use castellan_store::episodes::{self, End, Episode, How};
use castellan_store::genome::{self, Decided, Document, Origin, Outcome, Proposal, State};
use castellan_store::memories::{self, Kind, Memory, Saved};
use castellan_store::signals::{self, Change, Changed, Span};
use castellan_store::{ErrorKind, Result, Store};

use crate::conformance::suite;
use crate::sample::{Counting, Place, session};

/// A moment of these tests, in seconds.
const fn second(number: i64) -> Timestamp {
    Timestamp(1_700_000_000_000 + number * 1000)
}

fn change(zone: &str, signal: &str, amount: f64, at: Timestamp) -> Change {
    Change {
        zone: zone.to_owned(),
        signal: signal.to_owned(),
        amount,
        half_life: None,
        fresh_half_life: 600.0,
        by: "agent:anna".to_owned(),
        at,
    }
}

async fn make(store: &Store, change: Change) -> Result<Changed> {
    store.write(move |tx| signals::change(tx, &change)).await
}

async fn a_signal_fades_between_its_changes_and_never_below_nothing(place: &impl Place) {
    let store = place.open();
    let first = make(&store, change("grid", "food", 8.0, second(0))).await;
    assert_eq!(first.unwrap().before, 0.0);
    let second_ = make(&store, change("grid", "food", 1.0, second(600))).await;
    let second_ = second_.unwrap();
    assert_eq!((second_.before, second_.signal.mark.strength), (4.0, 5.0));
    assert_eq!(second_.signal.total, 9.0);
    assert_eq!(second_.signal.strength_at(second(1200)), 2.5);
    let third = make(&store, change("grid", "food", -20.0, second(600))).await;
    let third = third.unwrap().signal;
    assert_eq!(
        (third.mark.strength, third.total, third.changes),
        (0.0, 9.0, 3)
    );
    let stored = store
        .read(|tx| signals::get(tx, "grid", "food"))
        .await
        .unwrap();
    assert_eq!(stored, Some(third));
}

async fn a_half_life_holds_until_another_is_given(place: &impl Place) {
    let store = place.open();
    let with = |half_life, at| Change {
        half_life,
        ..change("grid", "food", 1.0, at)
    };
    make(&store, with(Some(0.0), second(0))).await.unwrap();
    let kept = make(&store, with(None, second(1000))).await.unwrap();
    assert_eq!((kept.before, kept.signal.mark.half_life), (1.0, 0.0));
    let other = make(&store, with(Some(10.0), second(2000))).await.unwrap();
    // What had not faded until then has not faded now.
    assert_eq!(other.before, 2.0);
    assert_eq!(other.signal.strength_at(second(2010)), 1.5);
}

async fn a_process_with_a_clock_behind_makes_nothing_stronger(place: &impl Place) {
    let store = place.open();
    make(&store, change("grid", "food", 8.0, second(600)))
        .await
        .unwrap();
    let behind = make(&store, change("grid", "food", 1.0, second(599))).await;
    let behind = behind.unwrap();
    assert_eq!(behind.before, 8.0);
    assert_eq!(behind.signal.mark.at, second(600));
    let set_back = make(&store, change("grid", "food", 1.0, second(0))).await;
    let set_back = set_back.unwrap();
    assert_eq!((set_back.before, set_back.signal.mark.at), (9.0, second(0)));
}

async fn a_full_zone_lets_go_only_of_what_has_long_faded(place: &impl Place) {
    let store = place.open();
    let fill = |half_life, at| {
        store.write(move |tx| {
            for number in 0..signals::ZONE_LIMIT {
                let change = Change {
                    half_life: Some(half_life),
                    ..change("full", &format!("s{number}"), 1.0, at)
                };
                signals::change(tx, &change)?;
            }
            Ok(())
        })
    };
    fill(1.0, second(0)).await.unwrap();
    let error = make(&store, change("full", "more", 1.0, second(1))).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit);
    // One that exists can still be changed, and another zone is not concerned.
    make(&store, change("full", "s7", 1.0, second(1)))
        .await
        .unwrap();
    make(&store, change("other", "more", 1.0, second(1)))
        .await
        .unwrap();
    let week = i64::try_from(signals::RETENTION.as_secs()).unwrap();
    let later = second(week + 3600);
    make(&store, change("full", "more", 1.0, later))
        .await
        .unwrap();
    let left = store.read(|tx| signals::in_zone(tx, "full")).await.unwrap();
    assert_eq!(left.len(), 1);
    // One that comes again begins anew, and so does its history.
    let again = make(&store, change("full", "s7", 1.0, later)).await;
    assert_eq!(again.unwrap().signal.changes, 1);
}

async fn history_is_shown_newest_first_with_its_total(place: &impl Place) {
    let store = place.open();
    for number in 0..5 {
        make(&store, change("grid", "food", 1.0, second(number)))
            .await
            .unwrap();
        make(&store, change("nest", "home", 2.0, second(number)))
            .await
            .unwrap();
    }
    let span = Span {
        zone: Some("grid".to_owned()),
        signal: None,
        since: second(1),
        until: second(3),
    };
    let all = Span {
        zone: None,
        since: second(0),
        ..span.clone()
    };
    let (page, whole) = store
        .read(move |tx| {
            Ok((
                signals::history(tx, &span, 2)?,
                signals::history(tx, &all, 100)?,
            ))
        })
        .await
        .unwrap();
    assert_eq!(page.total, 3);
    let seen: Vec<u64> = page.rows.iter().map(|row| row.seq).collect();
    assert_eq!(seen, [4, 3]);
    assert_eq!(page.rows[0].by, "agent:anna");
    assert_eq!(whole.total, 8);
    let zones = store.read(|tx| signals::zones(tx, 1)).await.unwrap();
    assert_eq!((zones.rows.len(), zones.total), (1, 2));
}

async fn only_the_newest_changes_of_a_signal_are_kept(place: &impl Place) {
    let store = place.open();
    let count = signals::KEPT_PER_SIGNAL + 200;
    store
        .write(move |tx| {
            for number in 0..count {
                let at = Timestamp(second(0).0 + i64::try_from(number).unwrap());
                let change = Change {
                    half_life: Some(0.0),
                    ..change("grid", "food", 1.0, at)
                };
                signals::change(tx, &change)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let course = |until| store.read(move |tx| signals::course(tx, "grid", "food", until));
    let whole = course(second(1000)).await.unwrap();
    let kept = u64::try_from(whole.marks.len()).unwrap();
    let most = signals::KEPT_PER_SIGNAL + 64;
    assert!((signals::KEPT_PER_SIGNAL..most).contains(&kept), "{kept}");
    assert_eq!(whole.before, None);
    let last = whole.marks.last().unwrap().strength;
    assert_eq!(last, f64::from(u32::try_from(count).unwrap()));
    // Long after its history is past retention the signal itself still says what it is.
    store
        .write(|tx| tx.execute("DELETE FROM deposits", &[]))
        .await
        .unwrap();
    assert_eq!(course(second(1000)).await.unwrap().marks.len(), 1);
    let absent = store
        .read(|tx| signals::course(tx, "grid", "none", second(0)))
        .await
        .unwrap();
    assert_eq!((absent.before, absent.marks.len()), (Some(0.0), 0));
}

async fn changes_past_their_age_are_removed_by_and_by(place: &impl Place) {
    let store = place.open();
    make(&store, change("old", "food", 1.0, second(0)))
        .await
        .unwrap();
    let after = second(i64::try_from(signals::RETENTION.as_secs()).unwrap() + 1);
    store
        .write(move |tx| {
            for _ in 0..64 {
                signals::change(tx, &change("grid", "food", 1.0, after))?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let all = Span {
        zone: None,
        signal: None,
        since: Timestamp(0),
        until: after,
    };
    let left = store
        .read(move |tx| signals::history(tx, &all, 1))
        .await
        .unwrap();
    assert_eq!(left.total, 64);
}

async fn what_is_kept_of_a_signal_gives_its_strength_at_any_time(place: &impl Place) {
    let store = place.open();
    for (amount, at) in [(8.0, 0), (1.0, 600), (-2.0, 900)] {
        make(&store, change("grid", "food", amount, second(at)))
            .await
            .unwrap();
    }
    let course = store
        .read(|tx| signals::course(tx, "grid", "food", second(5000)))
        .await
        .unwrap();
    let step = Duration::from_secs(300);
    let samples = field::resample(&course.marks, course.before, second(-300), step, 5);
    let signal = store
        .read(|tx| signals::get(tx, "grid", "food"))
        .await
        .unwrap();
    let now = signal.unwrap().strength_at(second(900));
    let wanted = [0.0, 8.0, 8.0 * 0.5_f64.sqrt(), 5.0, now];
    assert_eq!(samples, wanted.map(Some));
}

fn writing(slot: &str, value: &str, expected: Option<u64>) -> Writing {
    Writing {
        slot: slot.to_owned(),
        value: value.to_owned(),
        expected,
        held_against: None,
        schema: None,
        author: "agent:anna".to_owned(),
        at: second(1),
    }
}

async fn write(store: &Store, writing: Writing) -> Written {
    store
        .write(move |tx| blackboard::write(tx, &writing))
        .await
        .unwrap()
}

async fn a_slot_is_written_only_over_the_version_the_writer_expects(place: &impl Place) {
    let store = place.open();
    let Written::Done(first) = write(&store, writing("plan", "1", Some(0))).await else {
        panic!("the slot was new")
    };
    assert_eq!(first.version, 1);
    let lost = write(&store, writing("plan", "2", Some(0))).await;
    assert_eq!(lost, Written::OtherVersion(Some(first.clone())));
    let missing = write(&store, writing("none", "2", Some(3))).await;
    assert_eq!(missing, Written::OtherVersion(None));
    let stored = store.read(|tx| blackboard::get(tx, "plan")).await;
    assert_eq!(stored.unwrap(), Some(first));
    let any = write(&store, writing("plan", "3", None)).await;
    assert!(matches!(any, Written::Done(slot) if slot.version == 2 && slot.value == "3"));
}

async fn a_slot_is_written_only_under_the_schema_its_value_was_held_against(place: &impl Place) {
    let store = place.open();
    let schema = |held_against: Option<&str>, schema: Option<&str>| Writing {
        held_against: held_against.map(str::to_owned),
        schema: schema.map(str::to_owned),
        ..writing("plan", "1", None)
    };
    let set = write(&store, schema(None, Some("{}"))).await;
    assert!(matches!(set, Written::Done(slot) if slot.schema.as_deref() == Some("{}")));
    let unaware = write(&store, schema(None, None)).await;
    assert_eq!(unaware, Written::OtherSchema);
    let dropped = write(&store, schema(Some("{}"), None)).await;
    assert!(matches!(dropped, Written::Done(slot) if slot.schema.is_none()));
}

async fn a_memory_is_known_by_scope_owner_and_name(place: &impl Place) {
    let store = place.open();
    let memory = |place: &memories::Place, content: &str, at| Memory {
        place: place.clone(),
        name: "deploy".to_owned(),
        content: content.to_owned(),
        description: String::new(),
        kind: Kind::Project,
        tags: vec!["ops".to_owned(), "a \"b\"".to_owned()],
        author: "agent:anna".to_owned(),
        created: second(at),
        updated: second(at),
    };
    let places = [
        memories::Place::Global,
        memories::Place::Workstream(session(1)),
        memories::Place::User("anna".to_owned()),
        memories::Place::User("bert".to_owned()),
    ];
    for (number, place) in (0..).zip(&places) {
        let kept = memory(place, &format!("text {number}"), number);
        let saved = store.write(move |tx| memories::save(tx, &kept)).await;
        assert_eq!(saved.unwrap(), Saved::New);
    }
    let again = memory(&places[1], "other", 9);
    let saved = store.write(move |tx| memories::save(tx, &again)).await;
    assert_eq!(saved.unwrap(), Saved::Replaced);
    let found = store
        .read(move |tx| {
            places
                .iter()
                .map(|place| memories::list(tx, place, 10))
                .collect::<Result<Vec<_>>>()
        })
        .await
        .unwrap();
    let contents: Vec<&str> = found
        .iter()
        .map(|page| page.rows[0].content.as_str())
        .collect();
    assert_eq!(contents, ["text 0", "other", "text 2", "text 3"]);
    assert!(found.iter().all(|page| page.total == 1));
    let replaced = &found[1].rows[0];
    assert_eq!((replaced.created, replaced.updated), (second(1), second(9)));
    assert_eq!(replaced.tags, ["ops", "a \"b\""]);
    let (gone, twice, names) = store
        .write(|tx| {
            let global = memories::Place::Global;
            Ok((
                memories::remove(tx, &global, "deploy")?,
                memories::remove(tx, &global, "deploy")?,
                memories::names(tx, &global, 5)?,
            ))
        })
        .await
        .unwrap();
    assert!(gone && !twice);
    assert_eq!(names.total, 0);
}

fn document(text: &str) -> Document {
    Document {
        text: text.to_owned(),
        hash: format!("hash of {text}"),
    }
}

fn proposal(number: u64, base: &genome::Version, text: &str) -> Proposal {
    Proposal {
        id: ProposalId::mint(&Counting::from(number)),
        at: second(2),
        author: "agent:anna".to_owned(),
        base_version: base.version,
        base_hash: base.document.hash.clone(),
        target: "/a".to_owned(),
        change: "{}".to_owned(),
        rationale: "to see".to_owned(),
        document: document(text),
        step_drift: 0.25,
        drift: 0.5,
        state: State::Open,
        decided: None,
    }
}

fn decided(reason: &str) -> Decided {
    Decided {
        at: second(3),
        by: "person:anna".to_owned(),
        reason: reason.to_owned(),
    }
}

/// A store with version 1 and two proposals against it.
async fn with_proposals(place: &impl Place) -> (Store, [ProposalId; 2]) {
    let store = place.open();
    let ids = store
        .write(|tx| {
            assert_eq!(genome::current(tx)?, None);
            let first = genome::begin(tx, &document("one"), second(1))?;
            assert_eq!(genome::begin(tx, &document("other"), second(1))?, first);
            let proposals = [proposal(1, &first, "two"), proposal(2, &first, "three")];
            for one in &proposals {
                genome::propose(tx, one)?;
                assert_eq!(genome::proposal(tx, one.id)?.as_ref(), Some(one));
            }
            assert_eq!(genome::open(tx, 1)?.total, 2);
            Ok(proposals.map(|one| one.id))
        })
        .await
        .unwrap();
    (store, ids)
}

async fn of_two_proposals_on_one_base_only_one_is_accepted(place: &impl Place) {
    let (store, [one, two]) = with_proposals(place).await;
    let accept = |id| store.write(move |tx| genome::accept(tx, id, &decided("good")));
    let Outcome::Accepted(version) = accept(one).await.unwrap() else {
        panic!("its base holds")
    };
    assert_eq!((version.version, version.drift), (2, 0.5));
    assert_eq!(version.origin, Origin::Mutation(one));
    assert_eq!(accept(two).await.unwrap(), Outcome::Stale(version));
    let before = accept(one).await.unwrap();
    assert!(matches!(before, Outcome::Before(seen) if seen.state == State::Accepted(2)));
    let rejected = store
        .write(move |tx| genome::reject(tx, two, &decided("too late")))
        .await
        .unwrap();
    let stored = store.read(move |tx| genome::proposal(tx, two)).await;
    assert_eq!(Outcome::Rejected(stored.unwrap().unwrap()), rejected);
    let open = store.read(|tx| genome::open(tx, 10)).await.unwrap();
    assert_eq!(open.total, 0);
    let absent = accept(ProposalId::mint(&Counting::from(9))).await;
    assert_eq!(absent.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_rollback_is_a_new_version_with_an_old_document(place: &impl Place) {
    let (store, [one, two]) = with_proposals(place).await;
    store
        .write(move |tx| genome::accept(tx, one, &decided("good")))
        .await
        .unwrap();
    let back = |to| store.write(move |tx| genome::roll_back(tx, to, &decided("worse")));
    let version = back(1).await.unwrap().unwrap();
    assert_eq!(
        (
            version.version,
            version.document.text.as_str(),
            version.drift
        ),
        (3, "one", 0.0)
    );
    assert_eq!(version.origin, Origin::Rollback(1));
    assert_eq!(back(1).await.unwrap(), None);
    assert_eq!(back(7).await.unwrap_err().kind(), ErrorKind::NotFound);
    let log = store.read(|tx| genome::log(tx, 2)).await.unwrap();
    assert_eq!((log.rows.len(), log.total), (2, 3));
    assert_eq!(log.rows[0], version);
    let holding = store.read(genome::current).await.unwrap();
    assert_eq!(holding, Some(version));
    // What was made against that document can be accepted again.
    let outcome = store
        .write(move |tx| genome::accept(tx, two, &decided("good")))
        .await
        .unwrap();
    assert!(matches!(outcome, Outcome::Accepted(version) if version.version == 4));
}

async fn only_so_many_proposals_are_open(place: &impl Place) {
    let store = place.open();
    let error = store
        .write(|tx| {
            let first = genome::begin(tx, &document("one"), second(1))?;
            for number in 0..genome::OPEN_LIMIT {
                genome::propose(tx, &proposal(number, &first, "two"))?;
            }
            genome::propose(tx, &proposal(999, &first, "two"))
        })
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit);
}

fn episode(id: EpisodeId, owner: &str, began: i64) -> Episode {
    Episode {
        id,
        owner: owner.to_owned(),
        goal: "bring food home".to_owned(),
        plugin: "gridworld".to_owned(),
        seed: u64::MAX,
        settings: "{}".to_owned(),
        version: "1".to_owned(),
        trace: "/tmp/t.jsonl".to_owned(),
        began: second(began),
        end: None,
    }
}

async fn an_episode_ends_once(place: &impl Place) {
    let store = place.open();
    let begun = episode(EpisodeId::mint(&Counting::from(0)), "anna", 1);
    let (row, id) = (begun.clone(), begun.id);
    store
        .write(move |tx| episodes::begin(tx, &row))
        .await
        .unwrap();
    let read = || store.read(move |tx| episodes::get(tx, id));
    assert_eq!(read().await.unwrap(), Some(begun.clone()));
    let ended = |how| End {
        at: second(9),
        how,
        steps: 4,
        calls: 12,
        failed: 1,
        reason: "it is done".to_owned(),
    };
    for (how, counts) in [(How::Reached, true), (How::Untraced, false)] {
        let end = ended(how);
        let noted = store.write(move |tx| episodes::end(tx, id, &end)).await;
        assert_eq!(noted.unwrap(), counts);
    }
    let whole = Episode {
        end: Some(ended(How::Reached)),
        ..begun
    };
    assert_eq!(read().await.unwrap(), Some(whole));
}

async fn the_newest_episodes_are_kept_and_listed_by_owner(place: &impl Place) {
    let store = place.open();
    let ids = Counting::from(0);
    let kept = i64::try_from(episodes::KEPT).unwrap();
    let rows: Vec<Episode> = (0..kept + 3)
        .map(|at| {
            let owner = if at % 2 == 0 { "anna" } else { "bert" };
            episode(EpisodeId::mint(&ids), owner, at)
        })
        .collect();
    let (first, last) = (rows[0].id, rows[rows.len() - 1].clone());
    store
        .write(move |tx| rows.iter().try_for_each(|row| episodes::begin(tx, row)))
        .await
        .unwrap();
    let oldest = store.read(move |tx| episodes::get(tx, first)).await;
    assert_eq!(oldest.unwrap(), None);
    let page = store.read(|tx| episodes::list(tx, "anna", 2)).await;
    let page = page.unwrap();
    assert_eq!((page.rows.len(), page.total), (2, episodes::KEPT / 2));
    assert_eq!(page.rows[0], last);
}

suite!(
    a_signal_fades_between_its_changes_and_never_below_nothing,
    a_half_life_holds_until_another_is_given,
    a_process_with_a_clock_behind_makes_nothing_stronger,
    a_full_zone_lets_go_only_of_what_has_long_faded,
    history_is_shown_newest_first_with_its_total,
    only_the_newest_changes_of_a_signal_are_kept,
    changes_past_their_age_are_removed_by_and_by,
    what_is_kept_of_a_signal_gives_its_strength_at_any_time,
    a_slot_is_written_only_over_the_version_the_writer_expects,
    a_slot_is_written_only_under_the_schema_its_value_was_held_against,
    a_memory_is_known_by_scope_owner_and_name,
    of_two_proposals_on_one_base_only_one_is_accepted,
    a_rollback_is_a_new_version_with_an_old_document,
    only_so_many_proposals_are_open,
    an_episode_ends_once,
    the_newest_episodes_are_kept_and_listed_by_owner,
);
