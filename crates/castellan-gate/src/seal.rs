//! Seal: the one seam through which every tool's output reaches a model and a record.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use castellan_core::secret::Redaction;
use castellan_core::text::{head_and_tail, plain};

use crate::overflow::create;

/// What an empty output is said to be: some model servers refuse empty results, and a model that
/// reads nothing tends to call again.
const EMPTY: &str = "(no output)";

/// Output made fit for a model.
pub(crate) struct Sealed {
    pub(crate) text: String,
    pub(crate) spill: Option<PathBuf>,
}

/// Makes the text of an outcome fit for a model: plain, without known secrets, within `limit` bytes
/// and a marker.
///
/// What is cut is kept whole in the file at `spill`, named in the text. Where that file can't be
/// written, the text says that the rest is lost.
pub(crate) fn seal(text: &str, redaction: &Redaction, limit: usize, spill: PathBuf) -> Sealed {
    let text = redaction.apply(plain(text));
    if text.trim().is_empty() {
        return Sealed {
            text: EMPTY.to_owned(),
            spill: None,
        };
    }
    if text.len() <= limit {
        return Sealed { text, spill: None };
    }
    let (place, spill) = match keep(&spill, &text) {
        Ok(()) => (spill.display().to_string(), Some(spill)),
        Err(error) => (format!("no file, since writing one failed ({error})"), None),
    };
    let text = head_and_tail(&text, limit, Some(&place)).map_or(text, |cut| cut.text);
    Sealed { text, spill }
}

fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    create(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(output: &str, limit: usize, folder: &Path) -> Sealed {
        let redaction = Redaction::new(["sk-test-123".to_owned()]);
        seal(output, &redaction, limit, folder.join("call.txt"))
    }

    #[test]
    fn output_is_plain_redacted_and_never_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            sealed("\u{1b}[31mkey sk-test-123\0", 100, folder.path()).text,
            "key [redacted]"
        );
        assert_eq!(sealed(" \n\u{1b}[0m", 100, folder.path()).text, EMPTY);
    }

    #[test]
    fn what_is_cut_stands_whole_in_the_named_file() {
        let folder = tempfile::tempdir().unwrap();
        let output = "0123456789\n".repeat(100);
        let sealed = sealed(&output, 200, &folder.path().join("deep/er"));
        let spill = sealed.spill.unwrap();
        assert_eq!(std::fs::read_to_string(&spill).unwrap(), output);
        assert!(sealed.text.contains(&spill.display().to_string()));
        assert!(sealed.text.contains("of 1100 bytes"));
    }

    #[test]
    fn a_spill_that_fails_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sealed = sealed(&"x".repeat(1000), 100, file.path());
        assert!(sealed.spill.is_none() && sealed.text.contains("writing one failed"));
    }
}
