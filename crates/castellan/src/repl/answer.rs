//! What a person typed at an open question, understood: `y`, `n` or `a`, then an optional comma,
//! colon or blank and more. Whatever is none of these decides nothing and is asked again.

use castellan_core::event::{Always, Answer, ApprovalItem, Scope};

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

/// Understands `text` as an answer to the question about `items`.
pub(crate) fn parse(text: &str, items: &[ApprovalItem]) -> Said {
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
    let (picked, rest) = match pick(rest, items.len()) {
        Ok(picked) => picked,
        Err(problem) => return Said::Again(problem),
    };
    let chosen = items
        .iter()
        .enumerate()
        .filter(|(place, _)| picked.is_empty() || picked.contains(place))
        .map(|(_, item)| item);
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

/// The items (from 0) that `rest` begins by naming, and what follows them. Items have numbers only
/// where there are several.
fn pick(rest: &str, count: usize) -> Result<(Vec<usize>, &str), String> {
    let text = unseparated(rest);
    if count < 2 || !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return Ok((Vec::new(), rest));
    }
    let (list, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let mut picked = Vec::new();
    for number in list.trim_end_matches([',', ':']).split(',') {
        let (from, to) = number.split_once('-').unwrap_or((number, number));
        match (from.parse::<usize>(), to.parse::<usize>()) {
            (Ok(from), Ok(to)) if from >= 1 && from <= to && to <= count => {
                picked.extend(from - 1..to);
            }
            (Ok(_), Ok(_)) => return Err(format!("`{number}` is none of the {count} calls")),
            _ => {
                return Err(format!(
                    "`{list}` is no list of numbers: `y 1,3` or `n 2 reason`"
                ));
            }
        }
    }
    Ok((picked, after))
}

/// The answers that permit for good. `rest` may name a scope and one of the offered permissions, and
/// words after a comma or colon.
fn permit<'a>(chosen: impl Iterator<Item = &'a ApprovalItem>, rest: &str) -> Said {
    let rest = rest.trim();
    // After a comma or colon come words for the model, and nothing is chosen.
    let is_words = |text: &str| text.starts_with([',', ':']);
    let (mut scope, mut wish, mut words) = (Scope::Session, rest, "");
    if is_words(rest) {
        (wish, words) = ("", unseparated(rest));
    } else {
        let (first, after) = split_word(rest);
        if let Some(named) = scope_named(first) {
            scope = named;
            (wish, words) = if is_words(after.trim_start()) {
                ("", unseparated(after))
            } else {
                (after.trim(), "")
            };
        }
    }
    let mut answers = Vec::new();
    for item in chosen {
        match offered(item, wish) {
            Ok((grant, more)) => answers.push(Answer {
                call_id: item.call_id,
                approve: true,
                feedback: if more.is_empty() { words } else { more }.to_owned(),
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

/// The offered permission that `wish` names, and the words after it.
fn offered<'a>(item: &ApprovalItem, wish: &'a str) -> Result<(String, &'a str), String> {
    let Some(default) = default_grant(item) else {
        return Err(format!(
            "`{}` needs its own yes each time; y allows it once",
            item.header
        ));
    };
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
    found.pop().ok_or_else(|| {
        format!(
            "`{wish}` is neither a scope (session, project, everywhere) nor offered here: {}",
            item.grants.join(", ")
        )
    })
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
    use castellan_core::CallId;
    use castellan_core::tool::Preview;
    use castellan_testkit::SequentialIds;

    fn items(count: usize) -> Vec<ApprovalItem> {
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
        (0..count).map(item).collect()
    }

    /// The answer as `y`, `n` or `a SCOPE GRANT`, and the words.
    fn one(text: &str) -> Option<(String, String)> {
        match parse(text, &items(1)) {
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
            ("y 2 files are enough", "y", "2 files are enough"),
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
            ("a, use full path", here, "use full path"),
            ("a session", here, ""),
            ("a project", "a in this project bash", ""),
            ("a project, quietly", "a in this project bash", "quietly"),
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
            "a bashx",
            "view it",
        ] {
            assert_eq!(one(text), None, "{text}");
        }
    }

    #[test]
    fn several_calls_are_answered_as_a_whole_or_by_their_numbers() {
        let three = items(3);
        let decided = |text: &str| match parse(text, &three) {
            Said::Answers(answers) => answers
                .iter()
                .map(|answer| {
                    let place = three.iter().position(|item| item.call_id == answer.call_id);
                    let sign = if answer.approve { '+' } else { '-' };
                    format!("{sign}{} {}", place.unwrap() + 1, answer.feedback)
                })
                .collect::<Vec<_>>(),
            Said::ShowAll | Said::Again(_) => Vec::new(),
        };
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
            "2",
        ] {
            assert_eq!(decided(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_call_that_needs_its_own_yes_is_not_permitted_for_good() {
        let mut items = items(1);
        items[0].grants.clear();
        assert!(matches!(parse("a", &items), Said::Again(why) if why.contains("each time")));
    }
}
