//! `castellan` without a command: a conversation in the terminal.

mod answer;
mod markdown;
mod safe;
mod style;
