//! `castellan tools`: the catalog.

use castellan_core::ToolSpec;
use castellan_core::nearest::nearest;
use castellan_gate::Catalog;
use serde::Serialize;

use crate::cli::Tools;
use crate::error::CommandError;
use crate::output::{line, out, table, word};

/// How many tools a search shows.
const SEARCH_LIMIT: usize = 20;

pub(crate) fn run(catalog: &Catalog, args: &Tools) -> Result<(), CommandError> {
    if let Some(name) = &args.name {
        let tool = catalog.get(name).ok_or_else(|| missing(catalog, name))?;
        if args.json {
            return json(tool.spec());
        }
        return out(&card(tool.spec()));
    }
    if let Some(query) = &args.search {
        return list(&catalog.search(query, SEARCH_LIMIT), args.json);
    }
    let specs: Vec<&ToolSpec> = if args.all {
        catalog.specs().collect()
    } else {
        catalog.on(args.surface).collect()
    };
    list(&specs, args.json)
}

/// The tool of this name in full, or those that fit these words best.
pub(crate) fn described(catalog: &Catalog, words: &str) -> Result<String, CommandError> {
    if let Some(tool) = catalog.get(words) {
        return Ok(card(tool.spec()));
    }
    let found = catalog.search(words, SEARCH_LIMIT);
    if found.is_empty() {
        return Err(missing(catalog, words));
    }
    let row = |spec: &&ToolSpec| vec![spec.name.clone(), spec.summary.clone()];
    Ok(table(&found.iter().map(row).collect::<Vec<_>>()))
}

fn missing(catalog: &Catalog, name: &str) -> CommandError {
    let near = nearest(name, catalog.specs().map(|spec| spec.name.as_str()));
    CommandError::usage(format!("there is no tool named `{name}`")).hint(format!(
        "the nearest names: {}",
        near.into_iter().take(3).collect::<Vec<_>>().join(", ")
    ))
}

fn list(specs: &[&ToolSpec], as_json: bool) -> Result<(), CommandError> {
    if as_json {
        return json(&specs);
    }
    let mut rows = vec![
        ["NAME", "DOMAIN", "DEFAULT", "EFFECTS", "SUMMARY"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(specs.iter().map(|spec| {
        vec![
            spec.name.clone(),
            spec.domain.clone(),
            word(&spec.default),
            words(&spec.effects),
            spec.summary.clone(),
        ]
    }));
    out(&table(&rows))
}

fn json(value: &impl Serialize) -> Result<(), CommandError> {
    line(&serde_json::to_string_pretty(value).map_err(CommandError::failed)?)
}

fn card(spec: &ToolSpec) -> String {
    let list = |title: &str, items: &[String]| {
        let items: String = items.iter().map(|item| format!("  - {item}\n")).collect();
        if items.is_empty() {
            String::new()
        } else {
            format!("{title}:\n{items}")
        }
    };
    let examples: Vec<String> = spec.examples.iter().map(ToString::to_string).collect();
    let schema = serde_json::to_string_pretty(&spec.parameters).unwrap_or_default();
    format!(
        "{name} ({domain}): {summary}\n\n{description}\n\nprimary key: {key}\ndefault: {default}\n\
         effects: {effects}\nsurfaces: {surfaces}\n{before}{after}{examples}parameters: {schema}\n",
        name = spec.name,
        domain = spec.domain,
        summary = spec.summary,
        description = spec.description,
        key = spec.primary_key.as_deref().unwrap_or("none"),
        default = word(&spec.default),
        effects = words(&spec.effects),
        surfaces = words(&spec.surfaces),
        before = list("preconditions", &spec.preconditions),
        after = list("side effects", &spec.side_effects),
        examples = list("examples", &examples),
    )
}

fn words<T: Serialize>(values: &[T]) -> String {
    values.iter().map(word).collect::<Vec<_>>().join(", ")
}
