//! `castellan_query_field_history`: how the signals of zones got where they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::field::{pressure, resample, sample_time};
use castellan_core::tool::{CallContext, Effect};
use castellan_core::{Outcome, Timestamp, Tool, ToolSpec};
use castellan_store::signals::{self, Deposit, KEPT, KEPT_PER_SIGNAL, RETENTION, Span};
use castellan_store::{LateStore, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::genome;
use crate::moment::Moment;
use crate::name::check_name;
use crate::operation::{Answer, Failure, Operation, SUBSTRATE, spec};

const NAME: &str = "castellan_query_field_history";

/// How many deposits or samples are listed where nothing else is asked for.
const USUAL: u32 = 100;
/// How many are listed at most.
const LIMIT: u32 = 500;
/// How many signals are resampled at most.
const SERIES: u32 = 20;
/// How many values all series have together.
const VALUES: u32 = 4000;
/// The longest step, in seconds.
const STEP_LIMIT: f64 = 604_800.0;
/// The shortest step, in seconds: the store keeps milliseconds.
const STEP_LEAST: f64 = 0.001;

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// Only this zone.
    zone: Option<String>,
    /// Only signals of this name.
    signal: Option<String>,
    /// From then on: RFC 3339, Unix milliseconds, or how long ago (`10m`, `2h`).
    since: Option<Moment>,
    /// Until then; left out, now.
    until: Option<Moment>,
    /// Seconds between samples. With it the answer is strengths at these times, decay applied;
    /// without it, the deposits themselves.
    step: Option<f64>,
    /// How many deposits or samples, at most 500. Left out, 100.
    limit: Option<u32>,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// Where it begins, RFC 3339.
    since: String,
    /// Where it ends.
    until: String,
    /// How many deposits there are in that time, or samples that would cover it.
    total: u64,
    /// How many of them are listed: the newest.
    shown: usize,
    /// The deposits, newest first; absent with `step`.
    #[serde(skip_serializing_if = "Option::is_none")]
    deposits: Option<Vec<Entry>>,
    /// The samples; absent without `step`.
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<Samples>,
    /// How much history is kept.
    retention: Retention,
    /// What a careful reader should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// How much history is kept.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Retention {
    /// For how many days.
    days: u64,
    /// How many of the newest deposits of one signal.
    per_signal: u64,
    /// How many of the newest deposits of all signals.
    in_all: u64,
}

/// One deposit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// When, RFC 3339.
    at: String,
    /// Where.
    zone: String,
    /// What.
    signal: String,
    /// How much was added; negative where it was taken away.
    amount: f64,
    /// The strength right after.
    strength: f64,
    /// Who.
    by: String,
}

/// Strengths at even times.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Samples {
    /// The time of the first sample, RFC 3339.
    from: String,
    /// Seconds from one to the next.
    step: f64,
    /// The signals, most recently changed first, at most 20.
    series: Vec<Series>,
    /// How many signals there are.
    signals: u64,
    /// The pressure of each zone of which every signal is among the series.
    pressure: Vec<Pressure>,
}

/// One signal over time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Series {
    /// Where.
    zone: String,
    /// What.
    signal: String,
    /// What it counts in the pressure of its zone.
    weight: f64,
    /// How strong it was at each time, to six decimals; null where that is no longer known.
    strengths: Vec<Option<f64>>,
}

/// One zone over time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Pressure {
    /// The zone.
    zone: String,
    /// Its pressure at each time, to six decimals; null where that is no longer known.
    values: Vec<Option<f64>>,
}

struct QueryFieldHistory {
    spec: ToolSpec,
    store: LateStore,
}

/// The tool.
pub(crate) fn tool(store: LateStore) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        SUBSTRATE,
        "Query the history of the pressure field: deposits, or strengths over time",
        "See how signals got where they are. Without `step`: the deposits as they were made, \
         newest first. With `step`: the strength of each signal at even times, decay applied, and \
         the pressure of each zone. The answer says how much history is kept.",
    );
    spec.examples = vec![
        json!({"zone": "grid", "since": "1h"}),
        json!({"zone": "grid", "signal": "coordination", "since": "10m", "step": 60}),
    ];
    spec.effects = vec![Effect::ReadOnly];
    crate::operation::tool(QueryFieldHistory { spec, store })
}

impl Operation for QueryFieldHistory {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        for (what, name) in [("zone", &params.zone), ("signal", &params.signal)] {
            if let Some(name) = name {
                check_name(what, name)?;
            }
        }
        if let Some(step) = params.step
            && !(STEP_LEAST..=STEP_LIMIT).contains(&step)
        {
            return Err(Outcome::invalid(
                format!("`step` is {step}"),
                format!("it is in seconds, from {STEP_LEAST} to {STEP_LIMIT}"),
            ));
        }
        match params.limit {
            Some(limit) if !(1..=LIMIT).contains(&limit) => Err(Outcome::invalid(
                format!("`limit` is {limit}"),
                format!("it is from 1 to {LIMIT}"),
            )),
            _ => Ok(()),
        }
    }

    fn header(&self, params: &Params) -> String {
        match (&params.zone, &params.signal) {
            (Some(zone), Some(signal)) => format!("history of {signal} in {zone}"),
            (Some(zone), None) => format!("history of {zone}"),
            (None, Some(signal)) => format!("history of {signal} in every zone"),
            (None, None) => "history of every zone".to_owned(),
        }
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let query = Query::new(params, context.clock.now())?;
        let work = move |tx: &Tx<'_>| query.answer(tx);
        Ok(self.store.read(work).await?.into())
    }
}

/// What is asked for, all times settled.
struct Query {
    span: Span,
    now: Timestamp,
    step: Option<Duration>,
    limit: u32,
    /// Whether history that is no longer kept was asked for.
    cut: bool,
}

impl Query {
    fn new(params: Params, now: Timestamp) -> Result<Self, Outcome> {
        let at = |moment: &Moment, what: &str| {
            let wrong = |problem| Outcome::invalid(format!("`{what}`: {problem}"), "");
            moment.at(now).map_err(wrong)
        };
        let until = params.until.as_ref();
        let until = until.map_or(Ok(now), |until| at(until, "until"))?;
        let limit = params.limit.unwrap_or(USUAL);
        let step = params.step.map(whole_milliseconds);
        let oldest = signals::oldest_kept(now);
        let (since, cut) = match (&params.since, step) {
            (Some(since), _) => {
                let since = at(since, "since")?;
                (since.max(oldest), since < oldest)
            }
            (None, Some(step)) => {
                let length = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
                let length = length.saturating_mul(i64::from(limit) - 1);
                (Timestamp(until.0.saturating_sub(length)).max(oldest), false)
            }
            (None, None) => (oldest, false),
        };
        if since > until {
            return Err(Outcome::invalid(
                format!("`since` ({since}) is after `until` ({until})"),
                format!("it is {now} now, and history begins at {oldest}"),
            ));
        }
        Ok(Self {
            span: Span {
                zone: params.zone,
                signal: params.signal,
                since,
                until,
            },
            now,
            step,
            limit,
            cut,
        })
    }

    fn answer(&self, tx: &Tx<'_>) -> castellan_store::Result<Reply> {
        let mut reply = Reply {
            since: self.span.since.to_string(),
            until: self.span.until.to_string(),
            total: 0,
            shown: 0,
            deposits: None,
            samples: None,
            retention: Retention {
                days: RETENTION.as_secs() / 86_400,
                per_signal: KEPT_PER_SIGNAL,
                in_all: KEPT,
            },
            note: None,
        };
        let mut notes = Vec::new();
        if self.cut {
            let oldest = signals::oldest_kept(self.now);
            notes.push(format!("history begins at {oldest}"));
        }
        if let Some(step) = self.step {
            self.sampled(tx, step, &mut reply, &mut notes)?;
        } else {
            let page = signals::history(tx, &self.span, self.limit)?;
            reply.total = page.total;
            reply.shown = page.rows.len();
            reply.deposits = Some(page.rows.into_iter().map(entry).collect());
        }
        reply.note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(reply)
    }

    /// The last samples that fit the limit, and how many would cover the whole time.
    fn sampled(
        &self,
        tx: &Tx<'_>,
        step: Duration,
        reply: &mut Reply,
        notes: &mut Vec<String>,
    ) -> castellan_store::Result<()> {
        let length = self.span.until.since(self.span.since);
        let whole = length.as_millis() / step.as_millis().max(1) + 1;
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        let count = u32::try_from(whole).unwrap_or(u32::MAX).min(self.limit);
        let points = usize::try_from(count).unwrap_or(usize::MAX);
        let skipped = usize::try_from(whole - u64::from(count)).unwrap_or(usize::MAX);
        let from = sample_time(self.span.since, step, skipped);
        let page = signals::named(tx, &self.span, SERIES.min((VALUES / count).max(1)))?;
        let weights = genome::history::holding(tx)?.genome.substrate;
        let mut series = Vec::with_capacity(page.rows.len());
        for signal in page.rows {
            let course = signals::course(tx, &signal.zone, &signal.signal, self.span.until)?;
            series.push(Series {
                weight: weights.weight(&signal.signal),
                strengths: resample(&course.marks, course.before, from, step, points),
                zone: signal.zone,
                signal: signal.signal,
            });
        }
        let listed = u64::try_from(series.len()).unwrap_or(u64::MAX);
        if listed < page.total {
            notes.push(format!(
                "{listed} of {} signals; name a zone or a signal, or ask for fewer samples",
                page.total
            ));
        }
        let pressure = match &self.span.signal {
            None => pressures(tx, &series, points)?,
            Some(_) => Vec::new(),
        };
        for one in &mut series {
            one.strengths = one
                .strengths
                .iter()
                .map(|value| value.map(rounded))
                .collect();
        }
        reply.total = whole;
        reply.shown = points;
        reply.samples = Some(Samples {
            from: from.to_string(),
            step: step.as_secs_f64(),
            series,
            signals: page.total,
            pressure,
        });
        Ok(())
    }
}

/// A step as the store's times have it.
fn whole_milliseconds(seconds: f64) -> Duration {
    let milliseconds = Duration::from_secs_f64(seconds).as_millis().max(1);
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX))
}

fn entry(deposit: Deposit) -> Entry {
    Entry {
        at: deposit.mark.at.to_string(),
        zone: deposit.zone,
        signal: deposit.signal,
        amount: deposit.amount,
        strength: deposit.mark.strength,
        by: deposit.by,
    }
}

/// The pressure of each zone that `series` has whole.
fn pressures(
    tx: &Tx<'_>,
    series: &[Series],
    points: usize,
) -> castellan_store::Result<Vec<Pressure>> {
    let mut zones: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for one in series {
        zones.entry(&one.zone).or_default().push(one);
    }
    let mut found = Vec::new();
    for (zone, series) in zones {
        if signals::in_zone(tx, zone)?.len() > series.len() {
            continue;
        }
        let values = (0..points).map(|number| {
            let strengths = series
                .iter()
                .map(|one| Some((one.weight, one.strengths.get(number).copied().flatten()?)));
            let known = strengths.collect::<Option<Vec<_>>>()?;
            Some(rounded(pressure(known)))
        });
        found.push(Pressure {
            zone: zone.to_owned(),
            values: values.collect(),
        });
    }
    Ok(found)
}

/// What weighs less than a faint signal is left out of the text.
fn rounded(value: f64) -> f64 {
    let scaled = value * 1e6;
    if scaled.abs() < 9e15 {
        scaled.round() / 1e6
    } else {
        value
    }
}
