//! A word of a command: text that is known, and places where the shell fills something in.

/// A stretch of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text as the command gets it: quotes and escapes resolved.
    Text(String),
    /// An unquoted `*`, `?` or `[`: file names are put in.
    Pattern(char),
    /// An unquoted `{`, `,` or `}` of a brace expansion.
    Brace(char),
    /// `~` or `~user` at the beginning; the user's name.
    Tilde(String),
    /// The value of a variable.
    Variable {
        /// Its name.
        name: String,
        /// Inside double quotes: its value is not split into words.
        quoted: bool,
    },
    /// What follows from variables or from words, for who follows those; to everybody else it is
    /// not known.
    Filled {
        /// From what.
        with: Filling,
        /// Inside double quotes: it is not split into words.
        quoted: bool,
    },
    /// What only running it would tell.
    Unknown {
        /// Inside double quotes: it is not split into words.
        quoted: bool,
    },
}

/// What the shell fills in that may be worked out before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filling {
    /// What stands between `${` and `}`, or behind `$`, where it is more than a variable's name.
    Expansion(String),
    /// The words of an `echo` or `printf` that is all there is in a substitution, its name first.
    Output(Vec<Word>),
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    raw: String,
    pieces: Vec<Piece>,
    literal: Option<String>,
}

impl Word {
    /// A word that is exactly this text.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            raw: text.clone(),
            pieces: vec![Piece::Text(text.clone())],
            literal: Some(text),
        }
    }

    /// A word nothing is known of.
    pub(crate) fn unknown(raw: impl Into<String>) -> Self {
        Self {
            raw: raw.into(),
            pieces: vec![Piece::Unknown { quoted: false }],
            literal: None,
        }
    }

    /// A word of these pieces. Braces that expand to nothing become text.
    pub(crate) fn of(raw: impl Into<String>, pieces: Vec<Piece>) -> Self {
        let braces = pieces.iter().any(|piece| matches!(piece, Piece::Brace(_)));
        let pieces = if braces && group(&pieces).is_none() {
            pieces
                .into_iter()
                .map(|piece| match piece {
                    Piece::Brace(letter) => Piece::Text(letter.to_string()),
                    other => other,
                })
                .collect()
        } else {
            pieces
        };
        // `[` without its `]` is an ordinary letter.
        let closed = pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Text(text) if text.contains(']')));
        let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let piece = match piece {
                Piece::Pattern('[') if !closed => Piece::Text("[".to_owned()),
                other => other,
            };
            match (joined.last_mut(), piece) {
                (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
                (_, piece) => joined.push(piece),
            }
        }
        let literal = match joined.as_slice() {
            [] => Some(String::new()),
            [Piece::Text(text)] => Some(text.clone()),
            _ => None,
        };
        Self {
            raw: raw.into(),
            pieces: joined,
            literal,
        }
    }

    /// The word as the command gets it, where that is known before it runs.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        self.literal.as_deref()
    }

    /// How it begins, as far as that is known.
    #[must_use]
    pub fn head(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// As it was written.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Its stretches, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether it is certainly one word and no option: it begins with known text that is not a
    /// dash, and nothing in it can be split.
    pub(crate) fn is_operand(&self) -> bool {
        let head = self.head();
        if self.literal.is_some() {
            return !head.starts_with('-');
        }
        !head.is_empty()
            && !head.starts_with('-')
            && self.pieces.iter().all(|piece| match piece {
                Piece::Text(_) | Piece::Pattern(_) | Piece::Tilde(_) => true,
                Piece::Variable { quoted, .. }
                | Piece::Filled { quoted, .. }
                | Piece::Unknown { quoted } => *quoted,
                Piece::Brace(_) => false,
            })
    }

    /// Whether its known text holds code that bash would run where it evaluates the text as
    /// arithmetic or as the name of a variable: `a[$(…)]`.
    pub(crate) fn hides_code(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => text.contains('[') && (text.contains("$(") || text.contains('`')),
            _ => false,
        })
    }

    /// `NAME=value` as it stands among arguments: the name, whether the value is added to what is
    /// there (`+=`), and the value.
    pub(crate) fn as_assignment(&self) -> Option<(&str, bool, Self)> {
        let (Piece::Text(head), behind) = self.pieces.split_first()? else {
            return None;
        };
        let (name, value) = head.split_once('=')?;
        let raw = self.raw.split_once('=').map_or("", |(_, value)| value);
        let mut pieces = vec![Piece::Text(value.to_owned())];
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        pieces.extend(behind.iter().cloned());
        let (name, appends) = name
            .strip_suffix('+')
            .map_or((name, false), |name| (name, true));
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        super::quote::is_name(name).then(|| (name, appends, Self::of(raw, pieces)))
    }

    /// The words that brace expansion makes of it, at most `limit`; itself where it has no braces.
    pub(crate) fn alternatives(&self, limit: usize) -> Vec<Self> {
        let mut open = vec![self.pieces.clone()];
        let mut done = Vec::new();
        while let Some(pieces) = open.pop() {
            if done.len() + open.len() >= limit {
                done.push(Self::of(self.raw.clone(), without_braces(pieces)));
                continue;
            }
            match group(&pieces) {
                None => done.push(Self::of(self.raw.clone(), pieces)),
                Some(group) => {
                    // Last first, because the stack turns the order round.
                    for inner in group.choices(&pieces).into_iter().rev() {
                        let mut whole = pieces.get(..group.start).unwrap_or_default().to_vec();
                        whole.extend(inner);
                        whole.extend(pieces.get(group.end + 1..).unwrap_or_default().to_vec());
                        open.push(whole);
                    }
                }
            }
        }
        done
    }
}

/// The places of one brace group.
struct Group {
    start: usize,
    end: usize,
    commas: Vec<usize>,
}

impl Group {
    fn choices(&self, pieces: &[Piece]) -> Vec<Vec<Piece>> {
        if self.commas.is_empty() {
            // A sequence such as `{1..3}`.
            return vec![vec![Piece::Unknown { quoted: true }]];
        }
        let mut edges = vec![self.start];
        edges.extend(&self.commas);
        edges.push(self.end);
        edges
            .windows(2)
            .map(|pair| match pair {
                [from, to] => pieces.get(from + 1..*to).unwrap_or_default().to_vec(),
                _ => Vec::new(),
            })
            .collect()
    }
}

fn without_braces(pieces: Vec<Piece>) -> Vec<Piece> {
    pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Brace(_) => Piece::Unknown { quoted: true },
            other => other,
        })
        .collect()
}

/// The first brace group that expands.
fn group(pieces: &[Piece]) -> Option<Group> {
    let mut stack: Vec<Group> = Vec::new();
    let mut found: Option<Group> = None;
    for (place, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Brace('{') => stack.push(Group {
                start: place,
                end: place,
                commas: Vec::new(),
            }),
            Piece::Brace(',') => {
                if let Some(group) = stack.last_mut() {
                    group.commas.push(place);
                }
            }
            Piece::Brace(_) => {
                let Some(mut group) = stack.pop() else {
                    continue;
                };
                group.end = place;
                let inside = pieces.get(group.start + 1..place).unwrap_or_default();
                let sequence = inside
                    .iter()
                    .any(|piece| matches!(piece, Piece::Text(text) if text.contains("..")));
                let earlier = found.as_ref().is_none_or(|found| group.start < found.start);
                if earlier && (sequence || !group.commas.is_empty()) {
                    found = Some(group);
                }
            }
            _ => {}
        }
    }
    found
}
