//! Rule: nothing unfinished, no test switched off, no lint silenced without a reason.

use super::{Tree, Violation};

/// What is looked for in code, and what to do about it.
const REFUSED: &[(&str, &str)] = &[
    ("todo!", "write it, or don't list what isn't built"),
    ("unimplemented!", "write it, or don't list what isn't built"),
    ("dbg!", "remove it"),
    ("#[ignore", "make the test pass or delete it"),
    ("#[allow(", "use #[expect(…, reason = \"…\")]"),
    ("#![allow(", "use #![expect(…, reason = \"…\")]"),
];

/// Lists what should not have stayed in the code. Comments and literals are free.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (source, code) in tree.rust() {
        for (index, line) in code.lines().enumerate() {
            for (mark, remedy) in REFUSED.iter().filter(|(mark, _)| contains(line, mark)) {
                let what = format!("`{mark}` in the code");
                violations.push(Violation::new(&source.path, index + 1, what, *remedy));
            }
        }
    }
    violations
}

/// Whether the mark stands in the line as a word of its own.
fn contains(line: &str, mark: &str) -> bool {
    let in_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(mark).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line
            .get(at + mark.len()..)
            .and_then(|text| text.chars().next());
        let free_behind = !mark.ends_with(char::is_alphanumeric) || !in_name(after);
        !in_name(before) && free_behind
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn count(text: &str) -> usize {
        check(&sample::file("a.rs", text)).len()
    }

    #[test]
    fn each_leftover_is_listed_at_its_line() {
        for (mark, _) in REFUSED {
            let tree = sample::file("a.rs", &format!("//! X.\n{mark}\n"));
            let violations = check(&tree);
            assert_eq!(violations.len(), 1, "{mark}");
            assert!(violations[0].to_string().starts_with("a.rs:2: "), "{mark}");
        }
    }

    #[test]
    fn a_switched_off_test_with_a_reason_is_listed_too() {
        assert_eq!(count("#[ignore = \"slow\"]\nfn a() {}\n"), 1);
    }

    #[test]
    fn other_names_comments_and_literals_are_free() {
        assert_eq!(
            count("my_todo!(); #[ignored] #[expect(dead_code, reason = \"x\")]\n"),
            0
        );
        assert_eq!(count("// todo!()\nlet x = \"dbg!\";\n"), 0);
    }
}
