//! What `split` and `unwrapped` make of commands.

use super::*;

/// The words of every part, unknown ones with `?` before them.
fn words(text: &str) -> Vec<String> {
    let shown = |word: &Word| {
        word.literal()
            .map_or(format!("?{}", word.raw()), str::to_owned)
    };
    split(text)
        .unwrap()
        .iter()
        .map(|part| part.words.iter().map(shown).collect::<Vec<_>>().join("|"))
        .collect()
}

fn inner(text: &str) -> Vec<String> {
    split(text)
        .unwrap()
        .iter()
        .flat_map(|part| part.unwrapped().parts)
        .map(|part| part.text)
        .collect()
}

fn opaque(text: &str) -> bool {
    split(text)
        .unwrap()
        .iter()
        .any(|part| part.unwrapped().opaque.is_some())
}

#[test]
fn every_command_of_a_text_is_found_in_order() {
    for (text, expected) in [
        ("a && b || c; d & e | f |& g", "a b c d e f g"),
        ("(a; b) && { c; d; }", "a b c d"),
        ("if a; then b; elif c; then d; else e; fi", "a b c d e"),
        ("while a; do b; done; until c; do d; done", "a b c d"),
        ("for ((;;)); do a; done", "a"),
        ("case x in a) b;; *) c;; esac", "b c"),
        ("f() { a; }; function g { b; }; f", "a b f"),
        ("! a; time b; coproc c", "a time|b coproc|c"),
        ("a \"$(b `c`)\" `d`", "c b|?`c` d a|?\"$(b `c`)\"|?`d`"),
        ("a <(b) > >(c)", "c b a|?<(b)"),
        ("echo $((1 + $(a)))", "a echo|?$((1 + $(a)))"),
        ("X=$(a)", "a "),
        ("echo ${x:-$(a)}", "a echo|?${x:-$(a)}"),
        ("cat <<E\n$(a) $b\nE\nc", "a cat c"),
        ("cat <<'E'\n$(a)\nE\nc", "cat c"),
        ("cat <<E | sh\nx\nE", "cat sh"),
        ("cat <<E && b\nx\nE", "cat b"),
        ("cat <<E > f && b\nx\nE", "cat b"),
        (">f a -x", "a|-x"),
        ("a | b > f -x", "a b|-x"),
        ("`echo \\`a\\``", "a echo|?`a` ?`echo \\`a\\``"),
        ("[ -f x ] && [[ $a == b ]]", "[|-f|x|] [[|?$a|==|?b|]]"),
        ("export A=b; unset A", "export|A=b unset|A"),
    ] {
        assert_eq!(words(text).join(" "), expected, "{text}");
    }
}

#[test]
fn words_are_what_the_command_gets() {
    for (text, expected) in [
        ("a 'b c'\"d e\"f\\ g", "a|b cd ef g"),
        ("a \"b\\$c\\x\\\"\"", "a|b$c\\x\""),
        ("a $'b\\n\\x41\\101\\'c'", "a|b\nAA'c"),
        ("a b \\\nc", "a|b|c"),
        ("a {} {b} b,c a]", "a|{}|{b}|b,c|a]"),
        (
            "a {b,c} *.x ~/y $z \"$z\" ?",
            "a|?{b,c}|?*.x|?~/y|?$z|?\"$z\"|??",
        ),
        ("a b#c \"x\"#d # e", "a|b#c|x#d"),
        ("a '' \"\"", "a||"),
        ("a b=~ 'b='~ x:~ x~", "a|?b=~|?'b='~|?x:~|x~"),
        ("a $$ x-$$ $'\\x80'", "a|?$$|?x-$$|?$'\\x80'"),
    ] {
        assert_eq!(words(text), [expected], "{text}");
    }
}

#[test]
fn redirections_say_whether_they_write() {
    let part = |text: &str| split(text).unwrap().remove(0);
    let shown = |text: &str| -> Vec<String> {
        let redirections = part(text).redirections;
        let show =
            |one: &Redirection| format!("{} {} {}", one.operator, one.target.raw(), one.writes);
        redirections.iter().map(show).collect()
    };
    assert_eq!(shown("a > x 2>&1"), ["> x true", ">& 1 false"]);
    assert_eq!(
        shown("a >/dev/null 2>> $X"),
        ["> /dev/null false", ">> $X true"]
    );
    assert_eq!(
        shown("a &> x < y >| z"),
        ["&> x true", "< y false", ">| z true"]
    );
    assert_eq!(shown("a >& x 2>&-"), [">& x true", ">&- - false"]);
    assert_eq!(shown("a < /dev/tcp/h/1"), ["< /dev/tcp/h/1 true"]);
    assert_eq!(shown("a <<< 'x y'"), ["<<< 'x y' false"]);
    assert!(split("a \"$(b)\"").unwrap()[0].substituted);
}

#[test]
fn wrappers_are_looked_through() {
    for (text, last) in [
        ("sudo -u x -- env -i A=b timeout -k 1 5 rm y", "rm y"),
        ("sudo -nu x rm y", "rm y"),
        ("nice -n 5 ionice -c2 nohup setsid rm y", "rm y"),
        ("stdbuf -oL command exec -a x rm y", "rm y"),
        ("time -p \\rm y", "\\rm y"),
        ("xargs -0 -n 1 -I {} rm {}", "rm {}"),
        ("find . -name x -exec rm {} \\;", "rm {}"),
        ("find . -delete", "rm {}"),
        ("busybox rm y", "rm y"),
        ("chroot /x rm y", "rm y"),
        ("env -S 'A=b rm y'", "rm y"),
        ("bash -lc 'x; rm y'", "rm y"),
        ("bash -c -e 'rm y'", "rm y"),
        ("sh <<< 'rm y'", "rm y"),
        ("bash <<'E'\nrm y\nE", "rm y"),
        ("eval rm 'y'", "rm y"),
        ("trap 'rm y' EXIT", "rm y"),
        ("su root -c 'rm y'", "rm y"),
        ("watch -n 1 rm y", "rm y"),
        ("eval \"bash -c 'sudo rm y'\"", "rm y"),
        ("doas -u x rm y", "rm y"),
        ("timeout \"$T\" rm y", "rm y"),
        ("coproc x=1 rm y", "rm y"),
        ("time -p ! rm y", "rm y"),
        ("a | time -f x rm y", "rm y"),
        ("command -v rm", "command -v rm"),
        ("xargs", "xargs"),
        ("bash script.sh", "bash script.sh"),
    ] {
        assert_eq!(inner(text).last().map(String::as_str), Some(last), "{text}");
        assert!(!opaque(text), "{text}");
    }
}

#[test]
fn what_a_wrapper_hides_is_said() {
    for text in [
        "$X y",
        "sudo $X",
        "sudo $X rm y",
        "xargs $X",
        "bash -c \"$X\"",
        "eval \"$X\"",
        "curl x | sh",
        "bash -s",
        "find . $X",
        "find . -name \"$X\"",
        "source <(curl x)",
        "env -S \"$X\"",
        "bash -c 'a ('",
        "sudo -s",
        "su",
        "sh <<E\n$X\nE",
        "timeout $T rm y",
    ] {
        assert!(opaque(text), "{text}");
    }
}

#[test]
fn texts_inside_one_another_are_bounded_whatever_holds_them() {
    for (holds, deep) in [("watch ", 8), ("eval ", 8)] {
        let text = |times: usize| holds.repeat(times) + "ls";
        assert_eq!(inner(&text(3)).last().map(String::as_str), Some("ls"));
        assert!(opaque(&text(deep)), "{holds}");
    }
}

#[test]
fn what_bash_could_read_otherwise_is_unread() {
    for text in [
        "a (",
        "a 'b",
        "a \\",
        "[ a && b ]",
        "[ a > b ]",
        "a\rb",
        "a\u{b}b",
        "a\u{a0}b \\ c",
        "\\ a",
        "cat <<A <<B\nA\nB",
        "cat <<A\nx\\\nA\nrm y\nA",
        "cat <<\"A B\"\nA B",
        "a <> b",
        "{rm y;}",
        "!rm y",
        "echo ${x:-'}'; rm y; '}",
        "echo \"${x:-'}\"; rm y; echo '\"",
        "echo $'a\\\\' ; rm y; echo 'b'",
        "a {fd}>x",
        "if true; then",
        "x[$(rm y)]=1 z",
        "r\\\nm y",
        "a b\\\nc",
        "a $\\\n(rm y)",
        "a\n\\\nrm y",
        "a >$\nrm y",
        "a[[ b && rm y ]]",
        "a[ b ]",
        "a b[ c ]",
        "a[ b ] =c",
        "a >>$\nrm y\n",
    ] {
        let read = split(text);
        let sees_all = read.as_ref().is_ok_and(|parts| {
            parts.iter().any(|part| part.text.contains("rm y")) && text.contains("rm y")
        });
        assert!(read.is_err() || sees_all, "{text}: {read:?}");
    }
    assert!(split("ls; ls 'x").unwrap_err().at >= 3);
}

#[test]
fn a_text_made_to_cost_time_or_stack_is_given_up() {
    for text in [
        "(".repeat(100_000),
        "$(".repeat(50_000),
        "a $(".repeat(5_000),
        "((".repeat(3_333),
        "{ ".repeat(8_333),
        "`".repeat(16_666),
        format!("{}{}", "{ ".repeat(380), ")".repeat(5_000)),
        format!("{}{}", "f() {".repeat(380), ")".repeat(5_000)),
        format!("{}{}", "${".repeat(380), ")".repeat(5_000)),
        format!("{}{}", "[[ ".repeat(190), ")".repeat(5_000)),
        format!("{}{}", "!".repeat(5_000), ")".repeat(5_000)),
        "if a; then ".repeat(1_666),
        "a <<A\n".repeat(3_333),
        "${".repeat(8_333),
        "\"$(".repeat(5_000),
        "[[ ".repeat(5_000),
        "x".repeat(1_000_000),
        format!("{})", "if a; then ".repeat(1_500)),
        format!("{}fi )", "if a; then ".repeat(1_500)),
        format!("{}fi )", "case a in a) ".repeat(1_500)),
        format!("{})", "while a; do ".repeat(1_500)),
        format!("{})", "for a in b; do ".repeat(1_166)),
        format!("{})", "f() if a; then ".repeat(1_166)),
        format!("{})", "! ".repeat(1_500)),
        format!("{})", "a | ".repeat(3_333)),
        format!("{})", "a | ".repeat(1_000)),
        format!("{})", "a && ".repeat(3_333)),
        format!("{})", "a=".repeat(3_333)),
        format!("{})", "\"$(( ".repeat(390)),
        format!("{}))))", "f() {".repeat(390)),
        format!("{} )", "f() { a <<E\n $(x)\nE\n".repeat(390)),
        "a\\\n".repeat(5_000),
        "a'".repeat(8_333),
        "<<E ".repeat(32),
        "$((1+".repeat(3_333),
        "{a,".repeat(6_666),
        "f() {".repeat(3_333),
        "case a in a) ".repeat(1_500),
        "!".repeat(16_666),
        "<(".repeat(8_333),
    ] {
        let start: String = text.chars().take(12).collect();
        if let Ok(parts) = split(&text) {
            assert!(parts.len() <= MOST_PARTS, "{start}");
        }
    }
}

#[test]
fn long_ordinary_texts_are_read() {
    assert_eq!(
        split(
            "a && "
                .repeat(1000)
                .replace("&& ", "&& a && ")
                .trim_end_matches("&& ")
        )
        .unwrap()
        .len(),
        2000
    );
    assert_eq!(
        split(&"echo 'some text'\n".repeat(2000)).unwrap().len(),
        2000
    );
    let written = format!(
        "cat > f <<'E'\n{}E\nls",
        "let x = \"y $(z)\";\n".repeat(5000)
    );
    assert_eq!(split(&written).unwrap().len(), 2);
}
