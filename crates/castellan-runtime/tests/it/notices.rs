//! What tools leave word of reaches the model with its next request.

use std::sync::{Arc, Mutex};

use castellan_core::port::{Notice, Notices};
use castellan_core::tool::SessionView;
use castellan_core::{CancelSource, Message};

use crate::world::{FunctionModel, World, calls, results, says};

#[derive(Default)]
struct Board(Mutex<Vec<String>>);

impl Notices for Board {
    fn take(&self, _view: &SessionView) -> Vec<Notice> {
        let texts = std::mem::take(&mut *self.0.lock().unwrap());
        let notice = |text| Notice {
            text,
            session: vec![],
        };
        texts.into_iter().map(notice).collect()
    }
}

#[tokio::test]
async fn word_that_comes_while_the_session_is_idle_is_told_with_the_next_turn_and_survives() {
    let board = Arc::<Board>::default();
    let model = FunctionModel::new(|_| says("ok"));
    let mut world = World::new(Arc::clone(&model));
    world.parts.notices = Arc::clone(&board) as _;
    let mut session = world.begin();
    session.say("one".into());
    session.run(CancelSource::new().token()).await.unwrap();
    board
        .0
        .lock()
        .unwrap()
        .push("the shell sh_1 ended with 0".into());
    session.say("two".into());
    session.run(CancelSource::new().token()).await.unwrap();
    let id = session.id();
    drop(session);
    let mut session = world.open(id).await;
    session.say("three".into());
    session.run(CancelSource::new().token()).await.unwrap();
    let requests = model.requests.lock().unwrap();
    let said: Vec<_> = requests
        .iter()
        .map(|request| {
            let texts = request.messages.iter().filter_map(|message| match message {
                Message::User { text } => Some(text.as_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>()
        })
        .collect();
    let told = "two\n\n[castellan: the shell sh_1 ended with 0]";
    assert_eq!(
        said,
        [vec!["one"], vec!["one", told], vec!["one", told, "three"]]
    );
}

#[tokio::test]
async fn word_that_comes_while_calls_run_rides_on_their_results() {
    let board = Arc::<Board>::default();
    let left = Arc::clone(&board);
    let model = FunctionModel::new(move |messages| match results(messages) {
        0 => {
            left.0.lock().unwrap().push("it began to rain".into());
            calls(&[("look", "\"x\"")])
        }
        _ => says("ok"),
    });
    let mut world = World::new(Arc::clone(&model));
    world.parts.notices = Arc::clone(&board) as _;
    let mut session = world.begin();
    session.say("go".into());
    session.run(CancelSource::new().token()).await.unwrap();
    let requests = model.requests.lock().unwrap();
    let last = requests[1].messages.last().unwrap();
    assert!(
        matches!(last, Message::ToolResult { output, .. } if output.ends_with("\n\n[castellan: it began to rain]")),
        "{last:?}"
    );
}
