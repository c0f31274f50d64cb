//! Owners in many small drawers, which are put in the order of the index when that is needed.
//!
//! Prefixes are parts of digests and fall evenly, so a few bits of one name the drawer it is in. What comes is laid on top:
//! to keep every drawer in order was a twentieth of a unique submission, and they are in order only to be moved.

use crate::keys::{Logged, Place};

/// Bits of a prefix, of its 48, that name a drawer.
const BITS: u32 = 12;

/// Owners by place.
#[derive(Default)]
pub struct Drawers {
    drawers: Vec<Vec<(Place, Logged)>>,
    count: usize,
}

impl Drawers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Puts an owner in; what was in its place.
    pub fn insert(&mut self, place: Place, logged: Logged) -> Option<Logged> {
        let drawer = self.drawers.get_mut(number(place.0));
        let there = drawer.and_then(|drawer| drawer.iter_mut().find(|(other, _)| *other == place));
        if let Some((_, there)) = there {
            return Some(std::mem::replace(there, logged));
        }
        self.insert_new(place, logged);
        None
    }

    /// Puts an owner in whose place nobody has.
    pub fn insert_new(&mut self, place: Place, logged: Logged) {
        if self.drawers.is_empty() {
            self.drawers.resize_with(1 << BITS, Vec::new);
        }
        self.drawers[number(place.0)].push((place, logged));
        self.count += 1;
    }

    /// Takes an owner out.
    pub fn remove(&mut self, place: &Place) -> Option<Logged> {
        let drawer = self.drawers.get_mut(number(place.0))?;
        // What comes is undone from the end.
        let at = drawer.iter().rposition(|(other, _)| other == place)?;
        self.count -= 1;
        Some(drawer.swap_remove(at).1)
    }

    /// Takes all of them out.
    pub fn clear(&mut self) {
        *self = Drawers::default();
    }

    /// So many of those from a place on, in order; fewer if there are no more.
    pub fn next(&mut self, first: Place, count: usize) -> Vec<(Place, Logged)> {
        let mut next = Vec::with_capacity(count);
        for drawer in self.drawers.iter_mut().skip(number(first.0)) {
            drawer.sort_unstable_by_key(|(place, _)| *place);
            let rest = drawer.iter().filter(|(place, _)| *place >= first);
            next.extend(rest.take(count - next.len()));
            if next.len() == count {
                break;
            }
        }
        next
    }

    /// Those under a prefix, in any order.
    pub fn under(&self, prefix: i64) -> impl Iterator<Item = (Place, Logged)> {
        let drawer = self.drawers.get(number(prefix)).into_iter().flatten();
        drawer.copied().filter(move |((other, _), _)| *other == prefix)
    }

    /// Keeps those that are wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Place, &Logged) -> bool) {
        for drawer in &mut self.drawers {
            drawer.retain(|(place, logged)| wanted(place, logged));
        }
        self.count = self.drawers.iter().map(Vec::len).sum();
    }

    /// All of them, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (Place, Logged)> {
        self.drawers.iter().flatten().copied()
    }
}

/// The drawer of a prefix.
fn number(prefix: i64) -> usize {
    (prefix.clamp(0, (1 << 48) - 1) >> (48 - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A tree is slower, but nobody doubts it.
    #[test]
    fn drawers_are_as_a_tree() {
        let (mut drawers, mut tree) = (Drawers::default(), BTreeMap::new());
        let mut seed = 1u64;
        for round in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let prefix = ((seed >> 20) % 3_000) as i64 * ((1 << 48) / 3_000);
            let place = (prefix, (seed >> 60) as i64);
            let logged = Logged {
                seq: round,
                row: round / 100,
            };
            if seed & 7 < 3 && !tree.contains_key(&place) {
                drawers.insert_new(place, logged);
                tree.insert(place, logged);
            } else if seed & 7 < 5 {
                assert_eq!(drawers.insert(place, logged), tree.insert(place, logged));
            } else {
                assert_eq!(drawers.remove(&place), tree.remove(&place));
            }
            assert_eq!(drawers.len(), tree.len());
            let mut under: Vec<_> = drawers.under(prefix).collect();
            under.sort_unstable_by_key(|(place, _)| *place);
            let range = tree.range((prefix, i64::MIN)..=(prefix, i64::MAX));
            assert_eq!(
                under,
                range.map(|(place, logged)| (*place, *logged)).collect::<Vec<_>>()
            );
        }
        let whole: Vec<_> = tree.iter().map(|(place, logged)| (*place, *logged)).collect();
        assert_eq!(drawers.iter().collect::<BTreeMap<_, _>>(), tree);
        let first = (i64::MIN, i64::MIN);
        assert_eq!(drawers.next(first, whole.len() + 1), whole);
        assert_eq!(drawers.next(first, 7), whole[..7]);
        let middle = whole.len() / 2;
        assert_eq!(
            drawers.next(whole[middle].0, 100),
            whole[middle..middle + 100],
            "from a place on"
        );
        assert_eq!(drawers.next(whole[middle].0, whole.len()), whole[middle..]);
        drawers.retain(|place, _| place.1 % 2 == 0);
        tree.retain(|place, _| place.1 % 2 == 0);
        assert_eq!(drawers.len(), tree.len());
        drawers.clear();
        assert_eq!((drawers.len(), drawers.iter().count()), (0, 0));
    }
}
