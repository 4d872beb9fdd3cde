//! The one list of tools. Whatever shows or runs tools reads it; the sets that differ by surface
//! are queries over it.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use castellan_core::bm25::Index;
use castellan_core::caller::Surface;
use castellan_core::model::ToolCard;
use castellan_core::nearest::nearest;
use castellan_core::outcome::{EffectStatus, Outcome, Retry};
use castellan_core::text::{one_line, shorten};
use castellan_core::tool::Offered;
use castellan_core::{ErrorCode, Tool, ToolSpec};

use crate::error::Error;

/// How many names an error about an unknown tool lists.
const NAMES_LISTED: usize = 12;
/// The longest summary, in characters.
const SUMMARY_LIMIT: usize = 80;
/// Prefixes models put before names, from the namespaces other systems show them.
const KNOWN_PREFIXES: [&str; 6] = [
    "functions.",
    "functions:",
    "function.",
    "tools.",
    "tool.",
    "default_api.",
];

/// The tools of this process.
#[derive(Clone, Default)]
pub struct Catalog {
    tools: Vec<Arc<dyn Tool>>,
    by_name: HashMap<String, usize>,
    /// Made by the first search.
    index: OnceLock<Index>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.specs().map(|spec| &spec.name))
            .finish()
    }
}

impl Catalog {
    /// A catalog of these tools, in this order.
    ///
    /// # Errors
    /// [`Error::DuplicateTool`] or [`Error::BadSpec`].
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, Error> {
        let mut by_name = HashMap::with_capacity(tools.len());
        for (position, tool) in tools.iter().enumerate() {
            let spec = tool.spec();
            if let Some(problem) = problem(spec) {
                return Err(Error::BadSpec {
                    name: spec.name.clone(),
                    problem,
                });
            }
            if by_name.insert(spec.name.clone(), position).is_some() {
                return Err(Error::DuplicateTool(spec.name.clone()));
            }
        }
        Ok(Self {
            tools,
            by_name,
            index: OnceLock::new(),
        })
    }

    /// Every spec, in order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| tool.spec())
    }

    /// The specs that may appear on `surface`.
    pub fn on(&self, surface: Surface) -> impl Iterator<Item = &ToolSpec> {
        self.specs().filter(move |spec| spec.appears_on(surface))
    }

    /// The tool of exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.by_name
            .get(name)
            .and_then(|position| self.tools.get(*position))
    }

    /// The tools that fit a few words best, by name, summary and description, best first.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<&ToolSpec> {
        let index = self.index.get_or_init(|| {
            Index::new(self.specs().map(|spec| {
                [
                    (&spec.name, 3.0),
                    (&spec.summary, 2.0),
                    (&spec.description, 1.0),
                    (&spec.domain, 1.0),
                ]
                .map(|(text, weight)| (text.as_str(), weight))
            }))
        });
        let hits = index.search(query, limit).into_iter();
        hits.filter_map(|hit| self.tools.get(hit.index))
            .map(|tool| tool.spec())
            .collect()
    }

    /// What a model on `surface` is told of its tools. `shells` says whether its session has ever
    /// started something in the background.
    #[must_use]
    pub fn cards(
        &self,
        surface: Surface,
        (cwd, workspace): (&Path, &Path),
        shells: bool,
    ) -> Vec<ToolCard> {
        self.on(surface)
            .filter(|spec| match spec.offered {
                Offered::Always => true,
                Offered::WithShells => shells,
            })
            .map(|spec| {
                let mut description = spec.description.clone();
                for (note, mark, path) in [
                    (&spec.cwd_note, "{working_dir}", cwd),
                    (&spec.workspace_note, "{workspace_dir}", workspace),
                ] {
                    if let Some(note) = note {
                        description.push(' ');
                        description.push_str(&note.replace(mark, &path.to_string_lossy()));
                    }
                }
                ToolCard {
                    name: spec.name.clone(),
                    description,
                    parameters: spec.parameters.clone(),
                }
            })
            .collect()
    }

    /// The tool that `sent` means on `surface`, and how the name was mended, if it was.
    ///
    /// One mend is made where it is unambiguous: blanks, a known prefix, the case.
    pub(crate) fn find(
        &self,
        sent: &str,
        surface: Surface,
    ) -> Result<(&Arc<dyn Tool>, Option<String>), Outcome> {
        let trimmed = sent.trim();
        let name = KNOWN_PREFIXES
            .iter()
            .find_map(|prefix| trimmed.strip_prefix(prefix))
            .filter(|_| self.get(trimmed).is_none())
            .unwrap_or(trimmed);
        let found = self.get(name).or_else(|| {
            let mut same = self.tools.iter().filter(|tool| {
                tool.spec().appears_on(surface) && tool.spec().name.eq_ignore_ascii_case(name)
            });
            same.next().filter(|_| same.next().is_none())
        });
        match found {
            Some(tool) if tool.spec().appears_on(surface) => {
                let name = &tool.spec().name;
                Ok((
                    tool,
                    (name != sent).then(|| {
                        format!(
                            "tool name `{}` taken as `{name}`",
                            one_line(&shorten(sent, 80))
                        )
                    }),
                ))
            }
            Some(tool) => Err(Outcome::Failed {
                output: String::new(),
                code: ErrorCode::ToolNotAvailable,
                what: format!("the tool `{}` is not available here", tool.spec().name),
                effect: EffectStatus::None,
                retry: Retry::Useless,
                next: self.names(name, surface),
            }),
            None => Err(Outcome::Failed {
                output: String::new(),
                code: ErrorCode::ToolNotFound,
                what: format!("there is no tool named `{}`", one_line(&shorten(name, 80))),
                effect: EffectStatus::None,
                retry: Retry::Useless,
                next: self.names(name, surface),
            }),
        }
    }

    fn names(&self, wanted: &str, surface: Surface) -> String {
        let all = nearest(wanted, self.on(surface).map(|spec| spec.name.as_str()));
        let total = all.len();
        let shown = all
            .into_iter()
            .take(NAMES_LISTED)
            .collect::<Vec<_>>()
            .join(", ");
        let more = if total > NAMES_LISTED {
            format!(" ({total} in all)")
        } else {
            String::new()
        };
        format!("the tools, nearest name first: {shown}{more}")
    }
}

/// The rule a spec breaks, if any.
fn problem(spec: &ToolSpec) -> Option<&'static str> {
    let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let properties = spec
        .parameters
        .get("properties")
        .and_then(serde_json::Value::as_object);
    let known = |name: &String| properties.is_some_and(|all| all.contains_key(name));
    if spec.name.is_empty() || spec.name.len() > 64 || !spec.name.chars().all(named) {
        Some("a name has 1 to 64 letters, digits, `_` and `-`")
    } else if spec.summary.is_empty() || spec.summary.chars().count() > SUMMARY_LIMIT {
        Some("a summary has 1 to 80 characters")
    } else if spec.effects.is_empty() {
        Some("the effects are not stated")
    } else if !spec.primary_key.iter().all(known) {
        Some("the primary key is no parameter")
    } else if !spec.secret_parameters.iter().all(known) {
        Some("a secret parameter is no parameter")
    } else {
        None
    }
}
