//! Lists in pages. A cursor names the last entry a client has, so it holds while entries come and
//! go around it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::provider::Fault;

/// A part of a list, and where the next one begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) next: Option<String>,
}

/// The page of `entries` after `cursor`. `list` keeps the cursors of different lists apart; `name`
/// is what tells entries of one list apart.
///
/// # Errors
/// [`Fault`] for a cursor that is none of this list.
pub(crate) fn page<T>(
    list: &str,
    mut entries: Vec<T>,
    name: impl Fn(&T) -> &str,
    cursor: Option<&str>,
    size: usize,
) -> Result<Page<T>, Fault> {
    let start = match cursor {
        None | Some("") => 0,
        Some(cursor) => {
            let last = read(list, cursor).ok_or_else(|| no_cursor(list))?;
            let position = entries.iter().position(|entry| name(entry) == last);
            position.ok_or_else(|| no_cursor(list))? + 1
        }
    };
    let mut entries = entries.split_off(start);
    let more = entries.len() > size;
    entries.truncate(size);
    let next = entries
        .last()
        .filter(|_| more)
        .map(|last| URL_SAFE_NO_PAD.encode(format!("{list}\0{}", name(last))));
    Ok(Page { entries, next })
}

fn read(list: &str, cursor: &str) -> Option<String> {
    let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (of, last) = plain.split_once('\0')?;
    (of == list).then(|| last.to_owned())
}

fn no_cursor(list: &str) -> Fault {
    Fault::invalid(format!(
        "this cursor is none of {list}, or the list has changed since; ask again without a cursor"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("n{index}")).collect()
    }

    #[test]
    fn pages_put_together_are_the_list() {
        for count in [0, 1, 9, 10, 11, 25] {
            let (mut all, mut cursor) = (Vec::new(), None);
            loop {
                let page = page("tools/list", names(count), |n| n, cursor.as_deref(), 10).unwrap();
                all.extend(page.entries);
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(all, names(count));
        }
    }

    #[test]
    fn a_cursor_is_good_for_its_own_list_only() {
        let next = page("tools/list", names(11), |n| n, None, 10).unwrap().next;
        let found = page("prompts/list", names(11), |n| n, next.as_deref(), 10);
        assert_eq!(found.unwrap_err().code, Fault::INVALID_PARAMS);
        for cursor in ["1", "%%%", "bjk", "AAAA"] {
            let found = page("tools/list", names(11), |n| n, Some(cursor), 10);
            assert_eq!(found.unwrap_err().code, Fault::INVALID_PARAMS, "{cursor}");
        }
    }

    #[test]
    fn a_page_is_stable_while_the_list_grows() {
        let first = page("tools/list", names(11), |n| n, None, 10).unwrap();
        let mut grown = names(11);
        grown.insert(0, "new".to_owned());
        let second = page("tools/list", grown, |n| n, first.next.as_deref(), 10).unwrap();
        assert_eq!(second.entries, ["n10"]);
    }
}
