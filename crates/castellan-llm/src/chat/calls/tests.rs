//! The odd streams of tool calls that servers have been seen to send.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const TOOLS: [&str; 5] = ["read_file", "read", "list", "bash", "write_file"];

/// Name and arguments of the calls made of these deltas, each a `tool_calls` list.
fn assemble(deltas: &[Value]) -> Vec<(String, String)> {
    finished(deltas, Cut::No)
        .into_iter()
        .map(|call| (call.name, call.arguments))
        .collect()
}

fn finished(deltas: &[Value], cut: Cut) -> Vec<RawCall> {
    let mut calls = Calls::of_tools(TOOLS);
    for delta in deltas {
        calls.take(delta.as_array().unwrap().iter().map(Fragment::from_call));
    }
    calls.finish(cut)
}

fn call(name: &str, arguments: &str) -> (String, String) {
    (name.to_owned(), arguments.to_owned())
}

fn two_reads() -> Vec<(String, String)> {
    vec![
        call("read_file", r#"{"path":"x"}"#),
        call("read_file", r#"{"path":"y"}"#),
    ]
}

fn read(id: &str, path: &str) -> Value {
    let arguments = json!({"path": path}).to_string();
    json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": arguments}})
}

fn indexed(mut call: Value, index: u64) -> Value {
    call["index"] = json!(index);
    call
}

#[test]
fn calls_without_index_are_told_apart_by_id() {
    assert_eq!(
        assemble(&[json!([read("a", "x")]), json!([read("b", "y")])]),
        two_reads()
    );
    assert_eq!(
        assemble(&[json!([read("a", "x"), read("b", "y")])]),
        two_reads()
    );
}

#[test]
fn calls_that_are_all_number_0_are_told_apart_by_id() {
    let deltas = [
        json!([indexed(read("a", "x"), 0)]),
        json!([indexed(read("b", "y"), 0)]),
    ];
    assert_eq!(assemble(&deltas), two_reads());
}

#[test]
fn arguments_that_come_later_go_to_the_latest_call_of_that_number() {
    let deltas = [
        json!([{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": "{\"path\":"}}]),
        json!([{"index": 0, "function": {"arguments": "\"x\"}"}}]),
        json!([{"index": 0, "id": "b", "function": {"name": "read_file", "arguments": ""}}]),
        json!([{"index": 0, "function": {"arguments": "{\"path\":\"y\"}"}}]),
    ];
    assert_eq!(assemble(&deltas), two_reads());
}

#[test]
fn interleaved_arguments_are_sorted_by_index() {
    let deltas = [
        json!([{"index": 0, "id": "a", "function": {"name": "read_file"}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "read_file", "arguments": null}}]),
        json!([{"index": 0, "function": {"arguments": "{\"path\":"}}]),
        json!([{"index": 1, "function": {"arguments": "{\"path\":"}}]),
        json!([{"index": 1, "function": {"arguments": "\"y\"}"}}, {"index": 0, "function": {"arguments": "\"x\"}"}}]),
    ];
    assert_eq!(assemble(&deltas), two_reads());
}

#[test]
fn numbering_may_begin_at_1() {
    let deltas = [
        json!([indexed(read("a", "x"), 1)]),
        json!([indexed(read("b", "y"), 2)]),
    ];
    assert_eq!(assemble(&deltas), two_reads());
}

#[test]
fn an_index_may_come_and_go() {
    let deltas = [
        json!([{"id": "a", "function": {"name": "read_file"}}]),
        json!([{"index": 0, "function": {"arguments": "{\"path\":"}}]),
        json!([{"function": {"arguments": "\"x\"}"}}]),
        json!([indexed(read("b", "y"), 1)]),
    ];
    assert_eq!(assemble(&deltas), two_reads());
    // Nothing sensible can be made of these, but nothing breaks either.
    let deltas = [
        json!([{"index": 3, "function": {"arguments": "1"}}]),
        json!([{"function": {"arguments": "2"}}, null, 7]),
        json!([{"index": 99, "function": {"arguments": "3"}}]),
    ];
    assert_eq!(assemble(&deltas), [call("", "123")]);
}

#[test]
fn calls_without_id_or_index_are_told_apart_by_their_ends() {
    let bare = |path: &str| json!({"function": {"name": "read_file", "arguments": {"path": path}}});
    assert_eq!(
        assemble(&[json!([bare("x")]), json!([bare("y")])]),
        two_reads()
    );
    assert_eq!(assemble(&[json!([bare("x"), bare("y")])]), two_reads());
    let deltas = [
        json!([{"index": 0, "id": "", "function": {"name": "list", "arguments": ""}}]),
        json!([{"index": 0, "id": "", "function": {"name": "bash", "arguments": "{}"}}]),
    ];
    assert_eq!(assemble(&deltas), [call("list", ""), call("bash", "{}")]);
}

#[test]
fn one_id_for_all_calls_does_not_merge_them() {
    let deltas = [json!([read("call_0", "x")]), json!([read("call_0", "y")])];
    assert_eq!(assemble(&deltas), two_reads());
    let deltas = [
        json!([indexed(read("call_0", "x"), 0)]),
        json!([indexed(read("call_0", "y"), 1)]),
    ];
    assert_eq!(assemble(&deltas), two_reads());
}

#[test]
fn a_name_may_be_repeated_in_every_piece() {
    let deltas = [
        json!([{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "{\"path\":"}}]),
        json!([{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "\"x\""}}]),
        json!([{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "}"}}]),
        json!([{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": ""}}]),
    ];
    assert_eq!(assemble(&deltas), [call("read_file", r#"{"path":"x"}"#)]);
}

#[test]
fn a_name_may_come_in_pieces() {
    for pieces in [
        &["read_", "file"][..],
        &["read", "_file"],
        &["r", "ead", "_fi", "le"],
    ] {
        for with_index in [true, false] {
            let deltas: Vec<Value> = pieces
                .iter()
                .map(|piece| {
                    let part = json!({"function": {"name": piece}});
                    json!([if with_index { indexed(part, 0) } else { part }])
                })
                .chain([json!([{"function": {"arguments": "{}"}}])])
                .collect();
            assert_eq!(assemble(&deltas), [call("read_file", "{}")], "{pieces:?}");
        }
    }
    // A tool nobody offered.
    let deltas = [
        json!([{"function": {"name": "foo_"}}]),
        json!([{"function": {"name": "bar"}}]),
    ];
    assert_eq!(assemble(&deltas), [call("foo_bar", "")]);
    let deltas = [
        json!([{"function": {"name": "foo"}}]),
        json!([{"function": {"name": "foo_bar"}}]),
    ];
    assert_eq!(assemble(&deltas), [call("foo_bar", "")]);
}

#[test]
fn a_call_that_is_sent_again_whole_is_one_call() {
    let deltas = [
        json!([indexed(read("a", "x"), 0)]),
        json!([indexed(read("a", "x"), 0)]),
    ];
    assert_eq!(assemble(&deltas), [call("read_file", r#"{"path":"x"}"#)]);
}

#[test]
fn an_empty_object_ahead_of_the_arguments_is_replaced_by_them() {
    let deltas = [
        json!([{"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "{}"}}]),
        json!([{"index": 0, "function": {"arguments": "{\"path\":"}}]),
        json!([{"index": 0, "function": {"arguments": "\"x\"}"}}]),
    ];
    assert_eq!(assemble(&deltas), [call("read_file", r#"{"path":"x"}"#)]);
}

#[test]
fn a_call_may_get_its_id_late() {
    let deltas = [
        json!([{"index": 0, "function": {"name": "list"}}]),
        json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]),
    ];
    let calls = finished(&deltas, Cut::No);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].provider_id.as_deref(), Some("a"));
}

#[test]
fn a_call_that_was_cut_is_marked() {
    let deltas = [
        json!([indexed(read("a", "x"), 0)]),
        json!([{"index": 1, "id": "b", "function": {"name": "bash", "arguments": "{\"command\":\"rm -rf b"}}]),
    ];
    let complete = |cut| {
        finished(&deltas, cut)
            .iter()
            .map(|call| call.complete)
            .collect::<Vec<_>>()
    };
    assert_eq!(complete(Cut::Yes), [true, false]);
    assert_eq!(complete(Cut::Unknown), [true, false]);
    assert_eq!(complete(Cut::No), [true, true]);
    let bare = [json!([{"index": 0, "id": "a", "function": {"name": "list"}}])];
    assert!(!finished(&bare, Cut::Yes)[0].complete);
    assert!(finished(&bare, Cut::Unknown)[0].complete);
}

/// How a server tells calls apart.
#[derive(Debug, Clone, Copy)]
enum Marks {
    IndexAndFirstId,
    IdOnly,
    IndexOnly,
    NumberZeroAndFirstId,
    EverythingAlways,
}

proptest! {
    #[test]
    fn cuts_within_calls_change_nothing(
        wanted in proptest::collection::vec((0_usize..TOOLS.len(), "[a-z{}\"\\\\ é]{0,12}"), 1..5),
        sizes in proptest::collection::vec(1_usize..9, 1..20),
        marks in prop::sample::select(vec![
            Marks::IndexAndFirstId, Marks::IdOnly, Marks::IndexOnly, Marks::NumberZeroAndFirstId,
            Marks::EverythingAlways,
        ]),
    ) {
        let wanted: Vec<(String, String)> = wanted
            .iter()
            .map(|(tool, text)| call(TOOLS[*tool], &json!({"v": text}).to_string()))
            .collect();
        let mut deltas = Vec::new();
        for (index, (name, arguments)) in wanted.iter().enumerate() {
            let letters: Vec<char> = arguments.chars().collect();
            let mut rest = letters.as_slice();
            let mut sizes = sizes.iter().cycle();
            let mut first = true;
            while !rest.is_empty() {
                let (piece, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                rest = later;
                let piece: String = piece.iter().collect();
                let mut delta = json!({"function": {"arguments": piece}});
                let (with_index, with_id, with_name) = match marks {
                    Marks::IndexAndFirstId | Marks::NumberZeroAndFirstId => (true, first, first),
                    Marks::IdOnly => (false, first, first),
                    Marks::IndexOnly => (true, false, first),
                    Marks::EverythingAlways => (true, true, true),
                };
                if with_index {
                    let number = if matches!(marks, Marks::NumberZeroAndFirstId) { 0 } else { index };
                    delta["index"] = json!(number);
                }
                if with_id {
                    delta["id"] = json!(format!("id{index}"));
                }
                if with_name {
                    delta["function"]["name"] = json!(name);
                }
                deltas.push(json!([delta]));
                first = false;
            }
        }
        prop_assert_eq!(assemble(&deltas), wanted);
    }

    #[test]
    fn no_stream_of_pieces_breaks_the_assembly(
        pieces in proptest::collection::vec(
            (proptest::option::of(0_u64..4), proptest::option::of("[ab]?"),
             proptest::option::of("(read|_file|list|)"), "(\\{|\\}|\"|a|\\{\\})?"),
            0..30,
        ),
    ) {
        let mut total = 0;
        let mut calls = Calls::of_tools(TOOLS);
        for (index, id, name, arguments) in pieces {
            total += arguments.len();
            calls.take([Fragment::from_call(
                &json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}),
            )]);
        }
        let kept: usize = calls.finish(Cut::No).iter().map(|call| call.arguments.len()).sum();
        prop_assert!(kept <= total);
    }
}
