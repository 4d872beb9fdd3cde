//! The parser that is a child process with bounds on memory and time.

use std::path::PathBuf;
use std::time::Duration;

use castellan_core::Cancel;
use castellan_host::shell::{End, Shell, ShellJob, Stream};
use futures::future::BoxFuture;

use super::{Answer, Format, Parser, Unparsed, answer};

/// The argument that makes the program a worker: see [`work`](super::work).
pub const WORKER_ARG: &str = "__worker";

/// How long a file may take.
const TIME: Duration = Duration::from_secs(20);
/// The longest answer, in bytes: a converted picture or the text of a PDF.
const ANSWER: usize = 16 * 1024 * 1024;

/// Parses in children of the own binary.
#[derive(Debug, Clone)]
pub struct Child {
    shell: Shell,
    program: String,
}

impl Child {
    /// A parser whose workers are started by `shell` as `PROGRAM __worker FORMAT PATH`.
    #[must_use]
    pub const fn new(shell: Shell, program: String) -> Self {
        Self { shell, program }
    }
}

impl Parser for Child {
    fn parse(
        &self,
        format: Format,
        path: PathBuf,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<Answer, Unparsed>> {
        let Self { shell, program } = self.clone();
        Box::pin(async move {
            let Some(path) = path.to_str() else {
                return Err("its name is not valid UTF-8".to_owned().into());
            };
            let arguments = [WORKER_ARG, format.argument(), path];
            let job = ShellJob {
                program,
                args: arguments.map(str::to_owned).to_vec(),
                term_grace: Duration::ZERO,
                ..ShellJob::bash("", "/", Vec::new(), TIME)
            };
            let mut output = Vec::new();
            let mut sink = |stream, bytes: &[u8]| {
                if stream == Stream::Stdout && output.len() <= ANSWER {
                    output.extend_from_slice(bytes);
                }
            };
            let report = shell
                .run(job, &mut sink, cancel)
                .await
                .map_err(|error| format!("it could not be parsed: {error}"))?;
            if report.cancelled {
                return Err(Unparsed::Cancelled);
            }
            if report.timed_out {
                let seconds = TIME.as_secs();
                return Err(format!("parsing it took longer than {seconds} s").into());
            }
            Ok(match report.end {
                End::Exited(0) if output.len() <= ANSWER => answer(&output),
                End::Exited(0) => Err("what is in it is too much".to_owned()),
                // Out of memory, a stack overflow, a panic: whatever it was, only the worker died.
                _ => Err("it is broken or hostile: parsing it broke down".to_owned()),
            }?)
        })
    }
}
