//! The line above the prompt: which model, how full its context is, what holds commands back, where.

use std::path::{Path, PathBuf};

use super::safe::readable;
use super::style::{Row, Span, Tone, columns, span};

/// What the line tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The model's name at its server; `None` while it is looked for.
    pub(crate) model: Option<String>,
    /// Tokens of the last request.
    pub(crate) used: Option<u64>,
    /// Tokens the model takes.
    pub(crate) window: Option<u64>,
    /// What holds commands back; empty until that is known.
    pub(crate) sandbox: String,
    /// The working folder.
    pub(crate) folder: PathBuf,
    /// The person's home folder.
    pub(crate) home: Option<PathBuf>,
    /// The session's id; `None` until one is stored.
    pub(crate) session: Option<String>,
    /// Messages that wait for their turn.
    pub(crate) queued: usize,
}

/// A part of the line, and how gladly it is given up where there is no room: the highest first.
struct Part {
    gives_way: u8,
    span: Span,
}

impl Status {
    /// The line in at most `width` columns. What gives way first is the session, then the folder.
    pub(crate) fn row(&self, width: usize) -> Row {
        let mut parts = self.parts();
        while joined(&parts).width() > width && parts.len() > 1 {
            let first = parts
                .iter()
                .enumerate()
                .max_by_key(|(_, part)| part.gives_way);
            let Some((place, _)) = first else { break };
            parts.remove(place);
        }
        joined(&parts).cut(width)
    }

    fn parts(&self) -> Vec<Part> {
        let part = |gives_way, tone, text: String| Part {
            gives_way,
            span: span(tone, readable(&text)),
        };
        let mut parts = vec![part(
            0,
            Tone::Accent,
            self.model
                .clone()
                .unwrap_or_else(|| "no model yet".to_owned()),
        )];
        if self.queued > 0 {
            parts.push(part(1, Tone::Warn, format!("{} queued", self.queued)));
        }
        parts.extend(self.context().map(|(tone, text)| part(2, tone, text)));
        let tone = if self.sandbox == "none" {
            Tone::Warn
        } else {
            Tone::Dim
        };
        if !self.sandbox.is_empty() {
            parts.push(part(3, tone, format!("sandbox {}", self.sandbox)));
        }
        let place = folder(&self.folder, self.home.as_deref());
        parts.push(part(4, Tone::Dim, place));
        let session = self.session.as_deref().map_or("new session", short);
        parts.push(part(5, Tone::Dim, session.to_owned()));
        parts
    }

    fn context(&self) -> Option<(Tone, String)> {
        let used = self.used?;
        match self.window.filter(|window| *window > 0) {
            Some(window) => {
                let share = used.saturating_mul(100) / window;
                let tone = if share >= 80 { Tone::Warn } else { Tone::Dim };
                Some((tone, format!("context {share}%")))
            }
            None => Some((Tone::Dim, format!("context {}", tokens(used)))),
        }
    }
}

fn joined(parts: &[Part]) -> Row {
    let mut spans = Vec::new();
    for part in parts {
        if !spans.is_empty() {
            spans.push(span(Tone::Dim, " · "));
        }
        spans.push(part.span.clone());
    }
    Row(spans)
}

/// A number of tokens in few letters.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// As much of a session's id as tells it from others: ids begin with the time, so their beginnings
/// are alike for a while.
pub(crate) fn short(id: &str) -> &str {
    let shown = id.char_indices().nth(15).map_or(id.len(), |(at, _)| at);
    id.split_at(shown).0
}

/// A folder as people write it, the home folder as `~`; only its end where it is long.
fn folder(path: &Path, home: Option<&Path>) -> String {
    let text = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    match path.file_name() {
        Some(name) if columns(&text) > 32 => format!("…/{}", name.to_string_lossy()),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repl::style::Looks;

    fn status() -> Status {
        Status {
            model: Some("qwen3-coder".into()),
            used: Some(4_096),
            window: Some(32_768),
            sandbox: "none".into(),
            folder: "/home/me/src/castellan".into(),
            home: Some("/home/me".into()),
            session: Some("ws_0195f3c2aa7b7c0d8e9f".into()),
            queued: 2,
        }
    }

    #[test]
    fn what_matters_least_gives_way_first() {
        let row = |width| status().row(width).paint(Looks::Bare);
        assert_eq!(
            row(100),
            "qwen3-coder · 2 queued · context 12% · sandbox none · ~/src/castellan · ws_0195f3c2aa7b"
        );
        assert_eq!(
            row(70),
            "qwen3-coder · 2 queued · context 12% · sandbox none · ~/src/castellan"
        );
        assert_eq!(row(40), "qwen3-coder · 2 queued · context 12%");
        assert_eq!(row(6), "qwen3…");
        for width in 0..100 {
            assert!(status().row(width).width() <= width);
        }
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let status = Status {
            sandbox: "landlock".into(),
            folder: "/".into(),
            ..Status::default()
        };
        assert_eq!(
            status.row(80).paint(Looks::Bare),
            "no model yet · sandbox landlock · / · new session"
        );
    }

    #[test]
    fn folders_are_short() {
        let home = Path::new("/home/me");
        assert_eq!(folder(Path::new("/home/me/x"), Some(home)), "~/x");
        assert_eq!(folder(home, Some(home)), "~");
        assert_eq!(
            folder(Path::new("/srv/a/very/long/way/to/the/project"), Some(home)),
            "…/project"
        );
        assert_eq!(
            (tokens(999), tokens(12_345), tokens(3_400_000)),
            ("999".into(), "12.3k".into(), "3.4M".into())
        );
    }
}
