//! Traces: they hold every stored event, whatever a crash left behind.

use castellan_core::{Event, Ids as _, Recorded, SessionId, Timestamp};
use castellan_gate::trace::{Line, Trace, path, read};
use castellan_testkit::SequentialIds;

fn event(session: SessionId, seq: u64) -> Recorded {
    let event = Event::UserTurn {
        text: format!("turn {seq}"),
        pictures: Vec::new(),
    };
    Recorded {
        ts: Timestamp(seq.try_into().unwrap()),
        seq: Some(seq),
        session,
        event,
    }
}

fn session() -> SessionId {
    let ids = SequentialIds::default();
    ids.next();
    SessionId::mint(&ids)
}

fn seqs(file: &std::path::Path) -> (Vec<u64>, usize) {
    let (mut seqs, mut unreadable) = (Vec::new(), 0);
    for line in read(file).unwrap() {
        match line {
            Line::Event(event) => seqs.extend(event.seq),
            Line::Unreadable { .. } => unreadable += 1,
        }
    }
    (seqs, unreadable)
}

#[test]
fn what_a_crash_kept_out_of_the_trace_is_added_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let id = session();
    let log: Vec<Recorded> = (1..=5).map(|seq| event(id, seq)).collect();
    drop(Trace::open(folder.path(), id, &log[..2]).unwrap());
    let mut trace = Trace::open(folder.path(), id, &log).unwrap();
    trace.append([&event(id, 6)]).unwrap();
    assert_eq!(seqs(&path(folder.path(), id)), (vec![1, 2, 3, 4, 5, 6], 0));
}

#[test]
fn a_torn_line_is_passed_over_and_its_event_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let id = session();
    let log: Vec<Recorded> = (1..=3).map(|seq| event(id, seq)).collect();
    drop(Trace::open(folder.path(), id, &log).unwrap());
    let file = path(folder.path(), id);
    let whole = std::fs::read(&file).unwrap();
    for cut in 1..40 {
        std::fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        drop(Trace::open(folder.path(), id, &log).unwrap());
        let (seqs, _) = seqs(&file);
        assert_eq!(seqs, [1, 2, 3], "cut {cut}");
    }
}

#[test]
fn a_folder_that_can_not_be_used_is_an_error_that_names_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Trace::open(file.path(), session(), &[]).unwrap_err();
    assert!(
        error.to_string().contains("failed to open the trace"),
        "{error}"
    );
}
