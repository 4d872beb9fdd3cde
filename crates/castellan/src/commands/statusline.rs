//! `castellan statusline`: what runs and waits here, as one line for tmux and shell prompts.

use castellan_runtime::snapshot::QUIET;

use crate::cli::Statusline;
use crate::error::CommandError;
use crate::output::line;
use crate::wiring::World;

/// Prints the line. Where nothing is stored it is the line of a quiet place, and nothing is made.
pub(crate) async fn run(world: &World, args: &Statusline) -> Result<(), CommandError> {
    let Some(store) = world.stored()? else {
        return line(if args.json { "{}" } else { QUIET });
    };
    world.shared.store.fill(store);
    let rooms = world.shared.rooms();
    if args.json {
        let gauges = rooms.gauges().await?;
        let numbers = gauges
            .into_iter()
            .map(|gauge| (gauge.field.to_owned(), gauge.count.into()));
        let numbers: serde_json::Map<String, serde_json::Value> = numbers.collect();
        return line(&serde_json::Value::Object(numbers).to_string());
    }
    line(&rooms.line().await?)
}
