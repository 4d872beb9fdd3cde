//! What `exec` and the conversation say of an event in the same words; each puts its own mark before
//! them.

use castellan_core::model::Finish;
use castellan_tools::bash::Listed;

/// An answer that did not arrive whole.
pub(crate) const BROKE_OFF: &str = "the answer broke off; what stands above of it is void";

/// What cut an answer off; `None` where nothing did.
pub(crate) const fn cut_off(finish: &Finish) -> Option<&'static str> {
    match finish {
        Finish::Length => Some("the answer was cut off by the output limit"),
        Finish::ContentFilter => Some("the answer was cut off by a content filter"),
        Finish::Stop | Finish::ToolCalls | Finish::Other(_) => None,
    }
}

/// The conversation has `after` tokens instead of `before`; `problem` is why the model did not
/// summarise it.
pub(crate) fn compacted(before: u64, after: u64, problem: Option<&str>) -> String {
    let why = problem.map_or_else(String::new, |why| format!(" (without the model: {why})"));
    format!("the conversation was made shorter: about {before} → {after} tokens{why}")
}

/// A command in the background that was ended by its session's end.
pub(crate) fn ended_with_session(shell: &Listed) -> String {
    let seconds = shell.elapsed.as_secs_f64();
    format!(
        "background shell {} ended with the session after {seconds:.1} s: {}",
        shell.id, shell.command
    )
}
