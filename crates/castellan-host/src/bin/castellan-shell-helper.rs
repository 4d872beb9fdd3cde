//! The shell helper as a program of its own, so that tests can run it without the product.

use std::process::ExitCode;

fn main() -> ExitCode {
    castellan_host::helper::run()
}
