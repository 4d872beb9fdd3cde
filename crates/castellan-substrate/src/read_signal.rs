//! `castellan_read_signal`: how strong the signals of a zone are now.

use std::sync::Arc;

use castellan_core::field;
use castellan_core::nearest::likely;
use castellan_core::tool::{CallContext, Effect};
use castellan_core::{Outcome, Timestamp, Tool, ToolSpec};
use castellan_store::signals::{self, Signal};
use castellan_store::{LateStore, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::genome;
use crate::genome::Substrate;
use crate::name::check_name;
use crate::operation::{Answer, Failure, Operation, SUBSTRATE, spec};

const NAME: &str = "castellan_read_signal";

/// How many signals of a zone are listed.
const SHOWN: usize = 100;

/// How many zones are looked at for the name that was meant.
const ZONES: u32 = 1000;

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The zone to read.
    zone: String,
    /// Only this signal; left out, all of the zone, strongest first.
    signal: Option<String>,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The zone.
    zone: String,
    /// When it was read, RFC 3339.
    at: String,
    /// What all signals of the zone come to: the sum of each weight times strength.
    pressure: f64,
    /// How many signals the zone has.
    total: usize,
    /// The signals, strongest first, at most 100.
    signals: Vec<Entry>,
    /// What a careful reader should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// One signal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// Its name.
    signal: String,
    /// How strong it is now.
    strength: f64,
    /// What it counts in the pressure of its zone.
    weight: f64,
    /// Seconds until half of it has faded; 0 where it does not fade.
    half_life: f64,
    /// All that was ever added to it.
    total_deposited: f64,
    /// How often it was changed.
    deposits: u64,
    /// Who changed it last; null where nobody ever did.
    last_by: Option<String>,
    /// When, RFC 3339.
    last_at: Option<String>,
}

struct ReadSignal {
    spec: ToolSpec,
    store: LateStore,
}

/// The tool.
pub(crate) fn tool(store: LateStore) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        SUBSTRATE,
        "Read how strong the signals of a zone are now",
        "Read one signal of a zone, or all of them, strongest first: the strength now, all that \
         was ever deposited, who deposited last and when, and the pressure of the zone (the sum \
         of weight times strength). A signal that nobody deposited has strength 0.",
    );
    spec.primary_key = Some("zone".to_owned());
    spec.examples = vec![
        json!({"zone": "grid"}),
        json!({"zone": "grid", "signal": "coordination"}),
    ];
    spec.effects = vec![Effect::ReadOnly];
    crate::operation::tool(ReadSignal { spec, store })
}

impl Operation for ReadSignal {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_name("zone", &params.zone)?;
        let signal = params.signal.as_deref();
        signal.map_or(Ok(()), |signal| check_name("signal", signal))
    }

    fn header(&self, params: &Params) -> String {
        params.signal.as_ref().map_or_else(
            || format!("read the signals of {}", params.zone),
            |signal| format!("read {signal} in {}", params.zone),
        )
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let now = context.clock.now();
        let work = move |tx: &Tx<'_>| read(tx, &params, now);
        Ok(self.store.glance(work).await?.into())
    }
}

fn read(tx: &Tx<'_>, params: &Params, now: Timestamp) -> castellan_store::Result<Reply> {
    let weights = genome::history::holding(tx)?.genome.substrate;
    let zone = signals::in_zone(tx, &params.zone)?;
    let total = zone.len();
    let mut entries: Vec<Entry> = zone
        .into_iter()
        .map(|signal| entry(signal, &weights, now))
        .collect();
    entries.sort_by(|a, b| {
        let strongest = b.strength.total_cmp(&a.strength);
        strongest.then_with(|| a.signal.cmp(&b.signal))
    });
    let pressure = field::pressure(entries.iter().map(|entry| (entry.weight, entry.strength)));
    let note = if total == 0 {
        Some(nothing(tx, &params.zone)?)
    } else {
        None
    };
    let note = match &params.signal {
        Some(wanted) => {
            let known: Vec<String> = entries.iter().map(|entry| entry.signal.clone()).collect();
            entries.retain(|entry| entry.signal == *wanted);
            if entries.is_empty() {
                entries.push(absent(wanted, &weights));
                note.or_else(|| {
                    let meant = likely(wanted, known.iter().map(String::as_str));
                    Some(format!(
                        "nothing was ever deposited as `{wanted}` here{}",
                        did_you_mean(meant)
                    ))
                })
            } else {
                note
            }
        }
        None if total > SHOWN => {
            entries.truncate(SHOWN);
            Some(format!(
                "the strongest {SHOWN} of {total} signals; the pressure is of all"
            ))
        }
        None => note,
    };
    Ok(Reply {
        zone: params.zone.clone(),
        at: now.to_string(),
        pressure,
        total,
        signals: entries,
        note,
    })
}

fn entry(signal: Signal, substrate: &Substrate, now: Timestamp) -> Entry {
    Entry {
        strength: signal.strength_at(now),
        weight: substrate.weight(&signal.signal),
        half_life: signal.mark.half_life,
        total_deposited: signal.total,
        deposits: signal.changes,
        last_at: Some(signal.mark.at.to_string()),
        last_by: Some(signal.by),
        signal: signal.signal,
    }
}

fn absent(name: &str, substrate: &Substrate) -> Entry {
    Entry {
        signal: name.to_owned(),
        strength: 0.0,
        weight: substrate.weight(name),
        half_life: substrate.half_life,
        total_deposited: 0.0,
        deposits: 0,
        last_by: None,
        last_at: None,
    }
}

fn nothing(tx: &Tx<'_>, zone: &str) -> castellan_store::Result<String> {
    let zones = signals::zones(tx, ZONES)?.rows;
    let meant = likely(zone, zones.iter().map(|zone| zone.zone.as_str()));
    Ok(format!(
        "nothing was ever deposited in `{zone}`{}",
        did_you_mean(meant)
    ))
}

fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}
