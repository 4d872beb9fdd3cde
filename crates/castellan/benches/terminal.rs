//! What the conversation in the terminal costs: how long until its prompt stands there, and its
//! memory while nobody types.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use castellan_testkit::{Home, ModelServer, Reply};
use pty_process::Size;
use pty_process::blocking::{Command, open};

const PROGRAM: &str = env!("CARGO_BIN_EXE_castellan");
/// How often it is started.
const STARTS: usize = 15;
/// How long it is left alone before its memory is read.
const ALONE: Duration = Duration::from_secs(1);

fn main() {
    let server = ModelServer::answering(|_| Reply::text("done"));
    let home = Home::new();
    home.write_config(&format!(
        "[models.test]\nbase_url = \"{}\"\nmodel = \"scripted\"\n",
        server.base_url()
    ));
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (time, size) = start(&home);
        times.push(time);
        sizes.push(size);
    }
    println!(
        "terminal: the prompt stands there after {:.1} ms, and {:.1} MB are used while nobody types \
         (medians of {STARTS} starts)",
        median(&mut times),
        median(&mut sizes)
    );
}

/// Milliseconds to the prompt, and megabytes a moment later.
fn start(home: &Home) -> (f64, f64) {
    let (pty, pts) = open().unwrap();
    pty.resize(Size::new(40, 90)).unwrap();
    let sealed = home.command(PROGRAM);
    let variables = sealed
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let begun = Instant::now();
    let mut child = Command::new(PROGRAM)
        .env_clear()
        .envs(variables)
        .env("TERM", "xterm-256color")
        .current_dir(sealed.get_current_dir().unwrap())
        .spawn(pts)
        .unwrap();
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&shown).contains('›') {
        let count = (&pty).read(&mut buffer).unwrap();
        let new = buffer.get(..count).unwrap();
        shown.extend_from_slice(new);
        // It asks where the cursor is, as a terminal knows.
        if new.windows(4).any(|four| four == b"\x1b[6n") {
            (&pty).write_all(b"\x1b[1;1R").unwrap();
        }
    }
    let time = begun.elapsed().as_secs_f64() * 1000.0;
    std::thread::sleep(ALONE);
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: f64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    (time, kilobytes / 1024.0)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
