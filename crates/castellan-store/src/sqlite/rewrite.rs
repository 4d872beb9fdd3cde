//! `$1` as SQLite spells it.
//!
//! SQLite knows `$1` too, but as a *name*, numbered by where it first appears: in
//! `SET b = $2 WHERE a = $1` the parameters would change places. `?1` is the number itself.

/// `sql` with every `$n` outside of quotes and comments turned into `?n`.
pub(super) fn rewrite(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut inside = Inside::Code;
    let mut letters = sql.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        inside = match inside {
            Inside::Code => match (letter, next) {
                ('\'' | '"', _) => Inside::Quotes(letter),
                ('-', Some('-')) => Inside::Line,
                ('/', Some('*')) => Inside::Block,
                _ => Inside::Code,
            },
            Inside::Quotes(quote) if letter == quote => Inside::Code,
            Inside::Line if letter == '\n' => Inside::Code,
            Inside::Block if before == '*' && letter == '/' => Inside::Code,
            Inside::Quotes(_) | Inside::Line | Inside::Block => inside,
        };
        let parameter = letter == '$'
            && matches!(inside, Inside::Code)
            && next.is_some_and(|next| next.is_ascii_digit())
            && !(before.is_alphanumeric() || before == '_');
        out.push(if parameter { '?' } else { letter });
        before = letter;
    }
    out
}

#[derive(Debug, Clone, Copy)]
enum Inside {
    Code,
    Quotes(char),
    Line,
    Block,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_and_text_is_left_alone() {
        assert_eq!(
            rewrite("UPDATE t SET b = $2, c = '$2' -- $2\n WHERE \"$1\" = $1 /* $3 */ OR d=$12"),
            "UPDATE t SET b = ?2, c = '$2' -- $2\n WHERE \"$1\" = ?1 /* $3 */ OR d=?12"
        );
        assert_eq!(rewrite("SELECT 'it''s $1', $1"), "SELECT 'it''s $1', ?1");
        assert_eq!(rewrite("SELECT a$1, $x, $"), "SELECT a$1, $x, $");
    }
}
