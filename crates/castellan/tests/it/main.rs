//! The whole program in a sealed home, against a scripted model over real HTTP.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it did not expect fails"
)]

mod attached;
mod background;
mod bad_input;
mod catalog;
mod crash;
mod decisions;
mod episode;
mod exec;
mod export;
mod folder;
mod genome;
mod init;
mod mcp;
// As below.
#[cfg(test)]
mod mcp_client;
mod pages;
mod pictures;
mod plugins;
mod program;
mod repl;
mod replay;
// Says `cfg(test)` again, because that is what the lints for tests go by.
#[cfg(test)]
mod sandbox;
mod shell;
mod shell_cases;
mod stop;
mod terminal;
mod wire;
