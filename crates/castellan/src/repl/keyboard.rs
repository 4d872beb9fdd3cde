//! What is typed, read on a thread of its own: whole lines at the prompt through the line editor,
//! single keys while something is drawn above, plain lines where the terminal is no better.

use std::borrow::Cow;
use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, KeyEvent};
use crossterm::{execute, terminal};
use reedline::{
    ColumnarMenu, EditCommand, Emacs, KeyCode, KeyModifiers, MenuBuilder as _, Prompt,
    PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, ValidationResult, Validator, default_emacs_keybindings,
};
use tokio::sync::mpsc;

use super::completion::Completion;
use super::history::Kept;
use super::screen::Reach;
use super::status::Status;
use super::style::{Looks, Row, Tone};

/// What was typed, or happened to the terminal.
#[derive(Debug)]
pub(crate) enum Input {
    /// A line at the prompt.
    Line(String),
    /// Ctrl-C on an empty line at the prompt.
    Interrupt,
    /// Ctrl-D on an empty line at the prompt, or no more input.
    End,
    /// The prompt was taken away; what had been typed.
    Broken(String),
    /// A key, where there is no prompt.
    Key(KeyEvent),
    /// Text pasted, where there is no prompt.
    Paste(String),
    /// The terminal has another size.
    Resized,
    /// Nothing is read any more until it is asked for.
    Resting,
    /// Nothing can be read any more.
    Failed(String),
}

/// What to read next.
enum Order {
    /// A line at the prompt, which begins with this text.
    Line(String),
    /// Keys, until the next order.
    Keys,
    /// Nothing, until the next order.
    Rest,
}

/// How many inputs may wait.
const WAITING: usize = 256;
/// How long a change from keys to the prompt may take.
const LOOK: Duration = Duration::from_millis(20);
/// The sign of the prompt.
const SIGN: &str = "› ";
const INTERRUPT: &str = "interrupt";
const MENU: &str = "completions";

pub(crate) struct Keyboard {
    orders: SyncSender<Order>,
    inputs: mpsc::Receiver<Input>,
    broken: Arc<AtomicBool>,
    repaint: Repaint,
    reach: Reach,
}

/// Draws the prompt anew.
pub(crate) type Repaint = Arc<dyn Fn() + Send + Sync>;
/// The status line, which the prompt shows as it is at that moment.
pub(crate) type SharedStatus = Arc<Mutex<Status>>;

impl Keyboard {
    pub(crate) fn start(reach: Reach, looks: Looks, status: SharedStatus, history: Kept) -> Self {
        let (orders, ordered) = sync_channel(1);
        let (sender, inputs) = mpsc::channel(WAITING);
        let broken = Arc::new(AtomicBool::new(false));
        let completion = Completion {
            status: Arc::clone(&status),
        };
        let mut editor = line_editor(looks, history, completion, Arc::clone(&broken));
        let signal = editor.repaint_signal();
        let repaint: Repaint = Arc::new(move || signal.request_repaint());
        // The thread ends with the program: nothing can end its waiting for a key.
        drop(std::thread::spawn(move || match reach {
            Reach::Lines => lines(&sender),
            Reach::Full => {
                let prompt = StatusPrompt { status, looks };
                let failed = Reader {
                    editor,
                    prompt,
                    sender: sender.clone(),
                }
                .run(&ordered);
                if let Err(error) = failed {
                    sender
                        .blocking_send(Input::Failed(error.to_string()))
                        .unwrap_or_default();
                }
            }
        }));
        Self {
            orders,
            inputs,
            broken,
            repaint,
            reach,
        }
    }

    /// What draws the prompt anew, where there is one, after the status has changed.
    pub(crate) fn repaint(&self) -> Repaint {
        Arc::clone(&self.repaint)
    }

    /// Shows the prompt with `draft` in it.
    pub(crate) fn prompt(&self, draft: String) {
        if self.reach == Reach::Full {
            self.broken.store(false, Ordering::Relaxed);
            // A thread that is gone has said why.
            self.orders.send(Order::Line(draft)).unwrap_or_default();
        }
    }

    /// Reads keys from now on.
    pub(crate) fn keys(&self) {
        if self.reach == Reach::Full {
            self.orders.send(Order::Keys).unwrap_or_default();
        }
    }

    /// Reads nothing from now on, which [`Input::Resting`] confirms: what was typed before has
    /// arrived by then.
    pub(crate) fn rest(&self) {
        if self.reach == Reach::Full {
            self.orders.send(Order::Rest).unwrap_or_default();
        }
    }

    /// Whether keys are read one by one.
    pub(crate) fn has_keys(&self) -> bool {
        self.reach == Reach::Full
    }

    /// Takes the prompt away, which [`Input::Broken`] confirms.
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// What is typed next; `None` once there can be no more.
    pub(crate) async fn next(&mut self) -> Option<Input> {
        self.inputs.recv().await
    }

    /// Gives the terminal back as it was.
    pub(crate) fn restore(&self) {
        if self.reach == Reach::Full {
            // A terminal that is gone needs nothing.
            execute!(std::io::stdout(), DisableBracketedPaste).unwrap_or_default();
            terminal::disable_raw_mode().unwrap_or_default();
        }
    }
}

/// Reads plain lines.
fn lines(sender: &mpsc::Sender<Input>) {
    let mut stdin = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let input = match stdin.read_until(b'\n', &mut line) {
            Ok(0) => Input::End,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                Input::Line(text.trim_end_matches(['\n', '\r']).to_owned())
            }
            Err(error) => Input::Failed(error.to_string()),
        };
        let is_last = matches!(input, Input::End | Input::Failed(_));
        if sender.blocking_send(input).is_err() || is_last {
            return;
        }
    }
}

struct Reader {
    editor: Reedline,
    prompt: StatusPrompt,
    sender: mpsc::Sender<Input>,
}

impl Reader {
    /// Ends when nobody gives orders any more.
    fn run(mut self, orders: &Receiver<Order>) -> std::io::Result<()> {
        let mut order = orders.recv().ok();
        while let Some(present) = order {
            order = match present {
                Order::Line(draft) => {
                    let input = self.line(&draft)?;
                    // What is typed before the next order must not be echoed.
                    terminal::enable_raw_mode()?;
                    if self.sender.blocking_send(input).is_err() {
                        return Ok(());
                    }
                    orders.recv().ok()
                }
                Order::Keys => self.keys(orders)?,
                Order::Rest => {
                    if self.sender.blocking_send(Input::Resting).is_err() {
                        return Ok(());
                    }
                    orders.recv().ok()
                }
            };
        }
        Ok(())
    }

    fn line(&mut self, draft: &str) -> std::io::Result<Input> {
        let begin = [
            EditCommand::Clear,
            EditCommand::InsertString(draft.to_owned()),
        ];
        self.editor.run_edit_commands(&begin);
        loop {
            let signal = self
                .editor
                .read_line(&self.prompt)
                .map_err(std::io::Error::other)?;
            match signal {
                Signal::Success(line) => return Ok(Input::Line(line)),
                Signal::ExternalBreak(draft) => {
                    self.editor.run_edit_commands(&[EditCommand::Clear]);
                    return Ok(Input::Broken(draft));
                }
                Signal::HostCommand(_) if self.editor.current_buffer_contents().is_empty() => {
                    return Ok(Input::Interrupt);
                }
                Signal::HostCommand(_) => self.editor.run_edit_commands(&[EditCommand::Clear]),
                Signal::CtrlC => return Ok(Input::Interrupt),
                Signal::CtrlD => return Ok(Input::End),
                _ => {}
            }
        }
    }

    /// The next order.
    fn keys(&self, orders: &Receiver<Order>) -> std::io::Result<Option<Order>> {
        terminal::enable_raw_mode()?;
        execute!(std::io::stdout(), EnableBracketedPaste)?;
        loop {
            match orders.try_recv() {
                Ok(order) => return Ok(Some(order)),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(None),
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
            }
            if !event::poll(LOOK)? {
                continue;
            }
            let input = match event::read()? {
                event::Event::Key(key) => Input::Key(key),
                event::Event::Paste(text) => Input::Paste(text),
                event::Event::Resize(..) => Input::Resized,
                _ => continue,
            };
            if self.sender.blocking_send(input).is_err() {
                return Ok(None);
            }
        }
    }
}

fn line_editor(
    looks: Looks,
    history: Kept,
    completion: Completion,
    signal: Arc<AtomicBool>,
) -> Reedline {
    let mut keys = default_emacs_keybindings();
    for (modifier, code) in [
        (KeyModifiers::ALT, KeyCode::Enter),
        (KeyModifiers::SHIFT, KeyCode::Enter),
        (KeyModifiers::CONTROL, KeyCode::Char('j')),
    ] {
        keys.add_binding(
            modifier,
            code,
            ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
        );
    }
    let interrupt = ReedlineEvent::ExecuteHostCommand(INTERRUPT.to_owned());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('c'), interrupt);
    keys.remove_binding(KeyModifiers::CONTROL, KeyCode::Char('o'));
    let complete = vec![
        ReedlineEvent::Menu(MENU.to_owned()),
        ReedlineEvent::MenuNext,
    ];
    keys.add_binding(
        KeyModifiers::NONE,
        KeyCode::Tab,
        ReedlineEvent::UntilFound(complete),
    );
    keys.add_binding(
        KeyModifiers::SHIFT,
        KeyCode::BackTab,
        ReedlineEvent::MenuPrevious,
    );
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(2);
    Reedline::create()
        .with_ansi_colors(looks == Looks::Drawn)
        .use_bracketed_paste(true)
        .with_history(Box::new(history))
        .with_history_exclusion_prefix(Some(" ".to_owned()))
        .with_validator(Box::new(Ends))
        .with_completer(Box::new(completion))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_transient_prompt(Box::new(BarePrompt))
        .with_break_signal(signal)
}

/// A line that ends in a backslash goes on.
struct Ends;

impl Validator for Ends {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

/// The status line, and below it the sign.
struct StatusPrompt {
    status: SharedStatus,
    looks: Looks,
}

/// The sign alone: what stays of a prompt once its line is said.
struct BarePrompt;

impl Prompt for StatusPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        let width = terminal::size().map_or(80, |(width, _)| width.into());
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let row = status.row(usize::max(width, 2) - 1);
        drop(status);
        Cow::Owned(format!("{}\n", row.paint(self.looks)))
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Owned(Row::of(Tone::Accent, SIGN).paint(self.looks))
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        searching(&search)
    }

    fn get_prompt_color(&self) -> reedline::Color {
        reedline::Color::Default
    }
}

impl Prompt for BarePrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(SIGN)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        searching(&search)
    }
}

fn searching(search: &PromptHistorySearch) -> Cow<'static, str> {
    let found = match search.status {
        PromptHistorySearchStatus::Passing => "",
        PromptHistorySearchStatus::Failing => "nothing ",
    };
    Cow::Owned(format!("{found}typed before with `{}`: ", search.term))
}
