//! `docs/error-codes.md`: the closed list of codes, read out of the `codes!` block in core.

use anyhow::{Result, bail};

use super::cell;

/// The page; the source must hold at least one code, each with its words.
pub(crate) fn page(source: &str) -> Result<String> {
    let mut page = String::from(
        "# Error codes\n\nPrograms branch on the code; the text beside it may change.\n\n\
         | code | meaning |\n| --- | --- |\n",
    );
    let codes = parse(source)?;
    if codes.is_empty() {
        bail!("no `codes! {{ … }}` block with codes in it");
    }
    for (code, meaning) in codes {
        page.push_str("| `");
        page.push_str(&code);
        page.push_str("` | ");
        page.push_str(&cell(&meaning));
        page.push_str(" |\n");
    }
    Ok(page)
}

/// The codes with their doc comments, in order.
fn parse(source: &str) -> Result<Vec<(String, String)>> {
    let block = source
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "codes! {")
        .skip(1)
        .take_while(|line| *line != "}");
    let mut codes = Vec::new();
    let mut meaning = String::new();
    for line in block {
        if let Some(words) = line.strip_prefix("///") {
            meaning.push_str(words);
        } else if let Some(code) = code_of(line) {
            if meaning.trim().is_empty() {
                bail!("`{code}` has no doc comment");
            }
            codes.push((code.to_owned(), std::mem::take(&mut meaning)));
        } else if !line.is_empty() && !line.starts_with("//") {
            bail!("`{line}` in the codes! block is not a code");
        }
    }
    Ok(codes)
}

/// `CODE` of `Variant = "CODE",`.
fn code_of(line: &str) -> Option<&str> {
    let (_, value) = line.split_once('=')?;
    value
        .trim()
        .trim_end_matches(',')
        .strip_prefix('"')?
        .strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "macro_rules! codes {\n    () => {};\n}\n\ncodes! {\n    /// A call\n    /// was refused.\n    \
                          Denied = \"DENIED\",\n    /// Too | late.\n    TimedOut = \"TIMED_OUT\",\n}\n\n\
                          fn other() {}\n";

    #[test]
    fn each_code_is_a_row_with_its_doc_comment() {
        let page = page(SOURCE).unwrap();
        assert!(
            page.ends_with("| `DENIED` | A call was refused. |\n| `TIMED_OUT` | Too \\| late. |\n")
        );
    }

    #[test]
    fn a_source_that_is_not_understood_is_an_error() {
        assert!(page("fn main() {}").is_err());
        assert!(page("codes! {\n    Denied = \"DENIED\",\n}\n").is_err());
        assert!(page("codes! {\n    /// X.\n    Denied(\"DENIED\"),\n}\n").is_err());
    }
}
