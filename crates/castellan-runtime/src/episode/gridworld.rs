//! `gridworld`: a colony that brings food home.
//!
//! Agents walk on a grid with walls. None has a map, a memory of the way or a word for another: all
//! that guides them are signals in zones, one zone for each cell, which they read around themselves
//! and deposit where they stand. `home` grows towards their home and `food` towards food that was
//! found: each agent leaves what a step away from the strongest mark around it is worth (as value
//! iteration does; Panait and Luke 2004), so that both become gradients along the shortest way. Who
//! has nothing to follow goes where `searched` is least (node counting; Koenig and Svennebring 2001).
//! What nobody renews fades.
//!
//! With deposits off the same agents read the same zones, find nothing in them, and wander.

mod colony;
mod terrain;

use std::collections::BTreeMap;

use castellan_core::text::{one_line, shorten};
use futures::future::{BoxFuture, FutureExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::chance::Chance;
use super::plugin::{Access, Act, CALLS, Plugin, ToolUse, Trouble};
use colony::Colony;
use terrain::{Cell, Terrain};

/// The tool that reads the signals of a zone.
pub const READ: &str = "castellan_read_signal";
/// The tool that deposits into one.
pub const DEPOSIT: &str = "castellan_deposit_signal";

/// What a gridworld looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How many agents there are.
    pub agents: usize,
    /// How wide it is, in cells.
    pub width: usize,
    /// How high.
    pub height: usize,
    /// How many pieces of food there are, all of which are to be brought home.
    pub food: usize,
    /// How many of a hundred cells are walls.
    pub walls: usize,
    /// Whether agents leave signals.
    pub deposits: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            agents: 6,
            width: 14,
            height: 9,
            food: 12,
            walls: 15,
            deposits: true,
        }
    }
}

impl Settings {
    /// The settings with these changes; a value may be the text of one.
    ///
    /// # Errors
    /// What is wrong, and what is taken.
    pub fn read(changes: &Map<String, Value>) -> Result<Self, String> {
        let changes = changes.iter().map(|(key, value)| {
            let value = match value {
                Value::String(text) => match text.as_str() {
                    "on" => true.into(),
                    "off" => false.into(),
                    text => serde_json::from_str(text).unwrap_or_else(|_text| text.into()),
                },
                value => value.clone(),
            };
            (key.clone(), value)
        });
        let settings = Self::deserialize(Value::Object(changes.collect()))
            .map_err(|error| format!("a gridworld is not set up so: {error}"))?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        // Each agent reads its cell and the four around it, and makes at most three deposits.
        let agents = CALLS / 8;
        for (name, value, (least, most)) in [
            ("agents", self.agents, (1, agents)),
            ("width", self.width, (4, 60)),
            ("height", self.height, (4, 40)),
            ("food", self.food, (1, 1000)),
            ("walls", self.walls, (0, 35)),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!(
                    "a gridworld is not set up so: {name} is {value}, {least} to {most} are taken"
                ));
            }
        }
        Ok(())
    }
}

/// The strengths of the signals in a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Marks {
    home: f64,
    food: f64,
    searched: f64,
}

/// The colony as a plugin.
#[derive(Debug)]
pub struct Gridworld {
    settings: Settings,
    world: Option<World>,
}

/// The world and what is known of it, once the seed is.
#[derive(Debug)]
struct World {
    terrain: Terrain,
    colony: Colony,
    /// The cells whose zones were asked for, in the order of the calls; `None` for a deposit.
    asked: Vec<Option<Cell>>,
    /// What was last read in each cell: for the picture, no agent sees it.
    seen: BTreeMap<Cell, Marks>,
}

impl Gridworld {
    /// A gridworld set up like this.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(settings: Settings) -> Result<Self, String> {
        settings.check()?;
        Ok(Self {
            settings,
            world: None,
        })
    }

    fn step(&mut self, observation: &Value) -> Result<Act, String> {
        let seed = observation.get("seed").and_then(Value::as_u64);
        let settings = &self.settings;
        let world = self
            .world
            .get_or_insert_with(|| World::new(settings, seed.unwrap_or_default()));
        let marks = world.read(observation)?;
        Ok(world.act(settings, &marks))
    }
}

impl World {
    fn new(settings: &Settings, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let terrain = Terrain::new(settings, &mut chance);
        Self {
            colony: Colony::new(settings.agents, terrain.home(), chance),
            terrain,
            asked: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    /// What the calls of the last step have found.
    fn read(&mut self, observation: &Value) -> Result<BTreeMap<Cell, Marks>, String> {
        let results = observation.get("results").and_then(Value::as_array);
        let results = results.map_or(&[] as &[Value], Vec::as_slice);
        if results.len() != self.asked.len() {
            return Err(format!(
                "made {} calls and was shown {} results",
                self.asked.len(),
                results.len()
            ));
        }
        let mut marks = BTreeMap::new();
        for (asked, result) in self.asked.iter().zip(results) {
            if result.get("ok") != Some(&Value::Bool(true)) {
                let why = result.get("error").and_then(Value::as_str).unwrap_or("?");
                let tool = result.get("tool").and_then(Value::as_str).unwrap_or("?");
                let why = one_line(&shorten(why, 400));
                return Err(format!("can't do without signals; {tool} answered: {why}"));
            }
            if let Some(cell) = asked {
                let found = marks_in(result)
                    .ok_or_else(|| format!("does not understand the answer of {READ}: {result}"))?;
                marks.insert(*cell, found);
            }
        }
        self.seen.extend(&marks);
        Ok(marks)
    }

    fn act(&mut self, settings: &Settings, marks: &BTreeMap<Cell, Marks>) -> Act {
        let mut calls = Vec::new();
        self.asked.clear();
        for (cell, signal, amount) in self.colony.step(&mut self.terrain, marks) {
            if settings.deposits {
                let mut args = json!({"zone": zone(cell), "signal": signal, "amount": amount});
                if let (true, Value::Object(args)) = (amount < 0.0, &mut args) {
                    args.insert("evaporate".to_owned(), true.into());
                }
                calls.push(ToolUse::new(DEPOSIT, args));
                self.asked.push(None);
            }
        }
        let done = self.colony.delivered() == settings.food;
        if !done {
            for cell in self.colony.looks(&self.terrain) {
                calls.push(ToolUse::new(READ, json!({"zone": zone(cell)})));
                self.asked.push(Some(cell));
            }
        }
        let (home, food) = (self.colony.delivered(), settings.food);
        let picture = self.picture();
        Act {
            mcp_tools: calls,
            done,
            reached: None,
            note: format!("{home} of {food} pieces of food are home"),
            state: json!({"home": home, "food": food, "field": picture}),
            picture: Some(picture.join("\n")),
        }
    }

    /// The world as it looks from above: `#` a wall, `H` home, `F` food, `f` where it was, `o` an
    /// agent, `@` one that carries, `1` to `9` the way to food by its strength, `.` where only the
    /// way home is marked.
    fn picture(&self) -> Vec<String> {
        let terrain = &self.terrain;
        let row = |y| {
            let letter = |x| {
                let cell = Cell { x, y };
                let marks = self.seen.get(&cell).copied().unwrap_or_default();
                match self.colony.at(cell) {
                    _ if terrain.is_wall(cell) => '#',
                    Some(true) => '@',
                    _ if cell == terrain.home() => 'H',
                    Some(false) => 'o',
                    None if terrain.is_source(cell) && terrain.food_at(cell) > 0 => 'F',
                    None if terrain.is_source(cell) => 'f',
                    None => colony::digit(marks.food)
                        .or_else(|| colony::digit(marks.home).map(|_| '.'))
                        .unwrap_or(' '),
                }
            };
            (0..terrain.width()).map(letter).collect()
        };
        (0..terrain.height()).map(row).collect()
    }
}

/// The zone of a cell.
fn zone(cell: Cell) -> String {
    format!("grid/{}.{}", cell.x, cell.y)
}

/// What an answer of [`READ`] says of the signals.
fn marks_in(result: &Value) -> Option<Marks> {
    let signals = result.get("result")?.get("signals")?.as_array()?;
    let mut marks = Marks::default();
    for signal in signals {
        let strength = signal.get("strength")?.as_f64()?;
        match signal.get("signal")?.as_str()? {
            colony::HOME => marks.home = strength,
            colony::FOOD => marks.food = strength,
            colony::SEARCHED => marks.searched = strength,
            _ => {}
        }
    }
    Some(marks)
}

impl Plugin for Gridworld {
    fn name(&self) -> String {
        "gridworld".to_owned()
    }

    fn settings(&self) -> Value {
        serde_json::to_value(&self.settings).unwrap_or_default()
    }

    fn act<'a>(
        &'a mut self,
        observation: &'a Value,
        _access: &'a Access<'a>,
    ) -> BoxFuture<'a, Result<Act, Trouble>> {
        let acted = self.step(observation).map_err(Trouble::Plugin);
        futures::future::ready(acted).boxed()
    }
}

#[cfg(test)]
mod tests;
