//! Changing JSON: a merge patch (RFC 7396) at a JSON pointer (RFC 6901), and how far two values are
//! apart.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Merges `patch` into `value`: members that are null go, others take the place of what was there,
/// objects are merged.
pub(super) fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else {
        return;
    };
    for (key, change) in patch {
        if change.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key).or_insert(Value::Null), change);
        }
    }
}

/// Merges `patch` into what `pointer` points to in `value`; a patch that is null takes it away.
/// False where it points to nothing.
pub(super) fn merge_at(value: &mut Value, pointer: &str, patch: &Value) -> bool {
    if patch.is_null()
        && let Some((parent, key)) = pointer.rsplit_once('/')
    {
        let key = key.replace("~1", "/").replace("~0", "~");
        let parent = value.pointer_mut(parent).and_then(Value::as_object_mut);
        return parent.is_some_and(|parent| parent.remove(&key).is_some());
    }
    let target = value.pointer_mut(pointer);
    let found = target.is_some();
    if let Some(target) = target {
        merge(target, patch);
    }
    found
}

/// Every place in `value`, as a pointer, the whole first.
pub(super) fn places(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(value, String::new(), &mut |pointer, _value| {
        found.push(pointer.to_owned());
    });
    found
}

/// The share of leaves, from 0 to 1, that are in one and not, or differently, in the other.
pub(super) fn drift(from: &Value, to: &Value) -> f64 {
    let (from, to) = (leaves(from), leaves(to));
    let same = from
        .iter()
        .filter(|(place, value)| to.get(*place) == Some(value))
        .count();
    let shared = from.keys().filter(|place| to.contains_key(*place)).count();
    let all = from.len() + to.len() - shared;
    share(all - same, all)
}

fn share(part: usize, whole: usize) -> f64 {
    let number = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    if whole == 0 {
        0.0
    } else {
        number(part) / number(whole)
    }
}

/// What stands at the ends of `value`, by pointer. What is empty has no ends.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    visit(value, String::new(), &mut |pointer, value| {
        if !value.is_object() && !value.is_array() {
            found.insert(pointer.to_owned(), value.clone());
        }
    });
    found
}

fn visit(value: &Value, pointer: String, see: &mut impl FnMut(&str, &Value)) {
    see(&pointer, value);
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = key.replace('~', "~0").replace('/', "~1");
                visit(value, format!("{pointer}/{key}"), see);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                visit(item, format!("{pointer}/{number}"), see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_does_what_its_rfc_says() {
        for (value, patch, wanted) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            let mut merged = value.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, wanted, "{value} with {patch}");
        }
    }

    #[test]
    fn a_patch_lands_where_its_pointer_points() {
        let mut value = json!({"a": {"b/c": 1, "d": 2}});
        assert!(merge_at(&mut value, "/a/b~1c", &json!(5)));
        assert!(merge_at(&mut value, "/a/d", &Value::Null));
        assert_eq!(value, json!({"a": {"b/c": 5}}));
        assert!(!merge_at(&mut value, "/a/none", &json!(1)));
        assert!(!merge_at(&mut value, "/a/none", &Value::Null));
        assert!(!merge_at(&mut value, "a", &json!(1)));
        assert!(merge_at(&mut value, "", &json!({"e": 1})));
        assert_eq!(places(&value), ["", "/a", "/a/b~1c", "/e"]);
    }

    #[test]
    fn drift_is_the_share_of_leaves_that_differ() {
        let from = json!({"a": 1, "b": {"c": 2, "d": {}}});
        assert_eq!(drift(&from, &from), 0.0);
        assert_eq!(drift(&from, &json!({"a": 1, "b": {"c": 3}})), 0.5);
        // One of three places is new.
        assert_eq!(
            drift(&from, &json!({"a": 1, "b": {"c": 2}, "e": 4})),
            1.0 / 3.0
        );
        assert_eq!(drift(&from, &json!({})), 1.0);
        assert_eq!(drift(&json!({}), &json!([])), 0.0);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c~/]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::btree_map("[a-d~/]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn drift_is_a_share_and_does_not_depend_on_the_direction(a in json_value(), b in json_value()) {
            let there = drift(&a, &b);
            prop_assert!((0.0..=1.0).contains(&there));
            prop_assert_eq!(there, drift(&b, &a));
            prop_assert_eq!(drift(&a, &a), 0.0);
        }

        #[test]
        fn every_place_can_be_pointed_to(value in json_value()) {
            for place in places(&value) {
                prop_assert!(value.pointer(&place).is_some(), "{}", place);
            }
        }

        #[test]
        fn merging_the_same_patch_twice_changes_nothing_more(a in json_value(), b in json_value()) {
            let mut once = a;
            merge(&mut once, &b);
            let mut twice = once.clone();
            merge(&mut twice, &b);
            prop_assert_eq!(once, twice);
        }
    }
}
