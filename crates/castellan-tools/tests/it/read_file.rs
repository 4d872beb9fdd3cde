//! `read_file`.

use std::path::PathBuf;
use std::sync::Arc;

use castellan_core::{Cancel, Outcome, PictureType};
use castellan_testkit::Home;
use castellan_tools::file::{Closed, mark_of};
use castellan_tools::parse::{Answer, Format, Parsed, Parser, Unparsed};
use castellan_tools::read_file::ReadFile;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::drive::{call, reader, text, view};

async fn read(home: &Home, arguments: Value) -> String {
    text(
        call(
            reader(Closed::default()),
            arguments,
            &view(&home.workspace()),
        )
        .await,
    )
}

#[tokio::test]
async fn lines_come_numbered_and_keep_their_trailing_blanks() {
    let home = Home::new();
    home.write("a.txt", "one  \r\ntwo\t\nthree");
    let shown = read(&home, json!({"path": "a.txt"})).await;
    assert_eq!(shown, "     1\tone  \n     2\ttwo\t\n     3\tthree\n");
}

#[tokio::test]
async fn a_byte_order_mark_is_not_shown() {
    let home = Home::new();
    home.write("b.txt", b"\xef\xbb\xbfalpha\n");
    assert_eq!(
        read(&home, json!({"path": "b.txt"})).await,
        "     1\talpha\n"
    );
}

#[tokio::test]
async fn a_long_file_comes_in_pages_that_join() {
    let home = Home::new();
    let whole: String = (1..=50_000).map(|n| format!("line number {n}\n")).collect();
    home.write("long.txt", &whole);
    let (mut offset, mut joined, mut pages) = (1, String::new(), 0);
    loop {
        let page = read(&home, json!({"path": "long.txt", "offset": offset})).await;
        assert!(page.len() <= 256 * 1024);
        pages += 1;
        for line in page.lines().filter_map(|line| line.split_once('\t')) {
            joined.push_str(line.1);
            joined.push('\n');
        }
        let Some((_, next)) = page.rsplit_once("continue with offset ") else {
            break;
        };
        assert!(page.contains("of 50000 lines"));
        let next = next.trim_end().trim_end_matches(']').parse().unwrap();
        assert!(next > offset, "a page always moves on");
        offset = next;
    }
    assert!(pages > 1 && joined == whole, "{pages}");
}

#[tokio::test]
async fn one_huge_line_is_clipped_and_its_neighbours_are_shown() {
    let home = Home::new();
    home.write("m.js", format!("first\n{}\nlast\n", "x".repeat(5_000_000)));
    let shown = read(&home, json!({"path": "m.js"})).await;
    assert!(shown.len() < 10_000, "{}", shown.len());
    assert!(
        shown.contains("5000000 bytes") && shown.contains("     3\tlast"),
        "{shown}"
    );
    home.write("one.js", "y".repeat(5_000_000));
    let shown = read(&home, json!({"path": "one.js"})).await;
    assert!(
        shown.contains("5000000 bytes") && !shown.contains("continue with"),
        "{shown}"
    );
}

#[tokio::test]
async fn each_odd_request_has_its_own_answer() {
    let home = Home::new();
    home.write("empty", "");
    home.write("three", "1\n2\n3\n");
    std::fs::create_dir(home.workspace().join("folder")).unwrap();
    for (arguments, part) in [
        (json!({"path": "empty"}), "is empty"),
        (json!({"path": "three", "offset": 9}), "has 3 lines"),
        (json!({"path": "three", "limit": 0}), "`limit` is 0"),
        (json!({"path": "three", "offset": -1}), "`offset` is -1"),
        (json!({"path": "folder"}), "is a folder"),
        (json!({"path": "absent"}), "does not exist"),
        (json!({"path": "three/x"}), "is a file, not a folder"),
        (json!({"pth": "three"}), "did you mean `path`"),
    ] {
        let shown = read(&home, arguments.clone()).await;
        assert!(shown.contains(part), "{arguments}: {shown}");
    }
}

#[tokio::test]
async fn what_is_not_a_regular_file_is_refused_by_its_kind_at_once() {
    let home = Home::new();
    let folder = home.workspace();
    nix::unistd::mkfifo(&folder.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    for (link, target) in [
        ("to-pipe", "pipe"),
        ("to-zero", "/dev/zero"),
        ("loop", "loop"),
        ("gone", "absent"),
    ] {
        std::os::unix::fs::symlink(target, folder.join(link)).unwrap();
    }
    for (path, part) in [
        ("pipe", "FIFO"),
        ("socket", "socket"),
        ("to-pipe", "FIFO"),
        ("to-zero", "character device"),
        ("/dev/zero", "character device"),
        ("loop", "loop of links"),
        ("gone", "does not exist"),
    ] {
        let shown = read(&home, json!({"path": path})).await;
        assert!(
            shown.starts_with("Error") && shown.contains(part),
            "{path}: {shown}"
        );
    }
}

#[tokio::test]
async fn a_binary_file_is_named_with_its_size() {
    let home = Home::new();
    home.write("image.txt", b"\x89PNG\r\n\x1a\n rest");
    home.write("data", b"text\0more");
    assert!(
        read(&home, json!({"path": "image.txt"}))
            .await
            .contains("13 bytes, is not shown: it begins like a PNG picture")
    );
    assert!(
        read(&home, json!({"path": "data"}))
            .await
            .contains("a binary file, 9 bytes")
    );
    home.write("latin", b"caf\xe9\n");
    assert!(
        read(&home, json!({"path": "latin"}))
            .await
            .contains("not valid UTF-8")
    );
}

/// A parser that always says the same.
struct Says(Result<Answer, Unparsed>);

impl Parser for Says {
    fn parse(
        &self,
        _: Format,
        _: PathBuf,
        _: Cancel,
    ) -> BoxFuture<'static, Result<Answer, Unparsed>> {
        Box::pin(futures::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn reading_a_picture_that_is_cancelled_is_cancelled() {
    let home = Home::new();
    home.write("p.png", b"\x89PNG\r\n\x1a\n rest");
    let tool = ReadFile::new(Closed::default(), Arc::new(Says(Err(Unparsed::Cancelled))));
    let report = call(tool, json!({"path": "p.png"}), &view(&home.workspace())).await;
    assert!(
        matches!(report.outcome, Outcome::Cancelled { .. }),
        "{report:?}"
    );
    assert!(report.session.is_empty(), "nothing was seen");
}

#[tokio::test]
async fn a_picture_that_was_made_smaller_is_told_with_both_its_sizes() {
    let home = Home::new();
    let bytes = b"II\x2a\0 a large picture";
    home.write("p.tiff", bytes);
    let answer = Answer {
        digest: mark_of(bytes).digest,
        parsed: Parsed::Picture {
            found: "TIFF".to_owned(),
            kind: PictureType::Png,
            width: 750,
            height: 500,
            converted: true,
            shrunk_from: Some((3000, 2000)),
        },
        body: b"smaller".to_vec(),
    };
    let tool = ReadFile::new(Closed::default(), Arc::new(Says(Ok(answer))));
    let report = call(tool, json!({"path": "p.tiff"}), &view(&home.workspace())).await;
    assert_eq!(report.pictures.len(), 1);
    let said = text(report);
    assert!(
        said.contains(
            "TIFF picture, 3000 x 2000 pixels, 20 bytes; shown as PNG, made smaller to 750 x 500 \
             pixels"
        ),
        "{said}"
    );
}

#[tokio::test]
async fn a_gigabyte_costs_only_its_first_page() {
    let home = Home::new();
    home.write("big", "a line\n".repeat(100_000));
    let file = std::fs::File::options()
        .write(true)
        .open(home.workspace().join("big"))
        .unwrap();
    file.set_len(1 << 30).unwrap();
    let shown = read(&home, json!({"path": "big", "limit": 10})).await;
    assert!(
        shown.contains("lines 1 to 10 of 1073741824 bytes"),
        "{shown}"
    );
}
