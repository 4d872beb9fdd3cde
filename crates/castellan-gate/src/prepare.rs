//! Prepare: from what a model sent to a call that can be judged and run, or to an error result
//! that tells the model how to do better. One bad call never costs its neighbours.

use std::sync::Arc;

use castellan_core::arguments::{fit, read};
use castellan_core::caller::Surface;
use castellan_core::id::GrantId;
use castellan_core::message::{IssuedCall, RawCall};
use castellan_core::outcome::{EffectStatus, Retry};
use castellan_core::text::{counted, one_line, shorten};
use castellan_core::tool::{Inspection, SessionView, right_shape};
use castellan_core::{Call, CallId, ErrorCode, Outcome, Tool};
use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::vault::Vault;

/// A call that can be judged and run.
pub(crate) struct Prepared {
    pub(crate) call_id: CallId,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) call: Box<dyn Call>,
    /// With marked secrets concealed: for records only.
    pub(crate) arguments: Map<String, Value>,
    /// What was asked for, without content.
    pub(crate) params: String,
    pub(crate) repairs: Vec<String>,
    pub(crate) inspection: Inspection,
    /// The standing grants that let it through.
    pub(crate) grants: Vec<GrantId>,
}

/// A call that won't run.
pub(crate) struct Refused {
    pub(crate) call_id: CallId,
    /// The tool's name, as far as it could be made out.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// What was asked for, without content.
    pub(crate) params: String,
}

/// What stands for arguments that were kept out of the record because they could not be read and
/// their tool takes secrets.
const UNREADABLE: &str = "unreadable_and_not_recorded";

/// The call as it may be recorded: marked secrets swapped for handles.
pub(crate) fn conceal(
    catalog: &Catalog,
    vault: &Vault,
    surface: Surface,
    mut issued: IssuedCall,
) -> IssuedCall {
    let Ok((tool, _)) = catalog.find(&issued.raw.name, surface) else {
        return issued;
    };
    let spec = tool.spec();
    if spec.secret_parameters.is_empty() {
        return issued;
    }
    let raw = &mut issued.raw;
    match read(&raw.arguments, spec.primary_key.as_deref()) {
        Ok(mut read) => {
            if vault.conceal(issued.call_id, &mut read.object, &spec.secret_parameters) {
                raw.arguments = Value::Object(read.object).to_string();
            }
        }
        Err(_) => raw.arguments = format!("{{\"{UNREADABLE}\": {}}}", raw.arguments.len()),
    }
    issued
}

/// What a call means.
pub struct Understood<'a> {
    /// The tool.
    pub tool: &'a Arc<dyn Tool>,
    /// The arguments, as the tool takes them.
    pub arguments: Map<String, Value>,
    /// What was mended on the way.
    pub repairs: Vec<String>,
}

impl std::fmt::Debug for Understood<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Understood")
            .field("tool", &self.tool.spec().name)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

/// What a call means that was sent on `surface`, as far as that needs no look at the world.
///
/// # Errors
/// The tool's name as far as it is known, and what whoever sent it is told.
pub fn understand<'a>(
    catalog: &'a Catalog,
    surface: Surface,
    raw: &RawCall,
) -> Result<Understood<'a>, (String, Outcome)> {
    let (tool, renamed) = catalog
        .find(&raw.name, surface)
        .map_err(|outcome| (raw.name.trim().to_owned(), outcome))?;
    let spec = tool.spec();
    let named = |outcome| (spec.name.clone(), outcome);
    let mut repairs: Vec<String> = renamed.into_iter().collect();
    if raw.from_text {
        repairs.push("taken from the text of the answer".to_owned());
    }
    if !raw.complete {
        return Err(named(cut_off(&raw.arguments)));
    }
    let arguments = read(&raw.arguments, spec.primary_key.as_deref()).and_then(|mut read| {
        let fitted = fit(&mut read.object, &spec.parameters)?;
        repairs.append(&mut read.repairs);
        repairs.extend(fitted);
        Ok(read.object)
    });
    let arguments = arguments.map_err(|problem| {
        let what = format!("wrong arguments for {}: {problem}", spec.name);
        named(Outcome::invalid(what, right_shape(spec)))
    })?;
    Ok(Understood {
        tool,
        arguments,
        repairs,
    })
}

/// Prepares one call.
pub(crate) async fn prepare(
    (catalog, vault): (&Catalog, &Vault),
    surface: Surface,
    issued: &IssuedCall,
    view: &SessionView,
) -> Result<Prepared, Refused> {
    let call_id = issued.call_id;
    let raw = &issued.raw;
    let refused = |name: &str, outcome, params| Refused {
        call_id,
        name: one_line(&shorten(name, 64)),
        outcome,
        params,
    };
    let unread = || format!("arguments: {} bytes", raw.arguments.len());
    let Understood {
        tool,
        arguments,
        repairs,
    } = understand(catalog, surface, raw)
        .map_err(|(name, outcome)| refused(&name, outcome, unread()))?;
    take(vault, tool, call_id, (arguments, repairs), view).await
}

/// Checks arguments that came from elsewhere than the model against the tool's schema, and coerces
/// them as those of a model are.
pub(crate) fn fits(
    tool: &dyn Tool,
    arguments: &mut Map<String, Value>,
) -> Result<Vec<String>, String> {
    fit(arguments, &tool.spec().parameters)
}

/// Parses arguments that fit their tool and looks at what the call would do.
pub(crate) async fn take(
    vault: &Vault,
    tool: &Arc<dyn Tool>,
    call_id: CallId,
    (mut arguments, repairs): (Map<String, Value>, Vec<String>),
    view: &SessionView,
) -> Result<Prepared, Refused> {
    let spec = tool.spec();
    let refused = |name: &str, outcome, params| Refused {
        call_id,
        name: name.to_owned(),
        outcome,
        params,
    };
    let mut recorded = arguments.clone();
    vault.conceal(call_id, &mut recorded, &spec.secret_parameters);
    let params = summary(&recorded);
    if let Err(name) = vault.reveal(&mut arguments, &spec.secret_parameters) {
        let what = format!("the secret that `{name}` refers to is not known here any more");
        let outcome = Outcome::invalid(what, "get it again, and use what you then get");
        return Err(refused(&spec.name, outcome, params));
    }
    let mut call = tool
        .parse(arguments)
        .map_err(|outcome| refused(&spec.name, outcome, params.clone()))?;
    let inspection = match call.inspect(view).await {
        Ok(inspection) => Inspection {
            header: one_line(&inspection.header),
            ..inspection
        },
        Err(outcome) => return Err(refused(&spec.name, outcome, params)),
    };
    Ok(Prepared {
        call_id,
        tool: Arc::clone(tool),
        call,
        arguments: recorded,
        params,
        repairs,
        inspection,
        grants: Vec::new(),
    })
}

fn cut_off(arguments: &str) -> Outcome {
    Outcome::Failed {
        output: String::new(),
        code: ErrorCode::Validation,
        what: format!(
            "the arguments were cut off after {} bytes (by the output limit or a filter), so the \
             call was not made",
            arguments.len()
        ),
        effect: EffectStatus::None,
        retry: Retry::Useful,
        next: "make the call again with shorter arguments, in several steps if need be".to_owned(),
    }
}

/// What was asked for in one line: names and sizes, no content.
fn summary(arguments: &Map<String, Value>) -> String {
    let parts: Vec<String> = arguments
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {}", counted(text.len() as u64, "byte")),
            Value::Array(items) => format!("{name}: {} items", items.len()),
            Value::Object(fields) => format!("{name}: {} fields", fields.len()),
            Value::Null | Value::Bool(_) | Value::Number(_) => format!("{name}: {value}"),
        })
        .collect();
    shorten(&parts.join(", "), 200)
}
