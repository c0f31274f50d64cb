//! Jobs the writer remembers, so that what was just written is not read back.
//!
//! Whatever writes about a job passes through [`crate::tx`], which keeps this in step. A commit of
//! another process or a rollback empties it.

use std::hash::Hash;

use foldhash::{HashMap, HashMapExt};

use semel_core::ids::Digest;
use semel_core::time::Timestamp;

use crate::rows::LifeRow;

/// Jobs remembered for certain; up to twice as many are. About 250 bytes each.
const REMEMBERED: usize = 1 << 17;

/// What is remembered.
#[derive(Default)]
pub struct Recent {
    lives: Aging<i64, Slim>,
    owners: Aging<Digest, Keyed>,
    packed: Vec<u8>,
}

/// How a job fares, packed: a third of what it takes to work with. One that does not fit is not remembered.
struct Slim {
    length: u8,
    bytes: [u8; SLIM],
}

/// What most lives fit in, with every moment a life can have.
const SLIM: usize = 87;

/// What admission has to know of the newest owner of a key, beside its life.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    /// The job.
    pub seq: i64,
    /// Its identity.
    pub id: [u8; 16],
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// The digest of its input, where its key does not tell it.
    pub input: Option<Digest>,
    /// Whether only a stub is left of it.
    pub stub: bool,
}

impl Recent {
    /// How a job fares, if that is remembered.
    pub fn life(&mut self, seq: i64) -> Option<LifeRow> {
        let slim = self.lives.get(&seq)?;
        LifeRow::unpack(seq, &slim.bytes[..usize::from(slim.length)])
    }

    /// A job fares like this.
    pub fn put_life(&mut self, row: &LifeRow) {
        self.packed.clear();
        row.pack_into(&mut self.packed);
        let mut bytes = [0; SLIM];
        match bytes.get_mut(..self.packed.len()) {
            Some(room) => room.copy_from_slice(&self.packed),
            None => return self.lives.forget(&row.seq),
        }
        let length = self.packed.len() as u8;
        self.lives.put(row.seq, Slim { length, bytes });
    }

    /// A job is gone.
    pub fn forget_life(&mut self, seq: i64) {
        self.lives.forget(&seq);
    }

    /// The newest owner of a key, if that is remembered.
    pub fn owner(&mut self, digest: &Digest) -> Option<Keyed> {
        self.owners.get(digest).copied()
    }

    /// This is the newest owner of a key.
    pub fn put_owner(&mut self, digest: Digest, keyed: Keyed) {
        self.owners.put(digest, keyed);
    }

    /// The newest owner of a key is another, or another is told of it.
    pub fn forget_owner(&mut self, digest: &Digest) {
        self.owners.forget(digest);
    }
}

/// Two maps: once the young one is full, the old one is dropped and the young one becomes old.
struct Aging<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Aging<K, V> {
    fn default() -> Self {
        Aging {
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash + Copy, V> Aging<K, V> {
    fn get(&mut self, key: &K) -> Option<&V> {
        if !self.old.is_empty()
            && !self.young.contains_key(key)
            && let Some(value) = self.old.remove(key)
        {
            self.put(*key, value);
        }
        self.young.get(key)
    }

    fn put(&mut self, key: K, value: V) {
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        if !self.old.is_empty() {
            self.old.remove(&key);
        }
        self.young.insert(key, value);
    }

    fn forget(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_and_the_oldest_forgotten() {
        let mut map = Aging::<usize, usize>::default();
        for n in 0..5 * REMEMBERED {
            map.put(n, n);
            assert_eq!(map.get(&0), Some(&0), "what is asked for stays");
        }
        assert_eq!(map.get(&1), None);
        assert_eq!(map.get(&(4 * REMEMBERED)), Some(&(4 * REMEMBERED)));
        assert!(map.young.len() + map.old.len() <= 2 * REMEMBERED);
    }

    #[test]
    fn a_newer_value_hides_an_older_one_and_forgetting_takes_both() {
        let mut map = Aging::<usize, usize>::default();
        for n in 0..=REMEMBERED {
            map.put(n, 0);
        }
        map.put(7, 1);
        assert_eq!(map.get(&7), Some(&1));
        map.forget(&7);
        assert_eq!(map.get(&7), None);
    }
}
