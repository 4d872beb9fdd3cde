//! What the suite says at its end, read from what it prints.

/// The scenarios that ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    /// Scored, and passed.
    pub(super) passed: Vec<String>,
    /// Scored, and failed.
    pub(super) failed: Vec<String>,
    /// Run and not scored, with their mark.
    pub(super) unscored: Vec<String>,
    /// The suite's own sum of single checks.
    total: String,
}

impl Score {
    pub(super) fn read(output: &str) -> Self {
        let mut score = Self::default();
        let mut ran = Vec::new();
        for line in output.lines() {
            if let Some(total) = line.strip_prefix("Total: ") {
                total.clone_into(&mut score.total);
            } else if line.starts_with(['✓', '✗']) {
                ran.push(line);
            } else if let Some(unscored) = line
                .strip_prefix("  ")
                .filter(|l| l.starts_with(['✓', '✗']))
            {
                score.unscored.push(unscored.to_owned());
            }
        }
        for line in ran {
            let name = line.trim_start_matches(['✓', '✗', ' ']).split(':').next();
            let name = name.unwrap_or_default().to_owned();
            match (score.unscored_mark(&name), line.starts_with('✓')) {
                (None, true) => score.passed.push(name),
                (None, false) => score.failed.push(name),
                (Some(_), _) => {}
            }
        }
        score
    }

    /// Whether an unscored scenario passed; `None` for one that is scored or didn't run.
    fn unscored_mark(&self, name: &str) -> Option<bool> {
        let of = |line: &&String| line.split(' ').nth(1) == Some(name);
        let line = self.unscored.iter().find(of)?;
        Some(line.starts_with('✓'))
    }

    /// Whether a scenario passed, scored or not; `None` for one that did not run.
    pub(super) fn of(&self, name: &str) -> Option<bool> {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        if has(&self.passed) {
            Some(true)
        } else if has(&self.failed) {
            Some(false)
        } else {
            self.unscored_mark(name)
        }
    }

    pub(super) fn summary(&self) -> String {
        let mut lines = vec![format!(
            "{} of {} scored scenarios pass ({} single checks, those of unscored scenarios among them)",
            self.passed.len(),
            self.passed.len() + self.failed.len(),
            self.total,
        )];
        lines.extend(self.failed.iter().map(|name| format!("✗ {name}")));
        lines.extend(
            self.unscored
                .iter()
                .map(|name| format!("  not scored: {name}")),
        );
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Running requirements 2026-07-28 (4 scenarios)
✓ tools-list: 3 passed, 0 failed
✗ caching: 1 passed, 2 failed
✗ tasks-lifecycle: 1 passed, 8 failed
✓ json-schema-2020-12: 8 passed, 0 failed

Total: 13 passed, 10 failed

Not scored for 2026-07-28: 2 scenario(s) run, 1 failing. These do not affect conformance.
  ✗ tasks-lifecycle (extension)
  ✓ json-schema-2020-12 (pending)
";

    #[test]
    fn what_is_not_scored_counts_neither_way() {
        let score = Score::read(OUTPUT);
        assert_eq!(score.passed, ["tools-list"]);
        assert_eq!(score.failed, ["caching"]);
        assert_eq!(score.unscored.len(), 2);
        assert!(
            score
                .summary()
                .starts_with("1 of 2 scored scenarios pass (13 passed")
        );
    }

    #[test]
    fn each_scenario_is_found_again_scored_or_not() {
        let score = Score::read(OUTPUT);
        assert_eq!(score.of("tools-list"), Some(true));
        assert_eq!(score.of("caching"), Some(false));
        assert_eq!(score.of("tasks-lifecycle"), Some(false));
        assert_eq!(score.of("json-schema-2020-12"), Some(true));
        assert_eq!(score.of("ping"), None);
    }

    #[test]
    fn a_suite_that_says_nothing_has_passed_nothing() {
        assert_eq!(Score::read(""), Score::default());
    }
}
