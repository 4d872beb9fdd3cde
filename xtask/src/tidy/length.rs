//! Rule: a source file stays short enough to be read in one go.

use super::{Tree, Violation};

/// Files aim at 300 lines; past this many they fail.
const MAX_LINES: usize = 800;

/// Lists the source files that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.own()
        .filter(|source| source.is_code())
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(source, lines)| {
            let what = format!("{lines} lines, more than {MAX_LINES}");
            Violation::new(
                &source.path,
                MAX_LINES + 1,
                what,
                "split it by what its parts are for",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    #[test]
    fn a_file_over_the_limit_is_listed_and_one_at_the_limit_is_not() {
        let lines = |count: usize| "x\n".repeat(count);
        assert_eq!(check(&sample::file("a.rs", &lines(MAX_LINES + 1))).len(), 1);
        assert_eq!(check(&sample::file("a.rs", &lines(MAX_LINES))), []);
    }

    #[test]
    fn data_and_vendored_files_may_be_long() {
        let long = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(check(&sample::file("Cargo.lock", &long)), []);
        assert_eq!(check(&sample::file("web/vendor/a.js", &long)), []);
        assert_eq!(check(&sample::file("web/a.js", &long)).len(), 1);
    }
}
