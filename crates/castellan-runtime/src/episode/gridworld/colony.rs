//! The agents of a gridworld, and how they decide.

use std::collections::{BTreeMap, BTreeSet};

use super::Marks;
use super::terrain::{Cell, Terrain};
use crate::episode::chance::Chance;

/// The signal that grows towards home.
pub(super) const HOME: &str = "home";
/// The signal that grows towards food.
pub(super) const FOOD: &str = "food";
/// The signal that says how much a cell was searched of late.
pub(super) const SEARCHED: &str = "searched";

/// What a signal is worth where it leads to.
const SOURCE: f64 = 100.0;
/// What is left of that a step away.
const STEP: f64 = 0.85;
/// Strengths below this guide nobody.
const FAINT: f64 = 0.05;
/// A mark is renewed once this much of it is missing.
const MISSING: f64 = 0.05;
/// How often of a hundred an agent goes its own way instead of where signals lead.
const WHIM: usize = 5;

/// A deposit: where, of which signal, how much.
pub(super) type Deposit = (Cell, &'static str, f64);

#[derive(Debug, Clone)]
struct Agent {
    at: Cell,
    /// Where it came from. Without a reason it does not go back there.
    from: Option<Cell>,
    carries: bool,
}

/// The agents.
#[derive(Debug)]
pub(super) struct Colony {
    agents: Vec<Agent>,
    chance: Chance,
    delivered: usize,
}

impl Colony {
    /// So many agents, all at home.
    pub(super) fn new(agents: usize, home: Cell, chance: Chance) -> Self {
        let agent = Agent {
            at: home,
            from: None,
            carries: false,
        };
        Self {
            agents: vec![agent; agents],
            chance,
            delivered: 0,
        }
    }

    /// How many pieces of food are home.
    pub(super) const fn delivered(&self) -> usize {
        self.delivered
    }

    /// Whether an agent stands here, and if so, whether one of them carries.
    pub(super) fn at(&self, cell: Cell) -> Option<bool> {
        let here = self.agents.iter().filter(|agent| agent.at == cell);
        here.map(|agent| agent.carries)
            .reduce(|one, other| one || other)
    }

    /// The cells whose signals the agents perceive where they stand, each once.
    pub(super) fn looks(&self, terrain: &Terrain) -> Vec<Cell> {
        let mut known = BTreeSet::new();
        let mut cells = Vec::new();
        for agent in &self.agents {
            let around = terrain.around(agent.at);
            for cell in std::iter::once(agent.at).chain(around) {
                if known.insert(cell) {
                    cells.push(cell);
                }
            }
        }
        cells
    }

    /// Every agent leaves its mark and goes a step, by what it perceives. Before anything was
    /// perceived, none does.
    pub(super) fn step(
        &mut self,
        terrain: &mut Terrain,
        marks: &BTreeMap<Cell, Marks>,
    ) -> Vec<Deposit> {
        let mut deposits: Vec<Deposit> = Vec::new();
        if marks.is_empty() {
            return deposits;
        }
        for agent in &mut self.agents {
            let sight = Sight::new(agent, terrain, marks);
            // Agents that stand together leave one mark.
            for deposit in sight.marks(agent, terrain) {
                let (cell, signal, _) = deposit;
                if !deposits.iter().any(|one| (one.0, one.1) == (cell, signal)) {
                    deposits.push(deposit);
                }
            }
            let next = sight.way(agent, &mut self.chance);
            agent.from = Some(agent.at);
            agent.at = next;
            if agent.carries && agent.at == terrain.home() {
                agent.carries = false;
                agent.from = None;
                self.delivered += 1;
            } else if !agent.carries && terrain.take(agent.at) {
                agent.carries = true;
                agent.from = None;
            }
        }
        deposits
    }
}

/// What an agent perceives.
struct Sight {
    here: Marks,
    around: Vec<(Cell, Marks)>,
}

impl Sight {
    fn new(agent: &Agent, terrain: &Terrain, marks: &BTreeMap<Cell, Marks>) -> Self {
        let of = |cell| marks.get(&cell).copied().unwrap_or_default();
        let around = terrain.around(agent.at).into_iter();
        Self {
            here: of(agent.at),
            around: around.map(|cell| (cell, of(cell))).collect(),
        }
    }

    /// What it leaves here: on the way out the way home and that it was here, on the way home the way
    /// to food; and where the way to food leads to none, nothing of it stays.
    fn marks(&self, agent: &Agent, terrain: &Terrain) -> Vec<Deposit> {
        let strongest = |of: fn(&Marks) -> f64| {
            let values = self.around.iter().map(|(_, marks)| of(marks));
            values.fold(0.0, f64::max)
        };
        let at = agent.at;
        let mut deposits = Vec::new();
        if agent.carries {
            let is_source = terrain.food_at(at) > 0;
            let worth = if is_source {
                SOURCE
            } else {
                STEP * strongest(|marks| marks.food)
            };
            deposits.extend(renewed(self.here.food, worth).map(|amount| (at, FOOD, amount)));
        } else {
            let worth = if at == terrain.home() {
                SOURCE
            } else {
                STEP * strongest(|marks| marks.home)
            };
            deposits.extend(renewed(self.here.home, worth).map(|amount| (at, HOME, amount)));
            deposits.push((at, SEARCHED, 1.0));
            let is_peak = self.here.food > strongest(|marks| marks.food);
            if is_peak && self.here.food > FAINT && terrain.food_at(at) == 0 {
                deposits.push((at, FOOD, -rounded(self.here.food)));
            }
        }
        deposits
    }

    /// Where it goes.
    fn way(&self, agent: &Agent, chance: &mut Chance) -> Cell {
        let onward: Vec<(Cell, Marks)> = self
            .around
            .iter()
            .filter(|(cell, _)| Some(*cell) != agent.from)
            .copied()
            .collect();
        // In a dead end there is only the way back.
        let onward = if onward.is_empty() {
            &self.around
        } else {
            &onward
        };
        let anywhere: Vec<Cell> = onward.iter().map(|(cell, _)| *cell).collect();
        if chance.happens(WHIM) {
            return chance.pick(&anywhere).unwrap_or(agent.at);
        }
        let (of, here): (fn(&Marks) -> f64, f64) = if agent.carries {
            (|marks| marks.home, self.here.home)
        } else {
            (|marks| marks.food, self.here.food)
        };
        let uphill = best(&self.around, of).filter(|(_, strength)| *strength > here.max(FAINT));
        if let Some((cells, _)) = uphill {
            return chance.pick(&cells).unwrap_or(agent.at);
        }
        if agent.carries {
            return chance.pick(&anywhere).unwrap_or(agent.at);
        }
        // Nothing leads to food: to where it was looked for least.
        let fresh = best(onward, |marks| -marks.searched).map(|(cells, _)| cells);
        chance.pick(&fresh.unwrap_or(anywhere)).unwrap_or(agent.at)
    }
}

/// The cells where something is strongest, and how strong that is.
fn best(cells: &[(Cell, Marks)], of: fn(&Marks) -> f64) -> Option<(Vec<Cell>, f64)> {
    let strength = cells.iter().map(|(_, marks)| of(marks)).reduce(f64::max)?;
    let equal = |one: f64| one.total_cmp(&strength).is_eq();
    let cells = cells.iter().filter(|(_, marks)| equal(of(marks)));
    Some((cells.map(|(cell, _)| *cell).collect(), strength))
}

/// How much a mark lacks that should be worth so much, where that is worth a deposit.
fn renewed(now: f64, worth: f64) -> Option<f64> {
    let missing = rounded(worth - now);
    (worth > FAINT && missing > worth * MISSING).then_some(missing)
}

/// So that amounts are short to read.
fn rounded(amount: f64) -> f64 {
    (amount * 10_000.0).round() / 10_000.0
}

/// A strength as a digit; `None` for one that guides nobody.
pub(super) fn digit(strength: f64) -> Option<char> {
    if strength <= FAINT {
        return None;
    }
    let mut threshold = SOURCE * STEP * STEP;
    for digit in ('2'..='9').rev() {
        if strength >= threshold {
            return Some(digit);
        }
        threshold *= STEP * STEP;
    }
    Some('1')
}
