//! Owners in the order of the index, in many small drawers instead of one tree.
//!
//! Prefixes are parts of digests and fall evenly, so a few bits of one name the drawer it is in, and putting one into its
//! place there moves a handful of others. In a tree of 65,536 it was a twentieth of a unique submission.

use crate::keys::{Logged, Place};

/// Bits of a prefix, of its 48, that name a drawer.
const BITS: u32 = 12;

/// Owners by place, ordered.
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
        if self.drawers.is_empty() {
            self.drawers.resize_with(1 << BITS, Vec::new);
        }
        let drawer = &mut self.drawers[number(place.0)];
        match drawer.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(at) => Some(std::mem::replace(&mut drawer[at].1, logged)),
            Err(at) => {
                drawer.insert(at, (place, logged));
                self.count += 1;
                None
            }
        }
    }

    /// Takes an owner out.
    pub fn remove(&mut self, place: &Place) -> Option<Logged> {
        let drawer = self.drawers.get_mut(number(place.0))?;
        let at = drawer.binary_search_by_key(place, |(place, _)| *place).ok()?;
        self.count -= 1;
        Some(drawer.remove(at).1)
    }

    /// Takes all of them out.
    pub fn clear(&mut self) {
        *self = Drawers::default();
    }

    /// Those from a place on, in order.
    pub fn from(&self, first: Place) -> impl Iterator<Item = (Place, Logged)> {
        let drawers = self.drawers.get(number(first.0)..).unwrap_or_default();
        let all = drawers.iter().flatten().copied();
        all.skip_while(move |(place, _)| *place < first)
    }

    /// Those under a prefix, in order.
    pub fn under(&self, prefix: i64) -> impl Iterator<Item = (Place, Logged)> {
        let drawer = self
            .drawers
            .get(number(prefix))
            .map_or(&[][..], |drawer| &drawer[..]);
        let first = drawer.partition_point(|((other, _), _)| *other < prefix);
        let rest = drawer[first..].iter().copied();
        rest.take_while(move |((other, _), _)| *other == prefix)
    }

    /// Keeps those that are wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Place, &Logged) -> bool) {
        for drawer in &mut self.drawers {
            drawer.retain(|(place, logged)| wanted(place, logged));
        }
        self.count = self.drawers.iter().map(Vec::len).sum();
    }

    /// All of them, in order.
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
            if seed & 7 < 5 {
                assert_eq!(drawers.insert(place, logged), tree.insert(place, logged));
            } else {
                assert_eq!(drawers.remove(&place), tree.remove(&place));
            }
            assert_eq!(drawers.len(), tree.len());
            let under: Vec<_> = drawers.under(prefix).collect();
            let range = tree.range((prefix, i64::MIN)..=(prefix, i64::MAX));
            assert_eq!(
                under,
                range.map(|(place, logged)| (*place, *logged)).collect::<Vec<_>>()
            );
        }
        let whole: Vec<_> = tree.iter().map(|(place, logged)| (*place, *logged)).collect();
        assert_eq!(drawers.iter().collect::<Vec<_>>(), whole);
        assert_eq!(drawers.from((i64::MIN, i64::MIN)).collect::<Vec<_>>(), whole);
        let middle = whole[whole.len() / 2].0;
        assert_eq!(drawers.from(middle).collect::<Vec<_>>(), whole[whole.len() / 2..]);
        drawers.retain(|place, _| place.1 % 2 == 0);
        tree.retain(|place, _| place.1 % 2 == 0);
        assert_eq!(drawers.len(), tree.len());
        drawers.clear();
        assert_eq!((drawers.len(), drawers.iter().count()), (0, 0));
    }
}
