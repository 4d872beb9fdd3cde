//! `castellan completions`: scripts that complete the command line in a shell.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::cli::Cli;
use crate::error::CommandError;
use crate::output::out;

pub(crate) fn run(shell: Shell) -> Result<(), CommandError> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "castellan", &mut script);
    out(&String::from_utf8_lossy(&script))
}
