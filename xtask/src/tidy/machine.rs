//! Rule: nothing in the tree names one machine's folders or the hosts of package registries.

use super::{Tree, Violation};

/// This file has to name what it refuses.
const THIS_FILE: &str = "xtask/src/tidy/machine.rs";

/// Folders that belong to whoever wrote the path.
const FOLDERS: &[&str] = &["/root/"];

/// Where people live; followed by a name and a slash it is somebody's own folder.
const HOMES: &str = "/home/";

/// Made-up people of examples and tests.
const EXAMPLE_PEOPLE: &[&str] = &["me"];

/// How the hosts begin that package managers know by themselves, and that a mirror may replace.
const REGISTRY_LABELS: &[&str] = &["index", "static", "registry", "files", "deb"];

/// What such hosts are called otherwise, at any place in their name.
const REGISTRY_NAMES: &[&str] = &["crates", "npmjs", "pypi", "pythonhosted", "rubygems"];

/// Exceptions, as (file, what may stand there): each needs a reason beside it.
const ALLOWED: &[(&str, &str)] = &[];

/// Lists the paths and hosts that would hold on one machine only.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in tree.own().filter(|source| source.path != THIS_FILE) {
        for (index, line) in source.text.lines().enumerate() {
            for found in findings(line) {
                if ALLOWED.contains(&(source.path.as_str(), found.as_str())) {
                    continue;
                }
                let what = format!("`{found}` ties the project to one machine");
                let remedy = "use a relative path, a setting or a made-up name";
                violations.push(Violation::new(&source.path, index + 1, what, remedy));
            }
        }
    }
    violations
}

fn findings(line: &str) -> Vec<String> {
    let folders = FOLDERS
        .iter()
        .filter(|folder| roots(line, folder).next().is_some());
    let registries = hosts(line).filter(|host| is_registry(host));
    let homes = roots(line, HOMES).filter_map(|rest| {
        let (person, _) = rest.split_once('/')?;
        let is_name = !person.is_empty()
            && person
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        (is_name && !EXAMPLE_PEOPLE.contains(&person)).then(|| format!("{HOMES}{person}/"))
    });
    folders
        .map(|text| (*text).to_owned())
        .chain(registries.map(str::to_owned))
        .chain(homes)
        .collect()
}

/// What follows each place where `prefix` begins an absolute path.
fn roots<'a>(line: &'a str, prefix: &str) -> impl Iterator<Item = &'a str> {
    line.match_indices(prefix).filter_map(move |(at, found)| {
        let before = line.get(..at)?.chars().next_back();
        // After a name, a variable or a glob it goes on with some other path.
        let goes_on = before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '}' | '>' | '*')
        });
        if goes_on {
            None
        } else {
            line.get(at + found.len()..)
        }
    })
}

/// The hosts of the web addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    ["http://", "https://"]
        .into_iter()
        .flat_map(|scheme| line.split(scheme).skip(1))
        .filter_map(|rest| {
            let authority = rest.split(['/', '?', '#', ' ']).next()?;
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            host.split(|c: char| !(c.is_alphanumeric() || "-.".contains(c)))
                .next()
        })
}

fn is_registry(host: &str) -> bool {
    // A name may end with the dot of the root.
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    match labels.as_slice() {
        [first, _, _, ..] if REGISTRY_LABELS.contains(first) => true,
        [names @ .., _top] => names.iter().any(|name| REGISTRY_NAMES.contains(name)),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::sample;
    use super::*;

    fn count(line: &str) -> usize {
        check(&sample::file("a.md", line)).len()
    }

    #[test]
    fn folders_of_one_machine_are_listed() {
        for line in ["\"/root/.cargo\"", "file:///home/alice/x", "(/home/b-c/d)"] {
            assert_eq!(count(line), 1, "{line}");
        }
    }

    #[test]
    fn made_up_people_and_longer_paths_are_free() {
        for line in [
            "/home/me/project",
            "{base}/root/x",
            "~/root/x",
            "/home/",
            "/root",
        ] {
            assert_eq!(count(line), 0, "{line}");
        }
    }

    #[test]
    fn registry_hosts_are_listed() {
        for label in REGISTRY_LABELS {
            assert_eq!(
                count(&format!("see https://{label}.example.org/x")),
                1,
                "{label}"
            );
        }
        for name in REGISTRY_NAMES {
            for line in [
                format!("https://{name}.example"),
                format!("get https://{name}.example/simple/x."),
                format!("<http://www.{name}.example>"),
                format!("sparse+https://user@a.{}.example:443/", name.to_uppercase()),
                format!("It is at https://{name}.example."),
            ] {
                assert_eq!(count(&line), 1, "{line}");
            }
        }
        for line in [
            "https://docs.example.org/index.html",
            "http://index/",
            "static.example.org",
            "https://example.org/pypi/crates.npmjs",
            "https://example.pypi",
            "https://crates-of-fruit.example",
        ] {
            assert_eq!(count(line), 0, "{line}");
        }
    }

    #[test]
    fn the_rule_reads_its_own_file_only_for_its_names() {
        assert_eq!(check(&sample::file(THIS_FILE, "/root/")), []);
    }
}
