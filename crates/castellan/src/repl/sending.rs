//! What is said to the model: words and the files that go with them, and what a stop gives back of
//! them.

use std::path::PathBuf;
use std::sync::Arc;

use castellan_runtime::live::Said;

use super::Repl;
use super::completion::place;
use super::slash::to_say;
use super::style::{Row, Tone};
use super::talk::refused;
use crate::attach::{Attachment, attach};
use crate::error::{CommandError, io};
use crate::output::counted;

/// A message that was said with files.
pub(super) struct Sent {
    said: Said,
    /// What was typed of it.
    typed: String,
    files: Vec<PathBuf>,
}

impl Repl {
    /// Takes a file into the next message.
    pub(super) fn attach(&mut self, name: &str) -> Result<Vec<Row>, CommandError> {
        if name.is_empty() {
            return Err(CommandError::usage("which file?").hint("/attach FILE"));
        }
        let path = place(name, self.folder(), self.world.environment.home());
        let shown = path.display();
        let metadata = std::fs::metadata(&path).map_err(io(&format!("read {shown}")))?;
        if !metadata.is_file() {
            return Err(CommandError::usage(format!("{shown} is not a file")));
        }
        let size = counted(metadata.len(), "byte");
        let text = format!("{name} ({size}) goes with the next message");
        self.attached.push(path);
        Ok(self.story.note(Tone::Dim, &text))
    }

    /// Says this with the files that are attached, which are let go of once it is taken.
    ///
    /// # Errors
    /// What keeps it from being said. A file that can't go with it is let go of, and no other.
    pub(super) async fn send(&mut self, typed: &str) -> Result<(), CommandError> {
        let said = match self.with_attached(typed.to_owned()).await {
            Ok(said) => said,
            Err((place, error)) => {
                self.attached.remove(place);
                return Err(error.hint("it is not attached any more; Enter sends the rest"));
            }
        };
        let Some(open) = &self.open else {
            return Err(CommandError::failed("no session is open"));
        };
        open.live.say(said.clone()).map_err(refused)?;
        let files = std::mem::take(&mut self.attached);
        if !files.is_empty() {
            self.sent.push(Sent {
                said,
                typed: typed.to_owned(),
                files,
            });
        }
        Ok(())
    }

    /// The message with its files, or which of them can't go with it and why.
    async fn with_attached(&self, mut text: String) -> Result<Said, (usize, CommandError)> {
        let mut pictures = Vec::new();
        for (place, path) in self.attached.iter().enumerate() {
            let Some(open) = &self.open else { break };
            let parser = Arc::clone(&self.world.parser);
            match attach(path, parser, &open.album).await {
                Ok(Attachment::Text(block)) => text = format!("{text}\n\n{block}"),
                Ok(Attachment::Picture(picture)) => pictures.push(picture),
                Err(error) => return Err((place, error)),
            }
        }
        Ok(Said { text, pictures })
    }

    /// Puts what was queued into the line again, before what is being typed, and attaches its files
    /// again.
    pub(super) fn take_back(&mut self, back: Vec<Said>) -> Vec<Row> {
        if back.is_empty() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let mut files = Vec::new();
        for said in back {
            match self.sent.iter().position(|sent| sent.said == said) {
                Some(place) => {
                    let sent = self.sent.remove(place);
                    lines.push(sent.typed);
                    files.extend(sent.files);
                }
                None => lines.push(said.text),
            }
        }
        if let Some(first) = lines.first_mut() {
            *first = to_say(std::mem::take(first));
        }
        lines.push(self.editor.take());
        lines.retain(|line| !line.is_empty());
        self.editor.set(lines.join("\n"));
        let mut text = "what was queued stands in the line again".to_owned();
        if !files.is_empty() {
            text.push_str(&format!(", with its {}", counted(files.len(), "file")));
        }
        files.append(&mut self.attached);
        self.attached = files;
        self.story.note(Tone::Dim, &text)
    }
}
