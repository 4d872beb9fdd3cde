//! What begins with a slash.

use std::collections::VecDeque;

use castellan_core::Surface;
use castellan_core::text::shorten;
use castellan_gate::trace::{Line as TraceLine, path as trace_path, read as read_trace};
use castellan_runtime::Spent;
use castellan_store::grants::{self, Filter};
use castellan_store::{Page, Tx, sessions};
use castellan_tools::bash::Listed;

use super::Repl;
use super::session::named;
use super::slash::{COMMANDS, Command};
use super::status::tokens;
use super::style::{Row, Tone};
use super::talk::refused;
use crate::commands::grants::{NONE_GIVEN, named as named_grants, take_back};
use crate::commands::{tools, trace};
use crate::error::CommandError;
use crate::model::{self, Choice};
use crate::output::{counted, table};

/// What comes after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The prompt.
    Prompt,
    /// The session does something to watch.
    Watch,
    /// The end.
    Leave,
}

/// Sessions that are listed.
const SESSIONS: u32 = 15;
/// Events of the record that are shown.
const EVENTS: usize = 12;
/// Permissions that are listed.
const GRANTS: u32 = 50;

/// What `/help` says beside the commands.
const HELP: &str = "
Enter sends; Alt-Enter, Ctrl-J or a backslash at the end begins a new line; what is pasted keeps its lines.
A line that begins with a blank is not kept in the history; Ctrl-R searches it.
While a turn runs, what is sent is queued. Ctrl-C stops the turn, or clears the line; twice leaves. Ctrl-D leaves.
A line that begins with // says what follows the first / to the model.

Questions: y, n or a decides, and nothing else does.
  y, use full path             yes, and the model reads the words
  n use the staging host       no, with the reason
  a                            yes, and this tool unasked in this session from now on
  a project bash:git status    yes, and what is named unasked in this project (or everywhere)
  a session, use full path     words after a scope
  y 1,3 · n 2 reason           some of several calls; the others stay open, with their numbers
  y: 2 files are enough        words that begin with a number
  v                            all of a long preview";

impl Repl {
    /// Does a command at the prompt.
    pub(super) async fn command(
        &mut self,
        command: Command,
        arguments: &str,
    ) -> Result<Next, CommandError> {
        self.models.take_in();
        match command {
            Command::Quit => return Ok(Next::Leave),
            Command::New => {
                self.leave().await;
                self.name_session(None);
                self.story.usage = None;
                self.on_status(|status| status.used = None);
                self.tell(Tone::Dim, "a new session begins with the next message")?;
            }
            Command::Resume if !arguments.is_empty() => {
                let id = trace::resolve(&self.store, arguments).await?;
                self.resume(id).await?;
                let asks = self
                    .open
                    .as_ref()
                    .is_some_and(|open| open.standing.borrow().question.is_some());
                return Ok(if asks { Next::Watch } else { Next::Prompt });
            }
            Command::Model if !arguments.is_empty() => self.switch_model(arguments).await?,
            Command::Continue => {
                let Some(open) = &self.open else {
                    return Err(CommandError::usage("no session is open")
                        .hint("/resume lists those that are stored"));
                };
                open.live.take_up().await.map_err(continued)?;
                return Ok(Next::Watch);
            }
            Command::Compact => {
                let Some(open) = &self.open else {
                    return Err(CommandError::usage(
                        "no session is open, so there is nothing to summarise",
                    ));
                };
                let live = open.live.clone();
                let focus = Some(arguments.to_owned()).filter(|focus| !focus.is_empty());
                self.compactions
                    .spawn(async move { live.compact(focus).await });
                return Ok(Next::Watch);
            }
            Command::Attach => {
                let rows = self.attach(arguments)?;
                self.print(&rows)?;
            }
            Command::Help
            | Command::Model
            | Command::Grants
            | Command::Shells
            | Command::Tools
            | Command::Mcp
            | Command::Resume
            | Command::Trace
            | Command::Cost => {
                let rows = self.report(command, arguments).await?;
                self.print(&rows)?;
            }
        }
        Ok(Next::Prompt)
    }

    /// Does a command while a turn runs, where that is possible.
    pub(super) async fn command_meanwhile(
        &mut self,
        command: Command,
        arguments: &str,
    ) -> Vec<Row> {
        self.models.take_in();
        let said = match command {
            Command::Model | Command::Resume if arguments.is_empty() => {
                self.report(command, arguments).await
            }
            Command::Help
            | Command::Grants
            | Command::Shells
            | Command::Tools
            | Command::Mcp
            | Command::Trace
            | Command::Cost => self.report(command, arguments).await,
            Command::Attach => self.attach(arguments),
            Command::Model
            | Command::Resume
            | Command::New
            | Command::Continue
            | Command::Compact
            | Command::Quit => Err(CommandError::usage("a turn is under way")
                .hint("wait for its end, or stop it with Ctrl-C")),
        };
        said.unwrap_or_else(|error| self.story.note(Tone::Bad, &error.text()))
    }

    /// What a command tells that changes nothing.
    async fn report(&self, command: Command, arguments: &str) -> Result<Vec<Row>, CommandError> {
        let text = match command {
            Command::Help => help(),
            Command::Model => self.models_text().await?,
            Command::Tools => self.tools_text(arguments)?,
            Command::Grants => self.grants(arguments).await?,
            Command::Shells => self.shells_text(),
            Command::Mcp => format!(
                "no external MCP server is connected: this version has no client for them\n\
                 its own tools are {} ({})",
                self.world.catalog.specs().count(),
                "/tools lists them"
            ),
            Command::Resume => self.sessions_text().await?,
            Command::Trace => self.trace_text()?,
            Command::Cost => self.cost_text(),
            Command::New
            | Command::Continue
            | Command::Compact
            | Command::Attach
            | Command::Quit => String::new(),
        };
        Ok(self.story.note(Tone::Plain, text.trim_end()))
    }

    async fn models_text(&self) -> Result<String, CommandError> {
        let config = &self.world.config;
        let current = self.models.now().map(|chosen| chosen.model.info());
        let mut text = match current {
            Some(info) => format!("in use: {} ({})\n", info.model, info.name),
            None => "in use: none yet\n".to_owned(),
        };
        let given = &self.arguments.model;
        if let Some(words) = model::given(given) {
            text.push_str(&format!("asked for: {words}\n"));
        }
        if given.base_url.is_some() && config.models.is_empty() {
            text.push_str("/model NAME asks for another model there");
            return Ok(text);
        }
        match model::search(&self.world.environment, config).await? {
            Choice::Configured(names) => {
                text.push_str("configured:\n");
                let rows: Vec<Vec<String>> = names
                    .iter()
                    .filter_map(|name| Some((name, config.models.get(name)?)))
                    .map(|(name, model)| {
                        vec![
                            format!("  {name}"),
                            model.model.clone(),
                            model.base_url.clone(),
                        ]
                    })
                    .collect();
                text.push_str(&table(&rows));
                text.push_str("/model NAME changes to another one");
            }
            Choice::Found(found) => {
                text.push_str(&found);
                text.push_str("\n/model NAME asks for another model there");
            }
            Choice::None(looked) => text.push_str(&looked),
        }
        Ok(text)
    }

    async fn switch_model(&mut self, name: &str) -> Result<(), CommandError> {
        let wanted = named(&self.arguments.model, name);
        let chosen = model::choose(&self.world, &wanted).await?;
        let info = chosen.model.info().clone();
        self.arguments.model = wanted;
        self.models.set(chosen);
        self.reopen().await?;
        self.on_status(|status| {
            status.model = Some(info.model.clone());
            status.window = info.context_window;
        });
        self.tell(
            Tone::Dim,
            &format!("from now on {} ({})", info.model, info.name),
        )
    }

    fn tools_text(&self, arguments: &str) -> Result<String, CommandError> {
        let catalog = &self.world.catalog;
        if arguments.is_empty() {
            let rows: Vec<Vec<String>> = catalog
                .specs()
                .filter(|spec| spec.surfaces.contains(&Surface::Interactive))
                .map(|spec| vec![spec.name.clone(), spec.summary.clone()])
                .collect();
            return Ok(table(&rows) + "/tools NAME shows one in full");
        }
        tools::described(catalog, arguments)
    }

    async fn sessions_text(&self) -> Result<String, CommandError> {
        let Page { rows, total } = self
            .store
            .read(move |tx| sessions::list(tx, SESSIONS))
            .await?;
        if rows.is_empty() {
            return Ok("no session is stored yet".to_owned());
        }
        let shown = rows.len() as u64;
        let open = self.open.as_ref().map(|open| open.live.id());
        let cells: Vec<Vec<String>> = rows
            .into_iter()
            .map(|row| {
                let mark = if Some(row.id) == open { "* " } else { "  " };
                vec![format!("{mark}{}", row.id), row.state, row.title]
            })
            .collect();
        let more = if shown < total {
            format!("{shown} of {}\n", counted(total, "session"))
        } else {
            String::new()
        };
        Ok(format!(
            "{}{more}/resume ID goes on with one",
            table(&cells)
        ))
    }

    fn trace_text(&self) -> Result<String, CommandError> {
        let Some(open) = &self.open else {
            return Ok("no session is open, so there is no record of it".to_owned());
        };
        let file = trace_path(&self.world.home.traces(), open.live.id());
        let mut text = format!("{}\n", file.display());
        let mut last = VecDeque::new();
        let mut earlier = 0;
        for line in read_trace(&file)? {
            last.push_back(line);
            if last.len() > EVENTS {
                last.pop_front();
                earlier += 1;
            }
        }
        if earlier > 0 {
            text.push_str(&format!("… {}\n", counted(earlier, "earlier event")));
        }
        for line in last {
            match line {
                TraceLine::Event(event) => {
                    let told = trace::told(&event);
                    text.push_str(&shorten(told.lines().next().unwrap_or_default(), 200));
                    text.push('\n');
                }
                TraceLine::Unreadable { number, problem } => {
                    text.push_str(&format!("line {number} is not an event: {problem}\n"));
                }
            }
        }
        Ok(text)
    }

    fn cost_text(&self) -> String {
        let Some(open) = &self.open else {
            return "no session is open, so nothing was used".to_owned();
        };
        let used = open.live.usage();
        if used.is_empty() {
            return "no model has answered in this session yet".to_owned();
        }
        let row = |spent: &Spent| {
            let Spent {
                model,
                totals,
                cost,
            } = spent;
            let estimated = match totals.estimated {
                0 => String::new(),
                count => format!("{count} of them estimated"),
            };
            vec![
                model.clone(),
                counted(totals.requests, "answer"),
                format!("{} tokens read", tokens(totals.prompt_tokens)),
                format!("{} from the cache", tokens(totals.cached_tokens)),
                format!("{} written", tokens(totals.completion_tokens)),
                cost.map_or_else(
                    || "no price known".to_owned(),
                    |cost| format!("cost {cost:.4}"),
                ),
                estimated,
            ]
        };
        let mut text = table(&used.iter().map(row).collect::<Vec<_>>());
        if used.iter().any(|spent| spent.cost.is_none()) {
            text.push_str("[models.NAME.price] in the configuration says what a model costs");
        }
        text
    }

    fn shells_text(&self) -> String {
        let listed = match &self.open {
            Some(open) => self.world.background.list(open.live.id()),
            None => Vec::new(),
        };
        if listed.is_empty() {
            return "no command runs in the background".to_owned();
        }
        let row = |shell: Listed| {
            let state = shell.end.unwrap_or_else(|| "running".to_owned());
            let seconds = format!("{:.0} s", shell.elapsed.as_secs_f64());
            vec![shell.id, state, seconds, shell.command]
        };
        table(&listed.into_iter().map(row).collect::<Vec<_>>())
    }

    async fn grants(&self, arguments: &str) -> Result<String, CommandError> {
        let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        match words.split_first() {
            None => {
                let all = Filter::default();
                let listed = move |tx: &Tx<'_>| grants::list(tx, &all, GRANTS);
                let grants::Grants {
                    rows,
                    damaged,
                    total,
                } = self.store.read(listed).await?;
                if total == 0 {
                    return Ok(NONE_GIVEN.to_owned());
                }
                let shown = (rows.len() + damaged.len()) as u64;
                let more = if shown < total {
                    format!("{shown} of {total}; castellan grants --limit shows more\n")
                } else {
                    String::new()
                };
                let line = |row: &grants::GrantRow| {
                    let uses = match row.uses {
                        1 => "used once".to_owned(),
                        uses => format!("used {uses} times"),
                    };
                    format!("{}  {} · {uses}\n", row.id, row.described())
                };
                let listed: String = rows.iter().map(line).collect();
                let damaged: String = damaged.iter().map(|one| format!("{one}\n")).collect();
                Ok(format!(
                    "{listed}{damaged}{more}/grants revoke ID takes one back"
                ))
            }
            Some((word, ids)) if word == "revoke" && !ids.is_empty() => {
                let rows = named_grants(&self.store, ids).await?;
                let gone = take_back(&self.world, &self.store, rows).await?;
                let line =
                    |row: &grants::GrantRow| format!("revoked {} {}\n", row.id, row.described());
                Ok(gone.iter().map(line).collect())
            }
            Some(_) => Err(CommandError::usage(
                "/grants lists them; /grants revoke ID takes one back",
            )),
        }
    }
}

fn continued(refusal: castellan_runtime::Refusal) -> CommandError {
    match refusal {
        castellan_runtime::Refusal::Session(castellan_runtime::Error::NothingToDo(_)) => {
            CommandError::usage("the last turn is done; there is nothing to go on with")
        }
        other => refused(other),
    }
}

fn help() -> String {
    let rows: Vec<Vec<String>> = COMMANDS
        .iter()
        .map(|listed| {
            vec![
                format!("/{} {}", listed.name, listed.arguments),
                listed.what.to_owned(),
            ]
        })
        .collect();
    table(&rows) + HELP
}
