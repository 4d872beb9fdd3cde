//! The nearest known name to one that was mistyped.

/// The known names, nearest first: those that contain the wanted one, or are contained in it, before
/// the others; then by edit distance over lower-cased text; ties keep their order.
#[must_use]
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    // Two letters are in many names by chance.
    let is_part = |a: &str, b: &str| b.chars().count() > 2 && a.contains(b);
    let mut ranked: Vec<((bool, usize), &str)> = known
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let apart = !is_part(&lower, &wanted) && !is_part(&wanted, &lower);
            ((apart, distance(&wanted, &lower)), name)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, name)| name).collect()
}

/// The nearest known name, where it is near enough to be what was meant: at most a third of its
/// letters differ.
#[must_use]
pub fn likely<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(wanted, known, |letters| letters.max(3).div_ceil(3))
}

/// The known name that this one is hardly anything but: at most a quarter of its letters differ.
#[must_use]
pub fn slip<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(wanted, known, |letters| letters / 4)
}

fn within<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: impl Fn(usize) -> usize,
) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let apart = |name: &&str| distance(&wanted, &name.to_lowercase());
    let first = known.into_iter().min_by_key(apart)?;
    (apart(&first) <= limit(first.chars().count())).then_some(first)
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of
/// neighbours, each at cost 1.
fn distance(a: &str, b: &str) -> usize {
    // Names are short; longer input is cut so that a hostile name costs nothing.
    let a: Vec<char> = a.chars().take(128).collect();
    let b: Vec<char> = b.chars().take(128).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, other) in b.iter().enumerate() {
            let cost = usize::from(letter != other);
            let mut least = (last[j] + cost).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row[j + 1] = least;
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let known = ["bash", "read_file", "write_file"];
        assert_eq!(nearest("raed_file", known)[0], "read_file");
        let long = ["read_all", "write_file_at_once", "read_me"];
        assert_eq!(nearest("write_file", long)[0], "write_file_at_once");
        assert_eq!(nearest("re", ["write_more", "ra"])[0], "ra");
        assert_eq!(likely("Bahs", known), Some("bash"));
        assert_eq!(likely("mode", ["mode_of_it_all", "mod"]), Some("mod"));
        assert_eq!(likely("screenshot", known), None);
        assert_eq!(likely("x", []), None);
        assert_eq!(slip("Desicion", ["decision"]), Some("decision"));
        assert_eq!(slip("version", ["decision"]), None);
    }

    #[test]
    fn a_swap_costs_one() {
        assert_eq!(distance("modle", "model"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
