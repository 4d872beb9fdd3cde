//! `castellan_deposit_signal`: makes a signal in a zone stronger, or weaker.

use std::sync::Arc;

use castellan_core::field::{AMOUNT_LIMIT, FAINT, HALF_LIFE_LIMIT, STRENGTH_LIMIT};
use castellan_core::tool::{CallContext, Effect};
use castellan_core::{Outcome, Tool, ToolSpec};
use castellan_store::signals::{self, Change, Changed};
use castellan_store::{LateStore, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::genome;
use crate::name::check_name;
use crate::operation::{Answer, Failure, Operation, SUBSTRATE, author, spec};

const NAME: &str = "castellan_deposit_signal";

/// The arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Params {
    /// The place, such as `grid` or `repo/api`: 1 to 64 of a-z 0-9 _ . : / -.
    zone: String,
    /// What is deposited there, such as `coordination`; named like a zone.
    signal: String,
    /// How much is added: above 0, at most 1000000. With `evaporate`, how much is taken away, as a
    /// negative number.
    amount: f64,
    /// Seconds until half of the signal has faded, 0 for a signal that does not fade. Left out, the
    /// signal keeps its own; a new one gets the genome's (600).
    half_life: Option<f64>,
    /// Take away instead of adding.
    #[serde(default)]
    evaporate: bool,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Reply {
    /// The zone.
    zone: String,
    /// The signal.
    signal: String,
    /// Its strength right before.
    before: f64,
    /// Its strength right after.
    after: f64,
    /// Seconds until half of it has faded; 0 where it does not fade.
    half_life: f64,
    /// All that was ever added to it.
    total_deposited: f64,
    /// How often it was changed.
    deposits: u64,
    /// When, RFC 3339.
    at: String,
    /// What a careful reader should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

struct DepositSignal {
    spec: ToolSpec,
    store: LateStore,
}

/// The tool.
pub(crate) fn tool(store: LateStore) -> Arc<dyn Tool> {
    let mut spec = spec::<Params, Reply>(
        NAME,
        SUBSTRATE,
        "Deposit a signal into a zone, where it fades and others can read it",
        "Leave a trace for agents you never talk to: add an amount to a named signal in a named \
         zone. Signals fade: after its half-life (600 s unless set, 0 for never) half of a signal \
         is left. Deposits of any number of agents add up. With `evaporate: true` a negative \
         amount takes away.",
    );
    spec.preconditions = vec![format!(
        "amount is above 0 and at most {AMOUNT_LIMIT}; below 0 only with evaporate: true"
    )];
    spec.side_effects = vec![
        "changes the strength of one signal, for every agent of this store".to_owned(),
        "adds one entry to the zone's field history".to_owned(),
    ];
    spec.examples = vec![
        json!({"zone": "grid", "signal": "coordination", "amount": 2.0}),
        json!({"zone": "repo/api", "signal": "conflict", "amount": 1, "half_life": 3600}),
        json!({"zone": "grid", "signal": "coordination", "amount": -1.5, "evaporate": true}),
    ];
    spec.effects = vec![Effect::Writes];
    crate::operation::tool(DepositSignal { spec, store })
}

impl Operation for DepositSignal {
    type Params = Params;
    type Reply = Reply;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        check_name("zone", &params.zone)?;
        check_name("signal", &params.signal)?;
        check_amount(params.amount, params.evaporate)?;
        params.half_life.map_or(Ok(()), check_half_life)
    }

    fn header(&self, params: &Params) -> String {
        let Params {
            zone,
            signal,
            amount,
            ..
        } = params;
        format!("deposit {amount} of {signal} into {zone}")
    }

    async fn run(&self, params: Params, context: &CallContext) -> Result<Answer<Reply>, Failure> {
        let change = Change {
            zone: params.zone,
            signal: params.signal,
            amount: params.amount,
            half_life: params.half_life,
            fresh_half_life: 0.0,
            by: author(context),
            at: context.clock.now(),
        };
        let work = move |tx: &Tx<'_>| deposit(tx, &change);
        let changed = self.store.write(work).await?;
        Ok(reply(changed, params.amount).into())
    }
}

fn deposit(tx: &Tx<'_>, change: &Change) -> castellan_store::Result<Changed> {
    let settled =
        change.half_life.is_some() || signals::get(tx, &change.zone, &change.signal)?.is_some();
    if settled {
        return signals::change(tx, change);
    }
    let fresh_half_life = genome::history::holding(tx)?.genome.substrate.half_life;
    signals::change(
        tx,
        &Change {
            fresh_half_life,
            ..change.clone()
        },
    )
}

fn reply(changed: Changed, amount: f64) -> Reply {
    let Changed { before, signal } = changed;
    let after = signal.mark.strength;
    let note = if after >= STRENGTH_LIMIT {
        Some(format!("no signal grows beyond {STRENGTH_LIMIT}"))
    } else if before + amount < -FAINT {
        Some("there was less of it than was to be taken away".to_owned())
    } else {
        None
    };
    Reply {
        zone: signal.zone,
        signal: signal.signal,
        before,
        after,
        half_life: signal.mark.half_life,
        total_deposited: signal.total,
        deposits: signal.changes,
        at: signal.mark.at.to_string(),
        note,
    }
}

fn check_amount(amount: f64, evaporate: bool) -> Result<(), Outcome> {
    if !amount.is_finite() {
        return Err(Outcome::invalid("`amount` is no finite number", ""));
    }
    let problem = match (evaporate, amount) {
        (false, amount) if amount < 0.0 => {
            let next = "to take away, add `evaporate: true`; to add, give an amount above 0";
            return Err(Outcome::invalid(format!("`amount` is {amount}"), next));
        }
        (true, amount) if amount > 0.0 => {
            let next = format!("with `evaporate: true` the amount is negative: {}", -amount);
            return Err(Outcome::invalid(format!("`amount` is {amount}"), next));
        }
        (_, 0.0) => "`amount` is 0, which changes nothing".to_owned(),
        (_, amount) if amount.abs() > AMOUNT_LIMIT => {
            format!("`amount` is {amount}, at most {AMOUNT_LIMIT} is changed at once")
        }
        _ => return Ok(()),
    };
    Err(Outcome::invalid(
        problem,
        "give an amount above 0, such as 1.0",
    ))
}

fn check_half_life(half_life: f64) -> Result<(), Outcome> {
    if half_life.is_finite() && (0.0..=HALF_LIFE_LIMIT).contains(&half_life) {
        return Ok(());
    }
    Err(Outcome::invalid(
        format!("`half_life` is {half_life}"),
        format!("it is in seconds, from 0 (the signal does not fade) to {HALF_LIFE_LIMIT}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_amounts_and_half_lives_that_mean_something_are_taken() {
        for (amount, evaporate) in [(2.0, false), (1e6, false), (1e-9, false), (-1e6, true)] {
            assert!(check_amount(amount, evaporate).is_ok(), "{amount}");
        }
        for (amount, evaporate) in [
            (f64::NAN, false),
            (f64::INFINITY, false),
            (f64::NEG_INFINITY, true),
            (0.0, false),
            (-0.0, true),
            (-1.0, false),
            (1.0, true),
            (1e6 + 1.0, false),
            (-1e7, true),
        ] {
            assert!(check_amount(amount, evaporate).is_err(), "{amount}");
        }
        for half_life in [0.0, 1e-3, 600.0, HALF_LIFE_LIMIT] {
            assert!(check_half_life(half_life).is_ok(), "{half_life}");
        }
        for half_life in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(check_half_life(half_life).is_err(), "{half_life}");
        }
    }
}
