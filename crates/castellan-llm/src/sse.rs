//! Server-sent events, as the WHATWG HTML standard reads them ("9.2 Server-sent events"), with two
//! departures: the last event counts even where the blank line after it is missing, because servers
//! close without it, and an event has a largest size.
//!
//! Bytes may come in any pieces, cut inside a line end or inside a character.

/// The most bytes one event may have, its field names included.
pub const EVENT_LIMIT: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The type of the event; empty where the server named none.
    pub name: String,
    /// The data, several lines joined by line feeds.
    pub data: String,
}

/// An event larger than [`EVENT_LIMIT`]. Nothing more can be made of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized;

/// Turns bytes into events.
///
/// `id` and `retry` serve only to resume a stream, which an answer of a model can't be; like unknown
/// fields they are passed over.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    /// The last line ended in a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// Past the first line, which may begin with a byte order mark.
    begun: bool,
    name: String,
    data: Option<String>,
}

impl SseDecoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events they complete.
    ///
    /// # Errors
    /// [`Oversized`] once the event being read has passed the limit.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, Oversized> {
        let mut events = Vec::new();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_LIMIT {
                return Err(Oversized);
            }
            bytes = match rest.split_first() {
                None => rest,
                Some((line_end, rest)) => {
                    self.after_return = *line_end == b'\r';
                    events.extend(self.end_line());
                    rest
                }
            };
        }
        Ok(events)
    }

    /// Takes the end of the stream and returns the event it leaves unfinished, if any.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let last = if self.line.is_empty() {
            None
        } else {
            self.end_line()
        };
        last.or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            return self.dispatch();
        }
        let text = String::from_utf8_lossy(bytes);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            "event" => value.clone_into(&mut self.name),
            // A comment (the empty field) or a field that means nothing here.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(decoder.push(piece).unwrap());
        }
        events.extend(decoder.finish());
        events
    }

    fn data(text: &str) -> Vec<String> {
        decode([text.as_bytes()])
            .into_iter()
            .map(|event| event.data)
            .collect()
    }

    #[test]
    fn any_line_end_ends_a_line() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("data: a{end}data: b{end}{end}data: c{end}{end}");
            assert_eq!(data(&text), ["a\nb", "c"], "{end:?}");
        }
    }

    #[test]
    fn a_blank_after_the_colon_is_optional_and_only_one_is_taken() {
        assert_eq!(data("data:a\n\ndata:  b\n\n"), ["a", " b"]);
    }

    #[test]
    fn comments_unknown_fields_and_lines_without_a_colon_are_passed_over() {
        assert_eq!(
            data(": ping\n\n:\nfoo: bar\nid\nretry: 5\ndata: a\nwhat\n\n"),
            ["a"]
        );
        assert_eq!(data("data\n\n"), [""]);
        assert_eq!(data("event: x\n\n"), [""; 0]);
    }

    #[test]
    fn a_byte_order_mark_is_taken_off_once() {
        assert_eq!(
            data("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c"),
            ["a", "c"]
        );
    }

    #[test]
    fn the_last_event_counts_without_its_blank_line_or_line_end() {
        assert_eq!(data("data: a\n\ndata: b\n"), ["a", "b"]);
        assert_eq!(data("data: a\n\ndata: b"), ["a", "b"]);
        assert_eq!(data("data: a\n\n\n\n"), ["a"]);
    }

    #[test]
    fn an_event_has_the_name_it_was_given_and_the_next_has_none() {
        let events = decode([&b"event: error\ndata: a\n\ndata: b\n\n"[..]]);
        assert_eq!(
            (events[0].name.as_str(), events[1].name.as_str()),
            ("error", "")
        );
    }

    #[test]
    fn an_event_without_end_is_refused_at_the_limit() {
        let mut decoder = SseDecoder::new();
        let line = [b"data: ".as_slice(), &vec![b'x'; EVENT_LIMIT / 2], b"\n"].concat();
        assert_eq!(decoder.push(&line), Ok(Vec::new()));
        assert_eq!(decoder.push(&line), Err(Oversized));
        assert_eq!(
            SseDecoder::new().push(&vec![b'x'; EVENT_LIMIT + 1]),
            Err(Oversized)
        );
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            text in "(data|event|id|:|x|: ?|é|中|\u{feff}|\r|\n|\r\n|\n\n|[a-z{}\"]){0,60}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let whole = decode([bytes]);
            prop_assert_eq!(&decode(pieces), &whole);
            prop_assert_eq!(&decode(bytes.chunks(1)), &whole);
        }

        #[test]
        fn data_of_any_lines_comes_back(
            events in proptest::collection::vec("[^\r\n]{1,20}(\n[^\r\n]{0,20}){0,3}", 0..6),
        ) {
            let wire: String = events
                .iter()
                .map(|event| {
                    let lines: String =
                        event.split('\n').map(|line| format!("data: {line}\n")).collect();
                    lines + "\n"
                })
                .collect();
            prop_assert_eq!(data(&wire), events);
        }
    }
}
