//! The worker: this program as a child that parses one file and ends.

use std::io;
use std::process::ExitCode;

use castellan_tools::parse::work;
use nix::sys::resource::{Resource, setrlimit};

/// The most memory, in bytes of address space.
const MEMORY: u64 = 1024 * 1024 * 1024;
/// The most time on a processor, in seconds.
const SECONDS: u64 = 15;

/// Parses what the arguments name and writes the answer to standard output.
pub(crate) fn run() -> ExitCode {
    let bounds = [
        (Resource::RLIMIT_AS, MEMORY),
        (Resource::RLIMIT_CPU, SECONDS),
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, 0),
    ];
    for (resource, most) in bounds {
        if setrlimit(resource, most, most).is_err() {
            return ExitCode::FAILURE;
        }
    }
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    match work(&arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
