//! Reasoning that a model writes into its answer, between tags such as `<think>` and `</think>`.
//!
//! Servers that know a model's tags take them out; the others send them as they come. Only tags at
//! the very start of an answer count: in the middle of one they are what is being talked about.

/// What opens reasoning, and what closes it.
const TAGS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
];

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Of what is said.
    Text(String),
    /// Of what was thought before.
    Reasoning(String),
}

/// Takes an answer apart while it arrives.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    place: Place,
    /// What may be the beginning of a tag.
    held: String,
    /// Whether a tag was taken out, so that the blanks behind it are no part of the answer.
    took_tag: bool,
    /// The reasoning since a tag closed inside of it; see [`Splitter::finish`].
    since_inner: Option<String>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    /// Nothing was said yet.
    #[default]
    Start,
    /// Inside of so many tags.
    Thinking {
        open: &'static str,
        close: &'static str,
        depth: usize,
        /// Whether only blanks came so far.
        blank: bool,
    },
    /// Behind the first word.
    Answer,
}

impl Splitter {
    /// Takes the next words and returns what they are.
    pub(super) fn push(&mut self, words: &str) -> Vec<Piece> {
        self.held.push_str(words);
        let mut pieces = Vec::new();
        while self.step(&mut pieces) {}
        pieces
    }

    /// Takes the end. The second value is reasoning that was given out and is the answer: where a
    /// tag opened inside of reasoning and closed but once, the one that closed was the last.
    pub(super) fn finish(&mut self) -> (Vec<Piece>, Option<String>) {
        let held = std::mem::take(&mut self.held);
        let pieces = match self.place {
            _ if held.is_empty() => Vec::new(),
            Place::Thinking { .. } => {
                if let Some(since) = &mut self.since_inner {
                    since.push_str(&held);
                }
                vec![Piece::Reasoning(held)]
            }
            Place::Start | Place::Answer => vec![Piece::Text(held)],
        };
        let was_answer = match self.place {
            Place::Thinking { .. } => self.since_inner.take(),
            Place::Start | Place::Answer => None,
        };
        (pieces, was_answer.filter(|text| !text.trim().is_empty()))
    }

    /// Makes one piece out of what is held; false where more must come first.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        if self.held.is_empty() {
            return false;
        }
        match self.place {
            Place::Start => self.begin(),
            Place::Thinking { .. } => self.think(pieces),
            Place::Answer => {
                pieces.push(Piece::Text(std::mem::take(&mut self.held)));
                false
            }
        }
    }

    fn begin(&mut self) -> bool {
        let trimmed = self.held.trim_start();
        let opened = TAGS
            .iter()
            .find_map(|(open, close)| Some((*open, *close, trimmed.strip_prefix(open)?)));
        if let Some((open, close, rest)) = opened {
            self.place = Place::Thinking {
                open,
                close,
                depth: 1,
                blank: true,
            };
            self.held = rest.to_owned();
            self.took_tag = true;
            return true;
        }
        // Left over by a server that took the rest of the reasoning out.
        if let Some(rest) = TAGS
            .iter()
            .find_map(|(_, close)| trimmed.strip_prefix(close))
        {
            self.held = rest.to_owned();
            self.took_tag = true;
            return true;
        }
        let may_be_tag = TAGS
            .iter()
            .any(|(open, close)| open.starts_with(trimmed) || close.starts_with(trimmed));
        if may_be_tag {
            return false;
        }
        if self.took_tag {
            self.held = trimmed.to_owned();
        }
        self.place = Place::Answer;
        true
    }

    fn think(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let Place::Thinking {
            open,
            close,
            depth,
            blank,
        } = self.place
        else {
            return false;
        };
        let opens = self.held.find(open);
        let closes = self.held.find(close);
        let (until, depth, more) = match (opens, closes) {
            (Some(opens), closes) if closes.is_none_or(|closes| opens < closes) => {
                (opens + open.len(), depth + 1, true)
            }
            (_, Some(closes)) if depth > 1 => (closes + close.len(), depth - 1, true),
            (_, Some(closes)) => (closes, 0, true),
            (_, None) => (
                self.held.len() - overlap(&self.held, &[open, close]),
                depth,
                false,
            ),
        };
        let rest = self.held.split_off(until);
        let words = std::mem::replace(&mut self.held, rest);
        let words = if blank { words.trim_start() } else { &words };
        if !words.is_empty() {
            pieces.push(Piece::Reasoning(words.to_owned()));
            if let Some(since) = &mut self.since_inner {
                since.push_str(words);
            }
        }
        if words.ends_with(close) {
            self.since_inner = Some(String::new());
        }
        let blank = blank && words.is_empty();
        self.place = Place::Thinking {
            open,
            close,
            depth,
            blank,
        };
        if depth == 0 {
            self.held = self.held.split_off(close.len().min(self.held.len()));
            self.place = Place::Start;
            self.since_inner = None;
        }
        more
    }
}

/// How many bytes at the end of `text` are the beginning of one of `tags`.
fn overlap(text: &str, tags: &[&str]) -> usize {
    let longest = tags.iter().map(|tag| tag.len()).max().unwrap_or(0);
    (1..longest.min(text.len() + 1))
        .rev()
        .find(|length| {
            let end = text
                .len()
                .checked_sub(*length)
                .and_then(|at| text.get(at..));
            end.is_some_and(|end| tags.iter().any(|tag| tag.starts_with(end)))
        })
        .unwrap_or(0)
}

/// Reasoning and answer of a text in which a tag closes that was never opened: some chat templates
/// put the opening one into the prompt. Only a tag at the end of its line counts, outside of code.
pub(super) fn split_unopened(text: &str) -> Option<(&str, &str)> {
    TAGS.iter().find_map(|(open, close)| {
        let (before, after) = text.split_once(close)?;
        let ends_line = after
            .trim_start_matches([' ', '\t', '\r'])
            .starts_with('\n');
        let is_in_code = before.matches('`').count() % 2 == 1;
        let fits = ends_line && !is_in_code && !before.contains(open);
        (fits && !before.trim().is_empty() && !after.trim().is_empty())
            .then(|| (before.trim(), after.trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reasoning and answer of a text that came in these pieces.
    fn split<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut splitter = Splitter::default();
        let (mut reasoning, mut answer) = (String::new(), String::new());
        let mut add = |pieces: Vec<Piece>| {
            for piece in pieces {
                match piece {
                    Piece::Text(text) => answer.push_str(&text),
                    Piece::Reasoning(text) => reasoning.push_str(&text),
                }
            }
        };
        for piece in pieces {
            add(splitter.push(piece));
        }
        let (rest, was_answer) = splitter.finish();
        add(rest);
        if let Some(was_answer) = was_answer {
            reasoning.truncate(reasoning.len() - was_answer.len());
            answer.push_str(was_answer.trim_start());
        }
        (reasoning, answer)
    }

    #[test]
    fn tags_at_the_start_are_reasoning_and_later_ones_are_not() {
        for (text, reasoning, answer) in [
            ("<think>hm</think>yes", "hm", "yes"),
            ("\n<think>\nhm\n</think>\n\nyes\n", "hm\n", "yes\n"),
            ("<thinking>hm</thinking> yes", "hm", "yes"),
            ("[THINK]hm[/THINK]yes", "hm", "yes"),
            ("◁think▷hm◁/think▷yes", "hm", "yes"),
            ("<think>\n\n</think>\n\nyes", "", "yes"),
            ("<think>a</think>\n<think>b</think>yes", "ab", "yes"),
            ("<think>hm", "hm", ""),
            ("<think>hm</thi", "hm</thi", ""),
            (
                "<think>a<think>b</think>c</think>yes",
                "a<think>b</think>c",
                "yes",
            ),
            // A tag that is merely mentioned in reasoning does not swallow the answer.
            (
                "<think>no <think> here</think>\nyes",
                "no <think> here</think>",
                "yes",
            ),
            ("</think>\n\nyes", "", "yes"),
            (
                "use <think>x</think> for it",
                "",
                "use <think>x</think> for it",
            ),
            ("<thin", "", "<thin"),
            ("  two blanks", "", "  two blanks"),
            ("<b>bold</b>", "", "<b>bold</b>"),
            ("", "", ""),
        ] {
            let expected = (reasoning.to_owned(), answer.to_owned());
            assert_eq!(split([text]), expected, "{text}");
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters = letters.iter().map(String::as_str);
            assert_eq!(split(letters), expected, "{text}, letter by letter");
        }
    }

    #[test]
    fn a_tag_that_was_opened_in_the_prompt_still_closes() {
        assert_eq!(split_unopened("hm\n</think>\n\nyes"), Some(("hm", "yes")));
        for text in [
            "write `</think>\n` to close",
            "the tag </think> closes it",
            "open <think> and close </think>\nthen",
            "hm</think>\n",
            "no tag",
        ] {
            assert_eq!(split_unopened(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn cuts_change_nothing_and_no_letter_is_lost(
            text in "(<think>|</think>|<th|[a-c<> \n]|é){0,20}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let letters: Vec<char> = text.chars().collect();
            let mut places: Vec<usize> =
                cuts.iter().map(|cut| cut.index(letters.len() + 1)).collect();
            places.extend([0, letters.len()]);
            places.sort_unstable();
            let pieces: Vec<String> =
                places.windows(2).map(|pair| letters[pair[0]..pair[1]].iter().collect()).collect();
            let whole = split([text.as_str()]);
            prop_assert_eq!(&split(pieces.iter().map(String::as_str)), &whole);
            let count = |text: &str| text.chars().filter(|letter| "abcé".contains(*letter)).count();
            let inside = count(&text.replace("<think>", "").replace("</think>", ""));
            prop_assert_eq!(
                count(&whole.0.replace("<think>", "").replace("</think>", ""))
                    + count(&whole.1.replace("<think>", "").replace("</think>", "")),
                inside
            );
        }
    }
}
