//! Everything that touches the machine on behalf of others: child processes and what encloses them,
//! outbound HTTP, the process environment, the system's clock and randomness.
//!
//! This is the only room where a process is born or an outbound connection is made, so that both
//! have one owner: a process ends with whoever asked for it, and a connection goes where it was told
//! to and carries no credential further.
//!
//! The room must not know what a tool, a model or a session is.
//!
//! Start reading at [`shell`] (how a command runs and how it ends), then [`helper`] (the small
//! child process each command runs under), [`sandbox`] (what a command may touch) and
//! [`env`](mod@env) (what children may see).

pub mod capture;
pub mod children;
pub mod env;
pub mod error;
pub mod helper;
pub mod hooks;
pub mod http;
pub mod partner;
pub mod sandbox;
pub mod shell;
pub mod standard;
pub mod system;

mod procfs;
mod protocol;

pub use capture::Capture;
pub use env::{Environment, Hidden};
pub use error::{Error, ErrorKind};
pub use helper::HELPER_ARG;
pub use http::{HttpClient, HttpError, HttpRequest, HttpResponse};
pub use partner::{Partner, Silence};
pub use protocol::{Ended, Folder, Survivor, Way};
pub use sandbox::{Sandbox, SandboxPolicy};
pub use shell::{End, HelperCommand, Shell, ShellJob, ShellReport, Stream};
pub use system::{SystemClock, SystemIds};
