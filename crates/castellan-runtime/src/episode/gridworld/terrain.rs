//! The ground of a gridworld: walls, home, and where food lies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Settings;
use crate::episode::chance::Chance;

/// How often walls are put up anew before the world goes without them.
const TRIES: usize = 200;
/// In how many places food lies.
const SOURCES: usize = 2;

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) x: usize,
    pub(super) y: usize,
}

/// The ground.
#[derive(Debug)]
pub(super) struct Terrain {
    width: usize,
    height: usize,
    walls: BTreeSet<Cell>,
    home: Cell,
    /// How much food lies where.
    food: BTreeMap<Cell, usize>,
}

impl Terrain {
    /// A ground on which every piece of food can be reached: home at one side, food at the other.
    pub(super) fn new(settings: &Settings, chance: &mut Chance) -> Self {
        let Settings { width, height, .. } = *settings;
        let home = Cell {
            x: 1,
            y: height / 2,
        };
        let mut terrain = Self {
            width,
            height,
            walls: BTreeSet::new(),
            home,
            food: BTreeMap::new(),
        };
        let beyond = width * 2 / 3;
        for piece in 0..settings.food {
            if piece < SOURCES {
                let x = beyond + chance.below(width - beyond);
                let y = chance.below(height);
                *terrain.food.entry(Cell { x, y }).or_default() += 1;
            } else if let Some(cell) = terrain.source(piece) {
                *terrain.food.entry(cell).or_default() += 1;
            }
        }
        for _ in 0..TRIES {
            terrain.put_up(settings.walls, chance);
            if terrain.is_whole() {
                return terrain;
            }
        }
        terrain.walls.clear();
        terrain
    }

    /// The source that this piece lies at.
    fn source(&self, piece: usize) -> Option<Cell> {
        let sources: Vec<Cell> = self.food.keys().copied().collect();
        sources.get(piece % sources.len().max(1)).copied()
    }

    fn put_up(&mut self, percent: usize, chance: &mut Chance) {
        self.walls.clear();
        for y in 0..self.height {
            for x in 0..self.width {
                let cell = Cell { x, y };
                let is_free = cell == self.home || self.food.contains_key(&cell);
                if !is_free && chance.happens(percent) {
                    self.walls.insert(cell);
                }
            }
        }
    }

    /// Whether every source can be reached from home.
    fn is_whole(&self) -> bool {
        let mut reached = BTreeSet::from([self.home]);
        let mut next = VecDeque::from([self.home]);
        while let Some(cell) = next.pop_front() {
            for neighbour in self.around(cell) {
                if reached.insert(neighbour) {
                    next.push_back(neighbour);
                }
            }
        }
        self.food.keys().all(|cell| reached.contains(cell))
    }

    /// The cells one can go to from here.
    pub(super) fn around(&self, cell: Cell) -> Vec<Cell> {
        let Cell { x, y } = cell;
        let candidates = [
            y.checked_sub(1).map(|y| Cell { x, y }),
            (x + 1 < self.width).then_some(Cell { x: x + 1, y }),
            (y + 1 < self.height).then_some(Cell { x, y: y + 1 }),
            x.checked_sub(1).map(|x| Cell { x, y }),
        ];
        let open = candidates.into_iter().flatten();
        open.filter(|cell| !self.is_wall(*cell)).collect()
    }

    pub(super) const fn home(&self) -> Cell {
        self.home
    }

    pub(super) const fn width(&self) -> usize {
        self.width
    }

    pub(super) const fn height(&self) -> usize {
        self.height
    }

    pub(super) fn is_wall(&self, cell: Cell) -> bool {
        self.walls.contains(&cell)
    }

    /// Whether food lies here, or once did.
    pub(super) fn is_source(&self, cell: Cell) -> bool {
        self.food.contains_key(&cell)
    }

    /// How much food lies here.
    pub(super) fn food_at(&self, cell: Cell) -> usize {
        self.food.get(&cell).copied().unwrap_or(0)
    }

    /// Takes a piece, if there is one.
    pub(super) fn take(&mut self, cell: Cell) -> bool {
        match self.food.get_mut(&cell) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_reached_whatever_the_seed() {
        for seed in 0..200 {
            let settings = Settings {
                walls: 35,
                ..Settings::default()
            };
            let terrain = Terrain::new(&settings, &mut Chance::new(seed));
            assert!(terrain.is_whole(), "seed {seed}");
            let food: usize = terrain.food.values().sum();
            assert_eq!(food, settings.food);
            assert!(!terrain.is_source(terrain.home()));
        }
    }

    #[test]
    fn the_smallest_world_has_room_for_everything() {
        let settings = Settings {
            agents: 1,
            width: 4,
            height: 4,
            food: 1,
            walls: 0,
            deposits: true,
        };
        let terrain = Terrain::new(&settings, &mut Chance::new(1));
        let corner = terrain.around(Cell { x: 0, y: 0 });
        assert_eq!(corner, [Cell { x: 1, y: 0 }, Cell { x: 0, y: 1 }]);
    }
}
