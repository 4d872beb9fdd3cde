//! The program on a terminal: types into it and looks at its screen. Waits for what is to be seen,
//! never for a time.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};

use castellan_testkit::{Home, PATIENCE};
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

use crate::program::PROGRAM;

/// Asks where the cursor stands.
const WHERE: &[u8] = b"\x1b[6n";

/// What the terminal has shown.
struct Shown {
    parser: vt100::Parser,
    /// Every byte that arrived.
    bytes: Vec<u8>,
    over: bool,
}

/// The program and the terminal it runs on.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

impl Terminal {
    /// Starts the program in `home` on a terminal of this size; `more` are variables beside the
    /// usual ones.
    pub(crate) fn start(
        home: &Home,
        args: &[&str],
        (columns, rows): (u16, u16),
        more: &[(&str, &str)],
    ) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let sealed = home.command(PROGRAM);
        let variables = sealed
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let child = Command::new(PROGRAM)
            .args(args)
            .env_clear()
            .envs(variables)
            .env("TERM", "xterm-256color")
            .envs(more.iter().copied())
            .current_dir(home.workspace())
            .spawn(pts)
            .unwrap();
        let pty = Arc::new(pty);
        let shown = Arc::new((
            Mutex::new(Shown {
                parser: vt100::Parser::new(size(rows), size(columns), 2000),
                bytes: Vec::new(),
                over: false,
            }),
            Condvar::new(),
        ));
        let (reader, sight) = (Arc::clone(&pty), Arc::clone(&shown));
        std::thread::spawn(move || read(&reader, &sight));
        Self { pty, child, shown }
    }

    /// The usual terminal.
    pub(crate) fn usual(home: &Home, args: &[&str]) -> Self {
        Self::start(home, args, (80, 40), &[])
    }

    /// The usual terminal, with its prompt on the screen.
    pub(crate) fn ready(home: &Home, args: &[&str]) -> Self {
        let terminal = Self::usual(home, args);
        terminal.wait("› ");
        terminal
    }

    /// Types.
    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and Enter.
    pub(crate) fn enter(&self, line: &str) {
        self.press(&format!("{line}\r"));
    }

    /// Pastes.
    pub(crate) fn paste(&self, text: &str) {
        self.press(&format!("\u{1b}[200~{text}\u{1b}[201~"));
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.shown
            .0
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(size(rows), size(columns));
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Waits until the screen is as wished, and returns it.
    pub(crate) fn until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let shown = self.shown.0.lock().unwrap();
        let (shown, timeout) = self
            .shown
            .1
            .wait_timeout_while(shown, PATIENCE, |shown| {
                !is(&shown.parser.screen().contents()) && !shown.over
            })
            .unwrap();
        let screen = shown.parser.screen().contents();
        assert!(
            !timeout.timed_out() && is(&screen),
            "waited in vain for {what}; the screen:\n{screen}"
        );
        screen
    }

    /// Waits until the screen has `text` on it.
    pub(crate) fn wait(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits for `text`, and for the prompt below it.
    pub(crate) fn rests(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text) && is_at_prompt(screen))
    }

    /// Everything that was sent to the terminal.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shown.0.lock().unwrap().bytes.clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> ExitStatus {
        let shown = self.shown.0.lock().unwrap();
        let (shown, timeout) = self
            .shown
            .1
            .wait_timeout_while(shown, PATIENCE, |shown| !shown.over)
            .unwrap();
        let screen = shown.parser.screen().contents();
        drop(shown);
        if timeout.timed_out() {
            self.child.kill().unwrap();
        }
        let status = self.child.wait().unwrap();
        assert!(
            !timeout.timed_out(),
            "it did not end; the screen:\n{screen}"
        );
        status
    }

    /// Leaves, and returns everything that was sent to the terminal.
    pub(crate) fn leave(self) -> Vec<u8> {
        self.press("\u{4}");
        let shown = Arc::clone(&self.shown);
        assert!(self.ended().success());
        shown.0.lock().unwrap().bytes.clone()
    }
}

/// Whether the prompt waits for a line: it stands alone in the last line.
fn is_at_prompt(screen: &str) -> bool {
    screen
        .trim_end_matches('\n')
        .lines()
        .last()
        .is_some_and(|line| line.trim_end() == "›")
}

/// Takes in what the program writes, and answers what it asks of its terminal.
fn read(pty: &Pty, shown: &(Mutex<Shown>, Condvar)) {
    let mut buffer = [0; 8192];
    loop {
        // The other side's end is told as an error.
        let count = (&*pty).read(&mut buffer).unwrap_or(0);
        let mut sight = shown.0.lock().unwrap();
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            sight.over = true;
            drop(sight);
            shown.1.notify_all();
            return;
        };
        for byte in bytes {
            sight.bytes.push(*byte);
            sight.parser.process(&[*byte]);
            if sight.bytes.ends_with(WHERE) {
                let (row, column) = sight.parser.screen().cursor_position();
                let answer = format!("\u{1b}[{};{}R", row + 1, column + 1);
                (&*pty).write_all(answer.as_bytes()).unwrap();
            }
        }
        drop(sight);
        shown.1.notify_all();
    }
}
