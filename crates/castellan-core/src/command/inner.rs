//! Looking through commands that run other commands.

use super::read::read;
use super::{Assignment, LEVELS, MOST_PARTS, Part, Redirection, SetBy, Word};

/// How many wrappers are looked through, one inside another.
const MOST_WRAPPERS: usize = 16;

/// A part and what it runs in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwrapped {
    /// The part itself, then the commands it would run, outermost first.
    pub parts: Vec<Part>,
    /// Where it runs something that can't be said before it runs.
    pub opaque: Option<Opaque>,
}

/// Something that can't be seen through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{command}`: {reason}")]
pub struct Opaque {
    /// The command that hides what it runs.
    pub command: String,
    /// Why it can't be seen.
    pub reason: &'static str,
}

/// How a wrapper's own arguments end and its command begins.
struct Wrapper {
    names: &'static [&'static str],
    /// Letters of short options that take a value.
    valued: &'static str,
    /// Long options that take a value as the next word.
    long: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
    /// Whether `NAME=value` may stand before the command.
    assigns: bool,
    /// Options with which it runs no command.
    idle: &'static [&'static str],
}

const fn wrapper(names: &'static [&'static str], valued: &'static str) -> Wrapper {
    Wrapper {
        names,
        valued,
        long: &[],
        operands: 0,
        assigns: false,
        idle: &[],
    }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        long: &[
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--chroot",
            "--chdir",
            "--role",
            "--type",
            "--close-from",
            "--command-timeout",
            "--other-user",
        ],
        assigns: true,
        idle: &[
            "-l",
            "-v",
            "-k",
            "-K",
            "--list",
            "--validate",
            "--version",
            "--help",
        ],
        ..wrapper(&["sudo"], "CDghpRrTtUu")
    },
    Wrapper {
        idle: &["-L"],
        ..wrapper(&["doas"], "Cu")
    },
    Wrapper {
        long: &["--unset", "--chdir", "--argv0"],
        assigns: true,
        ..wrapper(&["env"], "uCa")
    },
    Wrapper {
        long: &["--adjustment"],
        ..wrapper(&["nice"], "n")
    },
    Wrapper {
        long: &["--class", "--classdata"],
        idle: &["-p", "-P", "-u", "--pid"],
        ..wrapper(&["ionice"], "cn")
    },
    wrapper(
        &["nohup", "setsid", "busybox", "toybox", "pkexec", "unbuffer"],
        "",
    ),
    Wrapper {
        long: &["--signal", "--kill-after"],
        operands: 1,
        ..wrapper(&["timeout"], "sk")
    },
    Wrapper {
        long: &["--input", "--output", "--error"],
        ..wrapper(&["stdbuf"], "ioe")
    },
    Wrapper {
        long: &["--format", "--output"],
        assigns: true,
        ..wrapper(&["time"], "fo")
    },
    Wrapper {
        assigns: true,
        ..wrapper(&["coproc"], "")
    },
    Wrapper {
        idle: &["-v", "-V"],
        ..wrapper(&["command"], "")
    },
    wrapper(&["builtin"], ""),
    wrapper(&["exec"], "a"),
    Wrapper {
        long: &[
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
            "--max-chars",
            "--process-slot-var",
        ],
        ..wrapper(&["xargs"], "aEdILnPs")
    },
    Wrapper {
        operands: 1,
        long: &["--userspec", "--groups"],
        ..wrapper(&["chroot"], "gGu")
    },
    Wrapper {
        long: &["--interval"],
        ..wrapper(&["watch"], "n")
    },
    Wrapper {
        long: &["--wait", "--timeout", "--conflict-exit-code"],
        operands: 1,
        ..wrapper(&["flock"], "wE")
    },
    Wrapper {
        operands: 1,
        idle: &["-p", "--pid"],
        ..wrapper(&["taskset"], "")
    },
    Wrapper {
        operands: 1,
        idle: &["-p", "--pid"],
        ..wrapper(&["chrt"], "TPD")
    },
    wrapper(&["strace", "ltrace"], "abeEIoOPpsSuUX"),
    wrapper(&["unshare"], "GRSw"),
    Wrapper {
        long: &[
            "--unit",
            "--property",
            "--description",
            "--slice",
            "--uid",
            "--gid",
            "--setenv",
        ],
        ..wrapper(&["systemd-run"], "HMpuE")
    },
];

const SHELLS: &[&str] = &["bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];

/// What a wrapper runs.
enum Runs {
    /// It is no wrapper, or runs nothing.
    Nothing,
    /// These commands.
    Parts(Vec<Part>),
    /// Something that is not known.
    Hidden(&'static str),
}

/// Whether commands of this name run other commands.
pub(super) fn is_wrapper(name: &str) -> bool {
    name == "find" || WRAPPERS.iter().any(|one| one.names.contains(&name))
}

pub(super) fn unwrap(part: &Part) -> Unwrapped {
    let mut result = Unwrapped {
        parts: Vec::new(),
        opaque: None,
    };
    let mut open = vec![(part.clone(), 0)];
    while let Some((part, level)) = open.pop() {
        let runs = if level > MOST_WRAPPERS || result.parts.len() > MOST_PARTS {
            Runs::Hidden("too many commands inside one another")
        } else {
            runs(&part, level)
        };
        match runs {
            Runs::Nothing => {}
            Runs::Parts(parts) => {
                open.extend(parts.into_iter().rev().map(|inner| (inner, level + 1)));
            }
            Runs::Hidden(reason) => {
                let command = part.text.clone();
                result.opaque.get_or_insert(Opaque { command, reason });
            }
        }
        result.parts.push(part);
    }
    result
}

fn runs(part: &Part, level: usize) -> Runs {
    let Some(first) = part.words.first() else {
        return Runs::Nothing;
    };
    if first.literal().is_none() {
        return Runs::Hidden("the command's name is not known before it runs");
    }
    let name = part.name().unwrap_or_default();
    if let Some(wrapper) = WRAPPERS.iter().find(|one| one.names.contains(&name)) {
        if matches!(name, "time" | "coproc") {
            return keyword(part, wrapper, (name, level));
        }
        return wrapped(part, wrapper, (name, level));
    }
    match name {
        "find" => find(part),
        "eval" => eval(part, level),
        "trap" => match part.words.get(1).map(Word::literal) {
            Some(Some(code)) if !code.starts_with('-') => parse(part, code, level),
            Some(None) => Runs::Hidden("the code it keeps is not known before it runs"),
            _ => Runs::Nothing,
        },
        "." | "source" => match part.words.get(1).map(Word::is_operand) {
            Some(false) => Runs::Hidden("the file it runs is not known before it runs"),
            _ => Runs::Nothing,
        },
        "su" | "runuser" | "script" => command_option(part, level),
        _ if SHELLS.contains(&name) => shell(part, level),
        _ => Runs::Nothing,
    }
}

/// `time` and `coproc` are words of the grammar: they know no options but `time -p`, and `!` may
/// follow. In a pipeline `time` is a program with options, so both readings are given.
fn keyword(part: &Part, wrapper: &Wrapper, (name, level): (&str, usize)) -> Runs {
    let skipped = |word: &&Word| match word.raw() {
        "!" => true,
        "-p" | "--" => name == "time",
        _ => false,
    };
    let first = 1 + part.words.iter().skip(1).take_while(skipped).count();
    let mut words = vec![Word::plain(name)];
    words.extend(part.words.get(first..).unwrap_or_default().iter().cloned());
    let mut bare = of_words(part, words);
    bare.redirections.clone_from(&part.redirections);
    let runs = wrapped(&bare, wrapper, (name, level));
    if !bare
        .words
        .get(1)
        .is_some_and(|word| word.head().starts_with('-'))
    {
        return runs;
    }
    let mut parts = vec![rest(&bare, 1)];
    match runs {
        Runs::Parts(more) => parts.extend(more),
        Runs::Nothing => {}
        Runs::Hidden(reason) => return Runs::Hidden(reason),
    }
    Runs::Parts(parts)
}

/// A part that runs the words of `part` from `from` on.
fn rest(part: &Part, from: usize) -> Part {
    of_words(part, part.words.get(from..).unwrap_or_default().to_vec())
}

fn of_words(part: &Part, words: Vec<Word>) -> Part {
    let text: Vec<&str> = words.iter().map(Word::raw).collect();
    Part {
        text: text.join(" "),
        words,
        assignments: Vec::new(),
        redirections: Vec::new(),
        substituted: part.substituted,
        flow: part.flow,
        scope: part.scope.clone(),
        function: part.function.clone(),
    }
}

fn wrapped(part: &Part, wrapper: &Wrapper, (name, level): (&str, usize)) -> Runs {
    let hidden = Runs::Hidden("where its command begins is not known before it runs");
    let mut index = 1;
    // `coproc` is a word of the shell's grammar and has no options.
    let mut options = name != "coproc";
    let mut operands = wrapper.operands;
    let mut assignments = Vec::new();
    while let Some(word) = part.words.get(index) {
        let Some(text) = word.literal() else {
            // The value of an operand such as a timeout may be anything that stays one word.
            let assigns = wrapper.assigns && super::quote::looks_like_assignment(word.head());
            if assigns {
                assignments.push(assignment(word));
            }
            if assigns || (operands > 0 && stays_one(word)) {
                operands -= usize::from(!assigns);
                index += 1;
                continue;
            }
            return hidden;
        };
        if options && text.starts_with('-') && text.len() > 1 {
            if wrapper.idle.contains(&text) {
                return Runs::Nothing;
            }
            if text == "--" {
                options = false;
            } else if name == "env" && (text.starts_with("-S") || text.starts_with("--split")) {
                return split_string(part, index);
            } else if takes_next(wrapper, text) {
                index += 1;
                if part.words.get(index).is_some_and(|value| !stays_one(value)) {
                    return hidden;
                }
            }
        } else if options && text == "-" && name == "env" {
        } else if wrapper.assigns && super::quote::looks_like_assignment(text) {
            assignments.push(assignment(word));
        } else if operands > 0 {
            operands -= 1;
            // Options of the wrapper end at its first operand.
            options = false;
        } else {
            return command(part, (name, level), index, assignments);
        }
        index += 1;
    }
    let shell = |word: &Word| matches!(word.literal(), Some("-s" | "-i" | "--shell" | "--login"));
    match name {
        "sudo" | "doas" if part.words.iter().any(shell) => Runs::Hidden("it runs what it reads"),
        _ => Runs::Nothing,
    }
}

/// `NAME=value` among the arguments of a wrapper.
fn assignment(word: &Word) -> Assignment {
    let (name, appends, value) = word.as_assignment().unwrap_or_else(|| {
        let name = word.head().split_once('=').map_or("", |(name, _)| name);
        (name, false, Word::unknown(word.raw()))
    });
    Assignment {
        name: name.to_owned(),
        value,
        appends,
        values: Vec::new(),
        by: SetBy::Assignment,
    }
}

/// The command of a wrapper, which begins at `index`.
fn command(
    part: &Part,
    (name, level): (&str, usize),
    index: usize,
    assignments: Vec<Assignment>,
) -> Runs {
    let mut inner = rest(part, index);
    inner.assignments = assignments;
    // A wrapper's input is its command's input.
    inner.redirections.clone_from(&part.redirections);
    match name {
        "xargs" => inner.words.push(Word::unknown("…")),
        // `watch` and `flock` hand one word to a shell.
        "watch" => {
            return match joined(&inner.words) {
                Some(code) => parse(part, &code, level),
                None => Runs::Hidden("the command it repeats is not known before it runs"),
            };
        }
        "flock" if inner.literal(0) == Some("-c") => {
            return inner.literal(1).map_or(
                Runs::Hidden("the code it runs is not known before it runs"),
                |code| parse(part, code, level),
            );
        }
        // `coproc NAME { …; }` and the like are no simple commands.
        "coproc" | "time" if inner.words.first().is_some_and(|word| word.raw() == "{") => {
            return Runs::Hidden("a group behind a keyword");
        }
        _ => {}
    }
    Runs::Parts(vec![inner])
}

/// Whether a word is certainly one word.
fn stays_one(word: &Word) -> bool {
    use super::Piece;
    word.pieces().iter().all(|piece| match piece {
        Piece::Text(_) | Piece::Tilde(_) => true,
        Piece::Pattern(_) | Piece::Brace(_) => false,
        Piece::Variable { quoted, .. }
        | Piece::Filled { quoted, .. }
        | Piece::Unknown { quoted } => *quoted,
    })
}

/// Whether the value of the option `text` is the next word.
fn takes_next(wrapper: &Wrapper, text: &str) -> bool {
    if text.starts_with("--") {
        return wrapper.long.contains(&text);
    }
    // In a cluster the first letter with a value takes what is left of the word, if anything is.
    let mut letters = text.chars().skip(1);
    letters
        .find(|letter| wrapper.valued.contains(*letter))
        .is_some()
        && letters.next().is_none()
}

/// `env -S 'cmd arg' more`.
fn split_string(part: &Part, index: usize) -> Runs {
    let text = part.literal(index).unwrap_or_default();
    let attached = text
        .strip_prefix("-S")
        .or_else(|| text.strip_prefix("--split-string="))
        .filter(|text| !text.is_empty());
    let (code, next) = match attached {
        Some(code) => (Some(code), index + 1),
        None => (part.literal(index + 1), index + 2),
    };
    let words = code.filter(|code| !code.contains(['\\', '$', '\'', '"']));
    let Some(words) = words else {
        return Runs::Hidden("the command it puts together is not known before it runs");
    };
    let mut all: Vec<Word> = vec![Word::plain("env")];
    all.extend(words.split_whitespace().map(Word::plain));
    all.extend(part.words.get(next..).unwrap_or_default().iter().cloned());
    Runs::Parts(vec![of_words(part, all)])
}

/// `find … -exec CMD … ;` and what else of `find` acts.
fn find(part: &Part) -> Runs {
    let mut parts = Vec::new();
    let mut index = 1;
    while let Some(word) = part.words.get(index) {
        index += 1;
        let Some(text) = word.literal() else {
            if word.is_operand() || matches!(word.pieces(), [super::Piece::Tilde(_), ..]) {
                continue;
            }
            return Runs::Hidden("it may hold actions that are not known before it runs");
        };
        match text {
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let from = index;
                let mut before = "";
                while let Some(word) = part.words.get(index) {
                    let text = word.literal().unwrap_or_default();
                    if text == ";" || (text == "+" && before == "{}") {
                        break;
                    }
                    before = text;
                    index += 1;
                }
                let words = part.words.get(from..index).unwrap_or_default().to_vec();
                parts.push(of_words(part, words));
                index += 1;
            }
            "-delete" => {
                let words = vec![Word::plain("rm"), Word::plain("{}")];
                parts.push(of_words(part, words));
            }
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                let mut write = of_words(part, Vec::new());
                write.text = part.text.clone();
                write.redirections.push(Redirection {
                    operator: ">".to_owned(),
                    target: part.words.get(index).cloned().unwrap_or(Word::plain("")),
                    writes: true,
                });
                parts.push(write);
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        Runs::Nothing
    } else {
        Runs::Parts(parts)
    }
}

fn joined(words: &[Word]) -> Option<String> {
    let words: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    words.map(|words| words.join(" "))
}

fn eval(part: &Part, level: usize) -> Runs {
    let from = if part.literal(1) == Some("--") { 2 } else { 1 };
    match joined(part.words.get(from..).unwrap_or_default()) {
        Some(code) => parse(part, &code, level),
        None => Runs::Hidden("the code it runs is not known before it runs"),
    }
}

/// `su -c CODE`, `script -c CODE`; `runuser -u USER -- CMD`.
fn command_option(part: &Part, level: usize) -> Runs {
    let mut index = 1;
    while let Some(word) = part.words.get(index) {
        let Some(text) = word.literal() else {
            return Runs::Hidden("it may run code that is not known before it runs");
        };
        let code = match text.split_once('=') {
            Some(("--command" | "--session-command", code)) => Some(Some(code)),
            _ if matches!(text, "--command" | "--session-command") => Some(part.literal(index + 1)),
            // `-c` alone or at the end of a cluster.
            _ if text.starts_with('-') && !text.starts_with("--") && text.ends_with('c') => {
                Some(part.literal(index + 1))
            }
            _ => None,
        };
        match code {
            Some(Some(code)) => return parse(part, code, level),
            Some(None) => return Runs::Hidden("the code it runs is not known before it runs"),
            None => {}
        }
        if text == "--" && part.name() == Some("runuser") {
            return Runs::Parts(vec![rest(part, index + 1)]);
        }
        index += 1;
    }
    // Without a command `su` runs a shell on its input.
    match part.name() {
        Some("su")
            if !part
                .words
                .iter()
                .any(|word| word.literal() == Some("--help")) =>
        {
            Runs::Hidden("it runs what it reads")
        }
        _ => Runs::Nothing,
    }
}

/// `bash -c CODE`, or a shell that reads its code.
fn shell(part: &Part, level: usize) -> Runs {
    let mut index = 1;
    let mut takes_code = false;
    let mut reads = false;
    while let Some(word) = part.words.get(index) {
        let Some(text) = word.literal() else {
            if word.is_operand() && !takes_code {
                return Runs::Nothing;
            }
            return Runs::Hidden("the code it runs is not known before it runs");
        };
        let dashed = text.starts_with(['-', '+']) && text.len() > 1;
        if text == "--version" || text == "--help" {
            return Runs::Nothing;
        }
        if text == "--" || text == "-" {
            index += 1;
            break;
        }
        if !dashed {
            break;
        }
        let long = text.starts_with("--");
        takes_code |= !long && text.starts_with('-') && text.contains('c');
        reads |= !long && text.contains('s');
        let valued =
            matches!(text, "--rcfile" | "--init-file") || (!long && text.ends_with(['o', 'O']));
        index += 1 + usize::from(valued);
    }
    if takes_code {
        return match part.words.get(index).map(Word::literal) {
            Some(Some(code)) => parse(part, code, level),
            Some(None) => Runs::Hidden("the code it runs is not known before it runs"),
            None => Runs::Nothing,
        };
    }
    if index < part.words.len() && !reads {
        // A script is a file like any program.
        return Runs::Nothing;
    }
    let input = part
        .redirections
        .iter()
        .rev()
        .find(|one| one.operator.starts_with('<'));
    match input {
        Some(text) if text.operator.starts_with("<<") => match text.target.literal() {
            Some(code) => parse(part, code, level),
            None => Runs::Hidden("the code it reads is not known before it runs"),
        },
        _ => Runs::Hidden("it runs what it reads"),
    }
}

fn parse(part: &Part, code: &str, level: usize) -> Runs {
    if level >= LEVELS {
        return Runs::Hidden("too many texts inside one another");
    }
    match read(code, level) {
        Ok(mut parts) => {
            for inner in &mut parts {
                inner.substituted |= part.substituted;
                if inner.function.is_none() {
                    inner.function.clone_from(&part.function);
                }
                let mut scope = part.scope.clone();
                // One shell of its own, except for what runs in this one.
                if !matches!(part.name(), Some("eval")) {
                    scope.push(u32::MAX);
                }
                scope.append(&mut inner.scope);
                inner.scope = scope;
            }
            Runs::Parts(parts)
        }
        Err(_unread) => Runs::Hidden("the code it runs can't be read"),
    }
}
