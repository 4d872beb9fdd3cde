//! `castellan init`: lets MCP clients know of `castellan mcp`, or no longer.

mod client;
mod entry;
mod file;
mod in_json;
mod in_toml;
mod syntax;

use std::io::{self, IsTerminal as _};

use castellan_core::secret::Redaction;
use castellan_core::text::plain;
use castellan_host::Environment;

pub(crate) use client::Client;
use client::{Places, System};
use entry::{Entry, NAME, secrets};
use file::File;
use syntax::{Flaw, Place};

use crate::cli::Init;
use crate::config::{Config, profile};
use crate::error::CommandError;
use crate::home::Home;
use crate::output::{line, note, out, out_is_terminal, table};

/// What is wanted of every client.
struct Wish<'a> {
    args: &'a Init,
    places: Places<'a>,
    entry: Entry,
}

/// What that comes to for one of them.
enum Plan {
    /// It is so; in words.
    Done(String),
    Change(Box<Change>),
}

/// A change of a client's file.
struct Change {
    client: Client,
    file: File,
    content: String,
    /// What is shown of it.
    diff: String,
    /// What was done, once it is.
    done: &'static str,
}

pub(crate) fn run(environment: &Environment, home: &Home, args: &Init) -> Result<(), CommandError> {
    if let Some(name) = &args.profile {
        // A server that a client starts could tell nobody that there is no such profile.
        profile(name, &Config::load(&home.config)?.profiles)?;
    }
    let places = Places::of(environment, System::HERE)?;
    let entry = Entry::here(&places, environment, args.profile.as_deref())?;
    let wish = Wish {
        args,
        places,
        entry,
    };
    let Some(client) = args.client else {
        return all(&wish);
    };
    match plan(&wish, client)? {
        Plan::Done(words) => line(&words),
        Plan::Change(change) if args.dry_run => {
            out(&change.diff)?;
            note("nothing was changed: it is a dry run");
            Ok(())
        }
        Plan::Change(change) => {
            out(&change.diff)?;
            change.make()
        }
    }
}

/// What is to be done to a client's file.
fn plan(wish: &Wish<'_>, client: Client) -> Result<Plan, CommandError> {
    let place = Place {
        servers: client.servers(),
        name: NAME,
    };
    let file = File::read(client.file(&wish.places))?;
    let path = file.path.display().to_string();
    let read = client.syntax().read(file.content(), place);
    let settings = read.map_err(|flaw| flawed(&flaw, client, &path))?;
    let there = place.of(&settings);
    let (entry, done) = match there {
        None if wish.args.remove => {
            return Ok(Plan::Done(format!(
                "{}: {NAME} is not in {path}",
                client.title()
            )));
        }
        Some(_) if wish.args.remove => (None, "removed from"),
        None => (Some(wish.entry.value(client).into()), "added to"),
        Some(there) => {
            let differences = wish.entry.differences(client, there);
            if differences.is_empty() {
                return Ok(Plan::Done(format!(
                    "{}: {NAME} is in {path} already",
                    client.title()
                )));
            }
            if !wish.args.replace {
                return Err(CommandError::failed(format!(
                    "{NAME} is in {path} with other settings: {}",
                    differences.join("; ")
                ))
                .hint(format!(
                    "{} --dry-run shows what these would change",
                    command(wish.args, client, &["--replace"])
                )));
            }
            (Some(wish.entry.over(client, there)), "updated in")
        }
    };
    let changed = client
        .syntax()
        .changed(file.content(), &settings, place, entry.as_ref());
    let content = changed.map_err(|flaw| flawed(&flaw, client, &path))?;
    let diff = Redaction::new(secrets(&settings)).apply(file.diff(&content));
    Ok(Plan::Change(Box::new(Change {
        client,
        diff: plain(&diff),
        file,
        content,
        done,
    })))
}

impl Change {
    /// Writes it, and says so.
    fn make(&self) -> Result<(), CommandError> {
        let kept = self.file.write(&self.content)?;
        let (title, path) = (self.client.title(), self.file.path.display());
        line(&format!("{title}: {NAME} was {} {path}", self.done))?;
        if let Some(kept) = kept {
            line(&format!("the file as it was: {}", kept.display()))?;
        }
        line(&format!("next: {}", self.client.next()))
    }
}

/// Text that was not changed, because it can't be read or not be changed alone.
fn flawed(flaw: &Flaw, client: Client, path: &str) -> CommandError {
    let place = flaw.place.map_or_else(String::new, |(line, column)| {
        format!(", line {line}, column {column}")
    });
    CommandError::failed(format!("{path}{place}: {}; nothing was changed", flaw.what)).hint(
        format!(
            "mend it in an editor and try again; {} reads `{}` in it",
            client.title(),
            client.servers()
        ),
    )
}

/// Looks which clients are there, and asks for each that is not as wished; where nobody can be
/// asked, the commands are printed.
fn all(wish: &Wish<'_>) -> Result<(), CommandError> {
    let there = Client::ALL
        .into_iter()
        .filter(|client| client.is_there(&wish.places));
    let there: Vec<Client> = there.collect();
    if there.is_empty() {
        let known = Client::ALL.map(Client::name).join(", ");
        note(&format!(
            "none of the clients that are known has a folder in {}",
            wish.places.home().display()
        ));
        note(&format!("hint: name one with --client: {known}"));
        return Ok(());
    }
    let mut changes = Vec::new();
    for client in there {
        match plan(wish, client) {
            Ok(Plan::Done(words)) => note(&words),
            Ok(Plan::Change(change)) => changes.push(*change),
            Err(error) => note(&format!("{}: {}", client.title(), error.text())),
        }
    }
    if wish.args.dry_run {
        return changes.iter().try_for_each(|change| out(&change.diff));
    }
    if io::stdin().is_terminal() && out_is_terminal() {
        return offer_all(&changes);
    }
    let row = |change: &Change| {
        let path = change.file.path.display();
        vec![
            command(wish.args, change.client, &[]),
            format!("# {}: {path}", change.client.title()),
        ]
    };
    let rows: Vec<_> = changes.iter().map(row).collect();
    out(&table(&rows))
}

/// Offers each of them; one that fails keeps the others from nothing.
fn offer_all(changes: &[Change]) -> Result<(), CommandError> {
    let mut failed = Vec::new();
    for change in changes {
        if let Err(error) = offer(change) {
            note(&format!("{}: {}", change.client.title(), error.text()));
            failed.push(change.client.title());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "not changed as offered: the settings of {}",
        failed.join(", ")
    )))
}

/// Shows a change and makes it if the person says so.
fn offer(change: &Change) -> Result<(), CommandError> {
    out(&change.diff)?;
    out(&format!("{}: change it? y/n ", change.client.title()))?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(crate::error::io("read the answer"))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        change.make()
    } else {
        line("nothing was changed")
    }
}

/// The command that does this for `client`.
fn command(args: &Init, client: Client, more: &[&str]) -> String {
    let mut words = vec!["castellan", "init", "--client", client.name()];
    if let Some(profile) = &args.profile {
        words.extend(["--profile", profile]);
    }
    if args.remove {
        words.push("--remove");
    }
    if args.replace {
        words.push("--replace");
    }
    words.extend(more);
    words.join(" ")
}
