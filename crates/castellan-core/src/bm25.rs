//! Ranked search over short texts by Okapi BM25 (Robertson and Zaragoza, "The Probabilistic
//! Relevance Framework: BM25 and Beyond", 2009), for tool catalogs and the like.
//!
//! Terms are lower-cased runs of letters and digits; `snake_case`, `camelCase` and `kebab-case`
//! names count as their words and as a whole. A plural `s` is dropped. Libraries at hand keep such
//! names as one token, and their stemmers and stop words are tuned for prose.

use std::collections::HashMap;

/// How much repeating a term adds.
const K1: f32 = 1.2;
/// How much the length of a text counts against it.
const B: f32 = 0.75;

/// One found text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The text's position in what the index was built from.
    pub index: usize,
    /// The higher, the better. Comparable within one search only.
    pub score: f32,
}

/// An index that is built once and searched often.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// For each term, which texts have it and what it adds to their score.
    postings: HashMap<String, Vec<(u32, f32)>>,
    texts: usize,
}

impl Index {
    /// An index over `texts`. A text is a list of fields with a weight each: a term in a field of
    /// weight 3 counts as three.
    pub fn new<'a, T>(texts: impl IntoIterator<Item = T>) -> Self
    where
        T: IntoIterator<Item = (&'a str, f32)>,
    {
        let mut counts: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
        let mut lengths: Vec<f32> = Vec::new();
        for (number, fields) in (0_u32..).zip(texts) {
            let mut own: HashMap<String, f32> = HashMap::new();
            for (field, weight) in fields {
                for term in terms(field) {
                    *own.entry(term).or_default() += weight;
                }
            }
            lengths.push(own.values().sum());
            for (term, count) in own {
                counts.entry(term).or_default().push((number, count));
            }
        }
        let total = as_f32(lengths.len());
        let average = (lengths.iter().sum::<f32>() / total.max(1.0)).max(f32::MIN_POSITIVE);
        for list in counts.values_mut() {
            let found = as_f32(list.len());
            let rarity = (1.0 + (total - found + 0.5) / (found + 0.5)).ln();
            for (number, count) in list {
                let length = usize::try_from(*number).ok().and_then(|n| lengths.get(n));
                let norm = 1.0 - B + B * length.copied().unwrap_or(average) / average;
                *count = rarity * (*count * (K1 + 1.0)) / (*count + K1 * norm);
            }
        }
        Self {
            postings: counts,
            texts: lengths.len(),
        }
    }

    /// The best `limit` texts that have at least one term of `query`, best first; equal ones in
    /// the order of the index.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let mut wanted = terms(query);
        wanted.sort_unstable();
        wanted.dedup();
        let mut scores = vec![0.0_f32; self.texts];
        for list in wanted.iter().filter_map(|term| self.postings.get(term)) {
            for (number, score) in list {
                if let Some(sum) = usize::try_from(*number)
                    .ok()
                    .and_then(|n| scores.get_mut(n))
                {
                    *sum += score;
                }
            }
        }
        let mut hits: Vec<Hit> = scores
            .into_iter()
            .enumerate()
            .filter(|(_, score)| *score > 0.0)
            .map(|(index, score)| Hit { index, score })
            .collect();
        let better = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index));
        if limit > 0 && hits.len() > limit {
            hits.select_nth_unstable_by(limit - 1, better);
        }
        hits.truncate(limit);
        hits.sort_by(better);
        hits
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts far below 2^24, and a rank needs no more"
)]
fn as_f32(count: usize) -> f32 {
    count as f32
}

/// The terms of a text.
fn terms(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')) {
        let parts = words(word);
        if parts.len() > 1 {
            found.push(word.to_lowercase());
        }
        found.extend(parts.into_iter().map(|part| singular(part.to_lowercase())));
    }
    found
}

/// A name's words: `getUserByID` and `get_user_by_id` are four.
fn words(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut before_was_lower) = (0, false);
    for (at, letter) in name.char_indices() {
        if letter == '_' || (letter.is_uppercase() && before_was_lower) {
            parts.extend(name.get(start..at));
            start = if letter == '_' { at + 1 } else { at };
        }
        before_was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    parts.extend(name.get(start..));
    parts.retain(|part| !part.is_empty());
    parts
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str], query: &str) -> Vec<usize> {
        let index = Index::new(texts.iter().map(|text| [(*text, 1.0)]));
        index
            .search(query, 10)
            .into_iter()
            .map(|hit| hit.index)
            .collect()
    }

    #[test]
    fn a_name_is_found_by_its_words_and_as_a_whole() {
        let texts = ["github_merge_pr", "getUserByID", "read files"];
        assert_eq!(found(&texts, "merge"), [0]);
        assert_eq!(found(&texts, "user id"), [1]);
        assert_eq!(found(&texts, "github_merge_pr"), [0]);
        assert_eq!(found(&texts, "file"), [2]);
        assert_eq!(found(&texts, "absent"), [0_usize; 0]);
    }

    #[test]
    fn a_rare_term_and_a_short_text_rank_higher() {
        let texts = [
            "signal zone zone zone padding padding",
            "signal",
            "signal deposit",
        ];
        assert_eq!(found(&texts, "deposit signal")[0], 2);
        assert_eq!(found(&texts, "signal")[0], 1);
    }

    #[test]
    fn a_limit_keeps_the_best() {
        let texts: Vec<String> = (0..100).map(|n| "tool ".repeat(1 + n % 7)).collect();
        let index = Index::new(texts.iter().map(|text| [(text.as_str(), 1.0)]));
        let all = index.search("tool", 100);
        assert_eq!(index.search("tool", 5), all[..5]);
        assert_eq!(index.search("tool", 0), []);
        assert_eq!(Index::default().search("tool", 5), []);
    }
}
