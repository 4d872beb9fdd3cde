//! What a person typed at an open question, understood: `y`, `n` or `a`, then an optional comma,
//! colon or blank and more. Whatever is none of these decides nothing and is asked again.

use castellan_core::event::{Always, Answer, ApprovalItem, Scope};
use castellan_runtime::Question;

/// What was typed at a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// These are the answers; items that are left out stay open.
    Answers(Vec<Answer>),
    /// Show the previews in full.
    ShowAll,
    /// It decides nothing: why, for the person.
    Again(String),
}

/// What to say where nothing was understood.
const WHAT_COUNTS: &str = "y, n or a decides; text may follow, as in `n use another name`";

/// Understands `text` as an answer to `question`.
pub(crate) fn parse(text: &str, question: &Question) -> Said {
    let (word, rest) = split_word(text.trim());
    let word = word.to_lowercase();
    let named = |names: &[&str]| names.contains(&word.as_str());
    if word.is_empty() {
        return Said::Again(WHAT_COUNTS.to_owned());
    }
    if named(&["v", "view"]) && rest.is_empty() {
        return Said::ShowAll;
    }
    let yes = named(&["y", "yes"]);
    let always = named(&["a", "always"]);
    if !yes && !always && !named(&["n", "no"]) {
        return Said::Again(format!("`{word}` is no answer; {WHAT_COUNTS}"));
    }
    let (picked, rest) = match pick(&word, rest, question) {
        Ok(picked) => picked,
        Err(problem) => return Said::Again(problem),
    };
    let chosen = question
        .items
        .iter()
        .zip(&question.numbers)
        .filter(|(_, number)| picked.is_empty() || picked.contains(number))
        .map(|(item, _)| item);
    if always {
        return permit(chosen, rest);
    }
    let feedback = unseparated(rest);
    let answer = |item: &ApprovalItem| Answer {
        feedback: feedback.to_owned(),
        ..Answer::new(item.call_id, yes)
    };
    Said::Answers(chosen.map(answer).collect())
}

/// A no to everything that is open.
pub(crate) fn refuse(items: &[ApprovalItem], why: &str) -> Vec<Answer> {
    let answer = |item: &ApprovalItem| Answer {
        feedback: why.to_owned(),
        ..Answer::new(item.call_id, false)
    };
    items.iter().map(answer).collect()
}

/// The first word and what follows it, beginning with the blank, comma or colon that ends the word.
fn split_word(text: &str) -> (&str, &str) {
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, ',' | ':');
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// `text` without the comma, colon or blank that sets it off.
fn unseparated(text: &str) -> &str {
    let text = text.trim_start();
    text.strip_prefix([',', ':']).unwrap_or(text).trim()
}

/// The numbers that `rest` begins with, and what follows them. A number speaks of a call always, and
/// of an open one, so that it is never taken for words: what is typed for one call must not decide
/// about another.
fn pick<'a>(
    word: &str,
    rest: &'a str,
    question: &Question,
) -> Result<(Vec<usize>, &'a str), String> {
    let text = unseparated(rest);
    if !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return Ok((Vec::new(), rest));
    }
    let (list, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let are_words = rest.trim_start().starts_with(':') && !after.trim().is_empty();
    if are_words && word.starts_with(['y', 'n']) {
        return match question.asked {
            1 => Ok((Vec::new(), rest)),
            _ => Err(format!(
                "`{list}` is either a call or a word: `{word} {list} …` speaks of the call; words \
                 for every call begin with a letter"
            )),
        };
    }
    let mut picked = Vec::new();
    for number in list.trim_end_matches([',', ':']).split(',') {
        let (from, to) = number.split_once('-').unwrap_or((number, number));
        let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) else {
            return Err(format!(
                "`{list}` is no list of numbers: `y 1,3` or `n 2 reason`"
            ));
        };
        if from > to || from < 1 || to > question.asked {
            return Err(none_of_them(word, number, after, question));
        }
        if let Some(closed) = (from..=to).find(|one| !question.numbers.contains(one)) {
            return Err(format!(
                "call {closed} is decided already; open: {}",
                listed(&question.numbers)
            ));
        }
        picked.extend(from..=to);
    }
    Ok((picked, after))
}

/// What to say of a number that names none of the calls.
fn none_of_them(word: &str, number: &str, after: &str, question: &Question) -> String {
    if question.asked > 1 {
        let open = listed(&question.numbers);
        return format!("`{number}` is none of the calls; open: {open}");
    }
    let words = if after.trim().is_empty() {
        "words".to_owned()
    } else {
        format!("{number}{after}")
    };
    format!("there is one call, and no call {number}; for words: `{word}: {words}`")
}

/// Numbers of calls for a person.
pub(crate) fn listed(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}

/// The answers that permit for good. `rest` may name a scope, one of the offered permissions, and
/// words after a comma or colon. What sets `rest` off from the `a` makes no difference.
fn permit<'a>(chosen: impl Iterator<Item = &'a ApprovalItem>, rest: &str) -> Said {
    let text = unseparated(rest);
    let (first, after) = split_word(text);
    let (scope, after) = match scope_named(first) {
        Some(scope) => (scope, after),
        None => (Scope::Session, text),
    };
    let mut answers = Vec::new();
    for item in chosen {
        match offered(item, after) {
            Ok((grant, words)) => answers.push(Answer {
                call_id: item.call_id,
                approve: true,
                feedback: words.to_owned(),
                always: Some(Always { grant, scope }),
            }),
            Err(problem) => return Said::Again(problem),
        }
    }
    Said::Answers(answers)
}

fn scope_named(word: &str) -> Option<Scope> {
    match word.to_lowercase().as_str() {
        "session" => Some(Scope::Session),
        "project" => Some(Scope::Project),
        "everywhere" => Some(Scope::Everywhere),
        _ => None,
    }
}

/// The permission that `a` means where none is named: the widest that is offered, which is this
/// tool.
pub(crate) fn default_grant(item: &ApprovalItem) -> Option<&String> {
    item.grants.last()
}

/// The offered permission that `text` names, and the words after it. Words alone mean the default,
/// and only where a comma or colon sets them off from a scope.
fn offered<'a>(item: &ApprovalItem, text: &'a str) -> Result<(String, &'a str), String> {
    let Some(default) = default_grant(item) else {
        return Err(format!(
            "`{}` needs its own yes each time; y allows it once",
            item.header
        ));
    };
    let wish = unseparated(text);
    if wish.is_empty() {
        return Ok((default.clone(), ""));
    }
    let fits = |grant: &'_ String| {
        let after = wish.strip_prefix(grant.as_str())?;
        // `bash:rm` asks for something narrower than the `bash` it begins with.
        let narrower = after
            .strip_prefix(':')
            .is_some_and(|rest| rest.starts_with(|letter: char| !letter.is_whitespace()));
        let after = after.trim_start();
        let ends = after.is_empty() || after.starts_with([',', ':']);
        (ends && !narrower).then(|| (grant.clone(), unseparated(after)))
    };
    let mut found: Vec<_> = item.grants.iter().filter_map(fits).collect();
    found.sort_by_key(|(grant, _)| grant.len());
    let is_set_off = text.trim_start().starts_with([',', ':']);
    let found = found
        .pop()
        .or_else(|| is_set_off.then(|| (default.clone(), wish)));
    match found {
        Some((grant, words)) if !reads_as_permission(words, item) => Ok((grant, words)),
        _ => Err(format!(
            "`{wish}` is neither a scope (session, project, everywhere) nor offered here: {}; the \
             scope comes first, then what is permitted, then words: `a session, use full path`",
            item.grants.join(", ")
        )),
    }
}

/// Whether words begin as a scope or a permission does: who typed them meant one, and must not be
/// given another.
fn reads_as_permission(words: &str, item: &ApprovalItem) -> bool {
    let first = words
        .split([' ', '\t', '\n', ','])
        .next()
        .unwrap_or_default();
    let (name, narrower) = first.split_once(':').unwrap_or((first, ""));
    let is_tool = |grant: &String| grant.split(':').next() == Some(name);
    scope_named(name).is_some()
        || !narrower.is_empty()
        || name.contains('_')
        || item.grants.iter().any(is_tool)
}

/// A scope in words.
pub(crate) const fn scope_words(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "in this session",
        Scope::Project => "in this project",
        Scope::Everywhere => "everywhere",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castellan_core::tool::Preview;
    use castellan_core::{CallId, CycleId};
    use castellan_testkit::SequentialIds;

    fn asked(count: usize) -> Question {
        let ids = SequentialIds::new();
        let item = |_| ApprovalItem {
            call_id: CallId::mint(&ids),
            name: "bash".into(),
            header: "bash git status".into(),
            label: "bash".into(),
            preview: Preview::None,
            reason: String::new(),
            grants: vec!["bash:git status".into(), "bash:git".into(), "bash".into()],
        };
        Question {
            cycle_id: CycleId::mint(&ids),
            items: (0..count).map(item).collect(),
            numbers: (1..=count).collect(),
            asked: count,
        }
    }

    /// The answer as `y`, `n` or `a SCOPE GRANT`, and the words.
    fn one(text: &str) -> Option<(String, String)> {
        match parse(text, &asked(1)) {
            Said::Answers(answers) => {
                let answer = &answers[0];
                let what = match (&answer.always, answer.approve) {
                    (Some(always), true) => {
                        format!("a {} {}", scope_words(always.scope), always.grant)
                    }
                    (None, true) => "y".into(),
                    (None, false) => "n".into(),
                    (Some(_), false) => unreachable!("a no that permits"),
                };
                Some((what, answer.feedback.clone()))
            }
            Said::ShowAll => Some(("v".into(), String::new())),
            Said::Again(_) => None,
        }
    }

    #[test]
    fn what_is_typed_means_what_the_table_says() {
        let here = "a in this session bash";
        for (text, what, words) in [
            ("y", "y", ""),
            ("Y", "y", ""),
            (" yes ", "y", ""),
            ("YES", "y", ""),
            ("y:", "y", ""),
            ("y, use full path", "y", "use full path"),
            ("y: use full path", "y", "use full path"),
            ("yes please do a, b", "y", "please do a, b"),
            ("y: 2 files are enough", "y", "2 files are enough"),
            ("n: 3 are too many", "n", "3 are too many"),
            ("y 1", "y", ""),
            ("y: 1", "y", ""),
            ("n 1 not that one", "n", "not that one"),
            ("n", "n", ""),
            ("no", "n", ""),
            (
                "n use the staging host instead",
                "n",
                "use the staging host instead",
            ),
            ("no, wait", "n", "wait"),
            ("a", here, ""),
            ("A", here, ""),
            ("always", here, ""),
            ("a session, use full path", here, "use full path"),
            ("a: session, use full path", here, "use full path"),
            ("a session", here, ""),
            ("a,session", here, ""),
            ("a project", "a in this project bash", ""),
            ("a,project", "a in this project bash", ""),
            ("a, Project", "a in this project bash", ""),
            ("a: project", "a in this project bash", ""),
            ("a:project", "a in this project bash", ""),
            ("a project, quietly", "a in this project bash", "quietly"),
            ("a: project: quietly", "a in this project bash", "quietly"),
            ("a, project bash:git", "a in this project bash:git", ""),
            ("a project, bash:git", "a in this project bash:git", ""),
            ("a:project:bash:git", "a in this project bash:git", ""),
            ("a, bash:git", "a in this session bash:git", ""),
            ("a 1 project", "a in this project bash", ""),
            (
                "a everywhere bash:git status",
                "a everywhere bash:git status",
                "",
            ),
            ("a bash:git", "a in this session bash:git", ""),
            (
                "a bash:git status: mind x",
                "a in this session bash:git status",
                "mind x",
            ),
            ("a bash, mind x", here, "mind x"),
            ("v", "v", ""),
        ] {
            assert_eq!(
                one(text),
                Some((what.to_owned(), words.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn whatever_is_no_answer_decides_nothing() {
        for text in [
            "",
            "  ",
            ",",
            ": y",
            "maybe",
            "nope",
            "yep",
            "yeah",
            "ok",
            "sure",
            "ay",
            "yn",
            "1",
            "/y",
            "a list of files",
            "a bash:rm",
            "a bash:git push",
            "a everywhere rm",
            "a, use full path",
            "a, project rm",
            "a, bash:rm",
            "a: everywhere bash:rm",
            "a project, bash:rm",
            "a project, bash is fine",
            "a project, write_file",
            "a project, everywhere",
            "a bash:git, project",
            "y 2",
            "y 7",
            "y: 2",
            "y, 0",
            "y 2 files are enough",
            "n 2 not that one",
            "a 2",
            "a: 2 project",
            "a bashx",
            "view it",
        ] {
            assert_eq!(one(text), None, "{text}");
        }
    }

    /// What `text` decides about the calls of `open`, as their places in `all`.
    fn decided(text: &str, open: &Question, all: &Question) -> Vec<String> {
        let decided = |answer: &Answer| {
            let is_it = |item: &ApprovalItem| item.call_id == answer.call_id;
            let place = all.items.iter().position(is_it).unwrap();
            let sign = if answer.approve { '+' } else { '-' };
            format!("{sign}{} {}", place + 1, answer.feedback)
        };
        match parse(text, open) {
            Said::Answers(answers) => answers.iter().map(decided).collect(),
            Said::ShowAll | Said::Again(_) => Vec::new(),
        }
    }

    #[test]
    fn a_number_means_the_same_call_while_others_are_answered() {
        let all = asked(3);
        let mut open = all.clone();
        open.items.remove(0);
        open.numbers.remove(0);
        assert_eq!(
            decided("n 2 not that one", &open, &all),
            ["-2 not that one"]
        );
        assert_eq!(decided("y", &open, &all), ["+2 ", "+3 "]);
        for text in ["y 1", "y 1-2", "n 1 words", "a 1", "y 4"] {
            assert_eq!(decided(text, &open, &all), Vec::<String>::new(), "{text}");
        }
        open.items.remove(0);
        open.numbers.remove(0);
        assert_eq!(decided("y 3", &open, &all), ["+3 "]);
        assert_eq!(decided("y", &open, &all), ["+3 "]);
        for text in ["y 1", "y 2", "n 2 not that one", "y: 2", "y: 2 files"] {
            assert_eq!(decided(text, &open, &all), Vec::<String>::new(), "{text}");
        }
        let Said::Again(why) = parse("y 2", &open) else {
            panic!("it decides nothing");
        };
        assert_eq!(why, "call 2 is decided already; open: 3");
        let Said::Again(why) = parse("y 2 files", &asked(1)) else {
            panic!("it decides nothing");
        };
        assert!(why.ends_with("for words: `y: 2 files`"), "{why}");
    }

    #[test]
    fn several_calls_are_answered_as_a_whole_or_by_their_numbers() {
        let three = asked(3);
        let decided = |text: &str| decided(text, &three, &three);
        assert_eq!(decided("y"), ["+1 ", "+2 ", "+3 "]);
        assert_eq!(decided("y 1,3"), ["+1 ", "+3 "]);
        assert_eq!(decided("y 2-3 be quick"), ["+2 be quick", "+3 be quick"]);
        assert_eq!(decided("n 2 not now"), ["-2 not now"]);
        assert_eq!(
            decided("n, not now"),
            ["-1 not now", "-2 not now", "-3 not now"]
        );
        assert_eq!(decided("a 2"), ["+2 "]);
        for text in [
            "y 4",
            "y 0",
            "y 1,x",
            "y 3-2",
            "y 99999999999999999999",
            "y 1-99999999999999",
            "y: 2 be quick",
            "2",
        ] {
            assert_eq!(decided(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_call_that_needs_its_own_yes_is_not_permitted_for_good() {
        let mut asked = asked(1);
        asked.items[0].grants.clear();
        assert!(matches!(parse("a", &asked), Said::Again(why) if why.contains("each time")));
    }
}
