//! What can keep the gate itself from working. What goes wrong with a call is that call's outcome
//! and never appears here.

use std::path::PathBuf;

use castellan_core::caller::Unidentified;

/// Why the gate stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller was not accepted.
    #[error(transparent)]
    Unidentified(#[from] Unidentified),
    /// What happens could not be recorded, so nothing was allowed to happen.
    #[error("failed to record what happens")]
    Record(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Two tools have the same name.
    #[error("two tools are named `{0}`")]
    DuplicateTool(String),
    /// A tool's spec breaks a rule of the catalog.
    #[error("the spec of the tool `{name}` is wrong: {problem}")]
    BadSpec {
        /// The tool.
        name: String,
        /// The rule.
        problem: &'static str,
    },
    /// Rules that can't be read: nothing may be decided without them.
    #[error("{what}")]
    Policy {
        /// What is wrong, with file, line and key.
        what: String,
        /// What was expected; may be empty.
        hint: String,
    },
    /// A trace could not be read or written.
    #[error("failed to {action} the trace {path}")]
    Trace {
        /// `open`, `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}
