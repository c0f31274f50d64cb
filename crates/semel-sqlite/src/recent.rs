//! Jobs the writer remembers, so that what was just written is not read back.
//!
//! Whatever writes about a job passes through [`crate::tx`], which keeps this in step. A commit of
//! another process or a rollback empties it.

use std::collections::hash_map::Entry;
use std::hash::Hash;

use foldhash::{HashMap, HashMapExt};

use semel_core::ids::Digest;
use semel_core::time::Timestamp;

use crate::rows::LifeRow;

/// Jobs remembered for certain; up to twice as many are. About 250 bytes each. So many fit an index of 2^17 places.
const REMEMBERED: usize = (1 << 17) / 8 * 7;

/// What is remembered.
#[derive(Default)]
pub struct Recent {
    lives: Aging<i64, Slim>,
    /// By the first bytes of the digest, which is compared as a whole.
    owners: Aging<u64, (Digest, Keyed)>,
    packed: Vec<u8>,
}

/// How a job fares, packed: a third of what it takes to work with. One that does not fit is not remembered.
#[derive(Clone, Copy)]
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
        let (whole, keyed) = self.owners.get(&head(digest))?;
        (whole == digest).then_some(*keyed)
    }

    /// This is the newest owner of a key.
    pub fn put_owner(&mut self, digest: Digest, keyed: Keyed) {
        self.owners.put(head(&digest), (digest, keyed));
    }

    /// The newest owner of a key is another, or another is told of it.
    pub fn forget_owner(&mut self, digest: &Digest) {
        self.owners.forget(&head(digest));
    }
}

/// Two digests that begin alike hide each other, and are looked up in the file.
fn head(digest: &Digest) -> u64 {
    let (head, _) = digest
        .as_bytes()
        .split_first_chunk()
        .expect("a digest has 32 bytes");
    u64::from_be_bytes(*head)
}

/// Two generations: once the young one is full it becomes the old one, and what was in the old one is forgotten. Its
/// room is used again: to make room anew cost more than to fill it.
struct Aging<K, V> {
    young: Generation<K, V>,
    old: Generation<K, V>,
}

/// Values one after another, and a narrow index of them: what is remembered of a new job is written next to what was
/// remembered before it, and only its place falls anywhere.
struct Generation<K, V> {
    places: HashMap<K, u32>,
    values: Vec<V>,
}

impl<K, V> Default for Aging<K, V> {
    fn default() -> Self {
        let empty = || Generation {
            places: HashMap::new(),
            values: Vec::new(),
        };
        Aging {
            young: empty(),
            old: empty(),
        }
    }
}

impl<K: Eq + Hash + Copy, V: Copy> Generation<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.places.get(key).map(|place| &self.values[*place as usize])
    }

    fn put(&mut self, key: K, value: V) {
        match self.places.entry(key) {
            Entry::Occupied(place) => self.values[*place.get() as usize] = value,
            Entry::Vacant(place) => {
                place.insert(self.values.len() as u32);
                self.values.push(value);
            }
        }
    }

    /// Values that were forgotten still take their room.
    fn is_full(&self) -> bool {
        self.values.len() >= REMEMBERED
    }

    fn clear(&mut self) {
        self.places.clear();
        self.values.clear();
    }
}

impl<K: Eq + Hash + Copy, V: Copy> Aging<K, V> {
    fn get(&mut self, key: &K) -> Option<&V> {
        if !self.young.places.contains_key(key)
            && let Some(value) = self.old.get(key).copied()
        {
            self.put(*key, value);
        }
        self.young.get(key)
    }

    /// What the old generation says of the key is not seen again: the young one is asked first.
    fn put(&mut self, key: K, value: V) {
        if self.young.is_full() {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.put(key, value);
    }

    fn forget(&mut self, key: &K) {
        self.young.places.remove(key);
        self.old.places.remove(key);
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
        assert!(map.young.values.len() + map.old.values.len() <= 2 * REMEMBERED);
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

    #[test]
    fn digests_that_begin_alike_are_not_taken_for_each_other() {
        let keyed = |seq| Keyed {
            seq,
            id: [0; 16],
            enqueued_at: Timestamp::from_millis(1),
            input: None,
            stub: false,
        };
        let (one, mut other) = ([7; 32], [7; 32]);
        other[31] = 8;
        let (one, other) = (Digest::from_bytes(one), Digest::from_bytes(other));
        let mut recent = Recent::default();
        recent.put_owner(one, keyed(1));
        assert_eq!(recent.owner(&one).map(|keyed| keyed.seq), Some(1));
        assert!(recent.owner(&other).is_none());
        recent.put_owner(other, keyed(2));
        assert!(recent.owner(&one).is_none());
        assert_eq!(recent.owner(&other).map(|keyed| keyed.seq), Some(2));
        recent.forget_owner(&one);
        assert!(recent.owner(&other).is_none(), "looked up where it is written");
    }
}
