//! Where a value of the configuration stands in its text, for errors that are found once it is read.

use toml::de::{DeTable, DeValue};

/// The offset in bytes of the value that `path` leads to; a number steps into a list. `None` where
/// nothing is there.
pub(super) fn offset(text: &str, path: &[&str]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_first()?;
    let mut value = in_table(table.get_ref(), first)?;
    for step in rest {
        value = match value.get_ref() {
            DeValue::Table(table) => in_table(table, step)?,
            DeValue::Array(list) => list.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value.span().start)
}

fn in_table<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a toml::Spanned<DeValue<'i>>> {
    let (_, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_however_it_is_written() {
        let text = "a.b = 1\n[c]\nd = [\n 1,\n 2]\n[e.\"f g\".h]\ni = {j = 3}\n";
        for (path, found) in [
            (&["a", "b"][..], "1\n["),
            (&["c", "d", "1"], "2]"),
            (&["e", "f g", "h", "i", "j"], "3}"),
        ] {
            let rest = offset(text, path).and_then(|offset| text.get(offset..));
            assert!(
                rest.is_some_and(|rest| rest.starts_with(found)),
                "{path:?}: {rest:?}"
            );
        }
        for path in [
            &["x"][..],
            &["a", "b", "c"],
            &["c", "d", "2"],
            &["c", "d", "x"],
            &[],
        ] {
            assert_eq!(offset(text, path), None, "{path:?}");
        }
    }
}
