//! The file tools on real files; those of the shell are tried through the whole program, which has
//! their helper. Bytes on disk are compared, not the tools' own words.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it did not expect fails"
)]

mod bash;
mod cases;
mod concealed;
mod diff_file;
mod drive;
mod edit_file;
mod faults;
mod names;
mod read_file;
mod search;
mod stale;
mod text;
mod write_file;
