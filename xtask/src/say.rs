//! What the project commands print: plain lines, the only place of this crate that does.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these commands exist to report to a terminal or a build log"
)]

/// Prints one line (or a block) of the report.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Opens a section of the report.
pub(crate) fn heading(text: &str) {
    println!("\n== {text}");
}

/// Prints why a command could not do its work.
pub(crate) fn error(text: &str) {
    eprintln!("{text}");
}
