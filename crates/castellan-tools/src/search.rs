//! `search`: the lines of files that match a regex.
//!
//! In process, with ripgrep's libraries for the regex, the lines and the ignore rules. The walk is
//! our own (see `search/walk.rs`), because what was skipped has to be counted and our own state
//! stays closed. A search first lists the files, then looks into them in order on several threads.

mod answer;
mod glob;
mod line;
mod pattern;
mod rules;
mod scan;
mod stop;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::Outcome;
use castellan_core::text::shorten;
use castellan_core::tool::{CallContext, Inspection, Report, SessionView, ToolSpec, TypedTool};
use futures::future::{BoxFuture, Either, FutureExt as _, select};
use grep_regex::RegexMatcher;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking;
use crate::file::{self, Closed, Place, Spelling, spec};

use answer::{Answer, NOTES};
use glob::Filter;
use pattern::Case;
use scan::Manner;
use stop::{Cause, Stop};
use walk::{Found, Ground};

/// How long a search may take.
const TIME: Duration = Duration::from_secs(20);
/// How much longer the gate waits: a read that hangs in the kernel can't be stopped sooner.
const ENDING: Duration = Duration::from_secs(10);
/// Threads of one search; more gain little and take them from others.
const THREADS: usize = 8;
/// The most lines shown around a hit.
const CONTEXT: i64 = 10;

/// The arguments of `search`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The regex, in the dialect of Rust's regex crate: alternation is `a|b`, `\(` is a
    /// parenthesis; no lookaround, no backreferences. It is looked for within single lines.
    query: String,
    /// File or folder to search in. Default: the working folder.
    path: Option<PathBuf>,
    /// `sensitive` (default), `insensitive`, or `smart`: insensitive unless the query has a capital
    /// letter.
    #[serde(default)]
    case: Case,
    /// Which files, as globs with commas between: `*.rs`, `src/**/*.toml`, `!*.lock`. Without a
    /// slash a glob is about names at any depth, with one about paths below `path`.
    glob: Option<String>,
    /// Lines to show around each hit, 0 to 10. Default 0.
    #[schemars(range(min = 0, max = 10))]
    context: Option<i64>,
    /// Only the paths of files with hits, each with how many lines match. Not with context.
    files_only: Option<bool>,
    /// Search ignored and hidden files too. Default false.
    include_ignored: Option<bool>,
}

/// Where and for what to search.
#[derive(Debug)]
pub struct Plan {
    place: Place,
    is_file: bool,
    matcher: RegexMatcher,
    filter: Filter,
}

/// The tool.
#[derive(Debug)]
pub struct Search {
    spec: ToolSpec,
    closed: Closed,
}

impl Search {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed) -> Self {
        let mut spec = spec::reading::<Params>(
            "search",
            "Search files for a regex",
            "Search a file or the files of a folder for a regex. Hits come back as \
             `PATH:LINE: TEXT`, sorted by path; with `context`, lines around them as \
             `PATH-LINE- TEXT`; with `files_only`, only `PATH: COUNT`. Files that .gitignore or \
             .ignore names and hidden files are skipped, with or without a repository, unless \
             `path` names them or `include_ignored` is set; a glob such as `.env*` finds hidden files; `.git` is entered only where `path` \
             names it. Links are not followed, binary files are named but not shown. The answer \
             says how much was searched and what was not.",
        );
        spec.primary_key = Some("query".to_owned());
        spec.examples = vec![
            serde_json::json!({"query": "fn main\\b"}),
            serde_json::json!({
                "query": "todo|fixme", "path": "src", "case": "insensitive", "glob": "*.rs,*.toml",
                "context": 2,
            }),
            serde_json::json!({"query": "deprecated", "files_only": true}),
        ];
        spec.preconditions = vec!["the path names a regular file or a folder".to_owned()];
        Self { spec, closed }
    }
}

impl TypedTool for Search {
    type Params = Params;
    type Plan = Plan;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        match params.context {
            Some(lines) if !(0..=CONTEXT).contains(&lines) => {
                return Err(Outcome::invalid(
                    format!("`context` is {lines}"),
                    "it is a number of lines from 0 to 10; `read_file` shows more",
                ));
            }
            Some(1..) if params.files_only == Some(true) => {
                return Err(Outcome::invalid(
                    "`files_only` shows no lines, so there is no `context` to show",
                    "give one of them",
                ));
            }
            _ => {}
        }
        pattern::parse(&params.query)
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, Plan), Outcome>> {
        let (wanted, cwd, closed) = (params.clone(), view.cwd.clone(), self.closed.clone());
        async move {
            let place = params.path.as_deref().unwrap_or(Path::new("."));
            let plan = blocking("looking", move || plan(&wanted, &cwd, &closed)).await?;
            let header = format!(
                "search {}{} for {}",
                file::shown(place),
                view.elsewhere(place),
                shorten(&params.query, 100)
            );
            let mut inspection = Inspection::new("search", header);
            inspection.paths = vec![plan.place.path.clone()];
            inspection.deadline = Some(TIME + ENDING);
            Ok((inspection, plan))
        }
        .boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        plan: Plan,
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            let stop = Arc::new(Stop::default());
            let limit = context.view.result_limit;
            let (seen, closed) = (Arc::clone(&stop), self.closed.clone());
            let work = move || Ok(search(&params, &plan, &closed, limit, &seen));
            let mut work = std::pin::pin!(blocking("searching", work));
            let over = select(context.cancel.clone(), context.clock.sleep(TIME));
            let done = match select(&mut work, over).await {
                Either::Left((done, _)) => done,
                Either::Right((why, _)) => {
                    stop.stop(match why {
                        Either::Left(_) => Cause::Cancelled,
                        Either::Right(_) => Cause::Time,
                    });
                    work.await
                }
            };
            done.unwrap_or_else(|broken| broken).into()
        }
        .boxed()
    }
}

/// Compiles a pattern that picks lines, in the dialect of `search`.
pub(crate) fn compile_filter(filter: &str) -> Result<RegexMatcher, Outcome> {
    pattern::compile(filter, Case::Sensitive).map_err(|outcome| match outcome {
        Outcome::Failed { what, next, .. } => {
            Outcome::invalid(what.replace("`query`", "`filter`"), next)
        }
        other => other,
    })
}

fn plan(params: &Params, cwd: &Path, closed: &Closed) -> Result<Plan, Outcome> {
    let given = params.path.as_deref().unwrap_or(Path::new(""));
    let matcher = pattern::compile(&params.query, params.case)?;
    let mut filter = Filter::new(params.glob.as_deref().unwrap_or_default())?;
    let place = Place::find(cwd, given, Spelling::Alike, closed)?;
    let (path, root) = (cwd.join(given), &place.path);
    // Not opened: a FIFO would have to be waited for.
    let metadata = root
        .symlink_metadata()
        .map_err(|error| file::explain(&path, &error))?;
    if !metadata.is_dir() {
        file::require_regular(&path, metadata.file_type())?;
    }
    let base = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    filter.set_below(root.strip_prefix(&base).ok());
    Ok(Plan {
        place,
        is_file: !metadata.is_dir(),
        matcher,
        filter,
    })
}

fn search(params: &Params, plan: &Plan, closed: &Closed, limit: usize, stop: &Stop) -> Outcome {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(THREADS);
    let root = &plan.place.path;
    let found = if plan.is_file {
        // A path that was named is always searched.
        Found {
            files: vec![PathBuf::new()],
            ..Found::default()
        }
    } else {
        let ground = Ground {
            root,
            filter: &plan.filter,
            closed,
            everything: params.include_ignored == Some(true),
            threads,
        };
        walk::walk(&ground, stop)
    };
    let room = (limit - NOTES.min(limit / 4)).max(1);
    let context = params.context.unwrap_or_default();
    let manner = Manner {
        context: usize::try_from(context).unwrap_or_default(),
        width: pattern::width(&params.query),
        bytes: room as u64,
        files_only: params.files_only == Some(true),
        named: plan.is_file,
        threads,
    };
    let mut scanned = scan::scan(root, &found.files, &plan.matcher, manner, stop);
    let mut query = params.query.clone();
    let mut note = None;
    if let Some(translated) = pattern::basic_alternation(&params.query) {
        let nothing = scanned.matches == 0 && !scanned.partial;
        if nothing && let Ok(matcher) = pattern::compile(&translated, params.case) {
            scanned = scan::scan(root, &found.files, &matcher, manner, stop);
            note = Some(format!(
                "in this dialect `\\|` is the character `|`, and `{query}` matched nothing; \
                 searched for the alternation `{translated}` instead"
            ));
            query = translated;
        } else {
            note =
                Some("in this dialect `\\|` is the character `|`; alternation is `|`".to_owned());
        }
    } else if params.query.contains(r"\\|") {
        note = Some(r"`\\|` is a backslash and then alternation; alternation alone is `|`".into());
    }
    let given = params.path.as_deref().unwrap_or(Path::new(""));
    let answer = Answer {
        query: &query,
        note,
        shown: given.strip_prefix(".").unwrap_or(given),
        found: &found,
        scanned: &scanned,
        cause: stop.cause(),
        seconds: TIME.as_secs(),
        room,
        context: context > 0,
        files_only: manner.files_only,
        glob: params.glob.as_deref().filter(|_| !plan.is_file),
    };
    plan.place.noted(answer.outcome())
}
