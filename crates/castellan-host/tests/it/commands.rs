//! What `castellan_core::command` reads, held against what bash does with the same text.
//!
//! Texts are put together at random out of pieces that shells stumble over. Bash runs each with no
//! program to be found, so that all it does is to say what it would have run.

use std::path::Path;

use castellan_core::command::{Part, Word, split};

use crate::world::{job, run};

/// Runs every text of the file `texts` for itself and writes to `log`, NUL-separated: `#` and the
/// number of the text, then for each command `!`, the number of its words, and the words.
const DRIVER: &str = r#"
command_not_found_handle() {
    { printf '%s\0' '!' "$ID" "$#" "$@"; } >>"$LOG"
    return 1
}
export -f command_not_found_handle
export FUNCNEST=3 LOG="$PWD/log" ID=0 PATH=/nonexistent HOME="$PWD/home"
cd work
while IFS= read -r -d '' text; do
    ID=$((ID + 1))
    "$BASH" -c "$text" </dev/null >/dev/null 2>&1
done <../texts
"#;

/// A generator of numbers, so that a failure can be told by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % u64::try_from(sides).unwrap()).unwrap()
    }

    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        let number = 1 + self.roll(most);
        (0..number)
            .map(|_| pieces[self.roll(pieces.len())])
            .collect()
    }
}

/// What bash would have run of each text.
async fn commands_run(texts: &[String]) -> Vec<Vec<Vec<String>>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["work", "home"] {
        std::fs::create_dir(path.join(name)).unwrap();
    }
    std::fs::write(path.join("texts"), texts.join("\0") + "\0").unwrap();
    let mut driver = job(DRIVER);
    driver.cwd = path.to_owned();
    driver.timeout = std::time::Duration::from_secs(600);
    let ran = run(driver).await;
    assert!(!ran.report.timed_out, "{}", ran.text);
    read_log(&path.join("log"), texts.len())
}

fn read_log(path: &Path, number: usize) -> Vec<Vec<Vec<String>>> {
    let log = std::fs::read(path).unwrap_or_default();
    let mut fields = log.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut found = vec![Vec::new(); number];
    while fields.next().as_deref() == Some("!") {
        let mut count = || fields.next().unwrap().parse::<usize>().unwrap();
        let (id, words) = (count(), count());
        let words = (0..words)
            .map(|_| fields.next().unwrap().into_owned())
            .collect();
        found[id - 1].push(words);
    }
    found
}

/// Whether this part may have become this command.
fn may_be(part: &Part, command: &[String]) -> bool {
    let name = part.words.first().and_then(Word::literal);
    if name.is_some_and(|name| name != command[0]) {
        return false;
    }
    let literals: Option<Vec<&str>> = part.words.iter().map(Word::literal).collect();
    literals.is_none_or(|words| words == command)
}

fn check(texts: &[String], ran: &[Vec<Vec<String>>]) -> (usize, usize) {
    let (mut read, mut commands) = (0, 0);
    for (text, ran) in texts.iter().zip(ran) {
        let Ok(parts) = split(text) else {
            continue;
        };
        read += 1;
        let unwrapped: Vec<_> = parts.iter().map(Part::unwrapped).collect();
        if unwrapped.iter().any(|one| one.opaque.is_some()) {
            continue;
        }
        for command in ran {
            commands += 1;
            let mut all = unwrapped.iter().flat_map(|one| &one.parts);
            assert!(
                all.any(|part| may_be(part, command)),
                "bash runs {command:?} of {text:?}, which was read as {:?}",
                parts.iter().map(|part| &part.text).collect::<Vec<_>>()
            );
        }
    }
    (read, commands)
}

const SYNTAX: &[&str] = &[
    "a",
    "b",
    "a ",
    " b ",
    " ",
    " ",
    "\n",
    ";",
    " ; ",
    "&",
    " && ",
    "||",
    "|",
    "|&",
    "'",
    "\"",
    "\\",
    "$",
    "$(",
    ")",
    "(",
    "{",
    "}",
    " { ",
    "; }",
    "`",
    "<",
    ">",
    ">>",
    "&>",
    "#",
    " #",
    "=",
    "x=",
    "x=1 ",
    "[",
    "]",
    " [ ",
    " ] ",
    "[[ ",
    " ]]",
    "!",
    "! ",
    "~",
    "-",
    "*",
    "?",
    ",",
    "$x",
    "\"$x\"",
    "${x",
    "${x:-",
    "${x%",
    "${#x}",
    "$((",
    "))",
    "((",
    "if ",
    "; then ",
    "; fi",
    "for i in ",
    "; do ",
    "; done",
    "case a in ",
    "a) ",
    ";; ",
    "esac",
    "function f ",
    "f() ",
    "f",
    "<<<",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "\nE\n",
    "\n\tE\n",
    "<(",
    ">(",
    "$'",
    "$\"",
    "\\\n",
    "\t",
    "time ",
    "coproc ",
    "{a,b}",
    "echo ",
    "eval ",
    "2",
    "1>",
    "\r",
    "%",
    "/",
    "@",
    "+=",
    "$$",
    "=~ ",
    "== ",
    "é",
    "\u{a0}",
];

/// Longer pieces, most of them whole, so that more of what comes of them is a command.
const PHRASES: &[&str] = &[
    "a",
    "a b",
    "b 'x' ",
    " \"y $(a)\" ",
    "; ",
    " && ",
    " | ",
    "\n",
    " & ",
    " > f ",
    " 2>&1 ",
    "(a)",
    "{ b; }",
    "$(b)",
    "`a`",
    " # a\n",
    "#b",
    "x=1 ",
    "x=$(a) ",
    "[ a ] ",
    "[[ a ]] ",
    "[ -n a -a b ]",
    "[[ a && b ]]",
    "[[ $x =~ ^a|b$ ]]",
    "if a; then b; fi",
    "for i in a b; do b $i; done",
    "case a in a) b;; esac",
    "case x in (a|b) a ;; *) b; esac",
    "f() { a; }",
    "f() (b)",
    "f ",
    "cat <<E\n$(a)\nE\n",
    "<<'E'\n$(a)\nE\n",
    "<<E | b\nx\nE\n",
    "<<-E\n\ta\n\tE\n",
    "<<\"E\"\nb\nE\n",
    "<<E && a\nE\n",
    "<<< b ",
    "<(a) ",
    "${x:-$(b)}",
    "\"${x:-a}\"",
    "${x%%a}",
    "${x/a/b}",
    "${#x}",
    "$((1 + 2))",
    "((1))",
    "$'a\\'b'",
    "$\"a\"",
    "{a,b}",
    "{1..3}",
    "~/a ",
    "*",
    "!",
    " \\\n",
    "time ",
    "! ",
    "coproc ",
    "eval 'a; b'",
    "eval a",
    " -x ",
    "=~ ",
    "export x=a ",
    "\"",
    "'",
    "\\",
    ")",
    "}",
    "(",
    ";;",
    "\\\"",
    "\\'",
    "echo ",
    "for ((i=0;i<1;i++)); do a; done",
    "select",
    "function f { a; }",
    "${x[$(a)]}",
    "x[1]=b ",
    "x=(a $(b)) ",
    "&> f",
    ">| f",
    ">&2 ",
    "2>f a",
    "{ a; } > f",
    "(b) | a",
    "$((",
    "))",
    "$[",
    "a\\ b",
    "unset x",
    "declare -a x=(a)",
    "let x=1 ",
    "${!x}",
    "${x@Q}",
    "$$",
    "$?",
    "&& b",
    "|| a",
    "|& b",
    "then",
    "do",
    "in",
    "done",
];

const QUOTING: &[&str] = &[
    "a", "b", " ", " ", "'", "'", "\"", "\"", "\\", "\\\\", "$'", "\\n", "\\x41", "\\101", "\\'",
    "\\\"", "$", "#", "~", "=", "!", "*", "?", "[", "]", "{", "}", ",", "{a,b}", "..", "\\\n", "é",
    "-", "%", "^", "@", "\t", "/", "\\ ", "\\$x", "'x y'", "\"x y\"", "\"\\$\"", "\"'\"", "'\"'",
];

#[tokio::test]
async fn nothing_runs_that_was_not_read() {
    let mut dice = Dice(0x5eed);
    let texts: Vec<String> = (0..1000)
        .map(|index| {
            let pieces = if index % 4 == 0 { SYNTAX } else { PHRASES };
            dice.text(pieces, 6)
        })
        .collect();
    let ran = commands_run(&texts).await;
    let (read, commands) = check(&texts, &ran);
    // Most random texts are no commands at all; enough are.
    assert!(read > 100 && commands > 100, "{read} read, {commands} run");
}

#[tokio::test]
async fn literal_words_are_what_bash_hands_over() {
    let mut dice = Dice(0xb0a7);
    let texts: Vec<String> = (0..1000)
        .map(|_| format!("a {}", dice.text(QUOTING, 10)))
        .collect();
    let ran = commands_run(&texts).await;
    let (read, commands) = check(&texts, &ran);
    assert!(read > 200 && commands > 200, "{read} read, {commands} run");
    // Where all words are known, bash runs exactly that.
    let mut known = 0;
    for (text, ran) in texts.iter().zip(&ran) {
        let parts = split(text).unwrap_or_default();
        let [part] = parts.as_slice() else {
            continue;
        };
        let words: Option<Vec<String>> = part
            .words
            .iter()
            .map(|word| word.literal().map(str::to_owned))
            .collect();
        if let Some(words) = words {
            known += 1;
            assert_eq!(ran.as_slice(), [words], "{text:?}");
        }
    }
    assert!(known > 120, "{known}");
}
