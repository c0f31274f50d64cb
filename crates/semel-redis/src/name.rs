//! What jobs are called, and where a name leads.
//!
//! A name is the token a job was submitted with and, where there are several shards, the one it was born in. A job
//! keeps its name when its store gets another number of shards: names that were given since say in which layout, and
//! an older one is looked for in all shards.

use std::str::FromStr as _;

use semel_core::error::StoreError;
use semel_core::ids::{JobId, Token};

use crate::keys::Id;
use crate::route::SLOTS;

/// Over how many shards a store is spread, and how often that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many.
    pub shards: usize,
    /// How often the number has changed.
    pub generation: u16,
}

impl From<usize> for Layout {
    fn from(shards: usize) -> Self {
        Layout {
            shards,
            generation: 0,
        }
    }
}

impl Layout {
    /// The part of a hash tag that no other layout of the namespace has.
    pub fn tag(self) -> String {
        match self.generation {
            0 => self.shards.to_string(),
            generation => format!("{}.{generation}", self.shards),
        }
    }

    /// How jobs are named that are born in one of its shards.
    pub fn names(self, shard: usize) -> Named {
        match self.shards {
            1 => Named::Bare,
            _ => Named::Shard {
                shard: u16::try_from(shard).expect("fewer shards than numbers"),
                generation: self.generation,
            },
        }
    }
}

/// What follows the token in the name of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Nothing: it was born where there was one shard.
    Bare,
    /// The shard it was born in.
    Shard {
        /// Which one.
        shard: u16,
        /// In which layout.
        generation: u16,
    },
}

impl Named {
    /// The name of a job.
    pub fn name(self, id: &Id) -> JobId {
        let token = JobId::from(Token::from_bytes(id.0));
        let text = match self {
            Named::Bare => return token,
            Named::Shard { shard, generation: 0 } => format!("{token}.{shard}"),
            Named::Shard { shard, generation } => format!("{token}.{shard}.{generation}"),
        };
        JobId::new(text).expect("an id with numbers is printable")
    }
}

/// The parts of a name; none if no job is ever called so.
pub fn parse(name: &JobId) -> Option<(Named, Id)> {
    let mut parts = name.as_str().split('.');
    let token = Token::from_str(parts.next()?).ok()?;
    let mut number = || parts.next().map(|text| text.parse::<u16>());
    let named = match (number(), number()) {
        (None, _) => Named::Bare,
        (Some(shard), generation) => Named::Shard {
            shard: shard.ok()?,
            generation: generation.transpose().ok()?.unwrap_or(0),
        },
    };
    let id = Id::from(token);
    (named.name(&id) == *name).then_some((named, id))
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// To this shard, if to any.
    Here(usize),
    /// To one of them: it was given in an earlier layout.
    Somewhere,
}

/// Where a name leads in a layout, and to which job; none if no such name is ever given.
pub fn locate(name: &JobId, layout: Layout) -> Option<(Lead, Id)> {
    let (named, id) = parse(name)?;
    let lead = match named {
        named if layout.shards == 1 => {
            (named == Named::Bare || layout.generation > 0).then_some(Lead::Here(0))
        }
        Named::Shard { shard, generation } if generation == layout.generation => Some(usize::from(shard))
            .filter(|shard| *shard < layout.shards)
            .map(Lead::Here),
        Named::Shard { generation, .. } => (generation < layout.generation).then_some(Lead::Somewhere),
        Named::Bare => (layout.generation > 0).then_some(Lead::Somewhere),
    };
    Some((lead?, id))
}

/// What a job carries that neither its key nor its content tells, for the case that the number of shards changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// How it is named, if not like those that are born where it is.
    pub named: Option<Named>,
    /// The slot its submission was sent to; see [`crate::route`].
    pub slot: Option<u16>,
}

const SLOT_BITS: u32 = 11;

impl Trail {
    /// Whether there is nothing to carry.
    pub fn is_none(self) -> bool {
        self == Trail::default()
    }

    /// As one number.
    pub fn pack(self) -> i64 {
        let named = match self.named {
            None => 0,
            Some(Named::Bare) => 1,
            Some(Named::Shard { shard, generation }) => 2 + (i64::from(generation) << 16 | i64::from(shard)),
        };
        named << SLOT_BITS | self.slot.map_or(0, |slot| i64::from(slot) + 1)
    }

    /// From one number.
    pub fn unpack(packed: i64) -> Result<Self, StoreError> {
        let slot = packed & ((1 << SLOT_BITS) - 1);
        let slot = u16::try_from(slot).ok().and_then(|slot| slot.checked_sub(1));
        let named = match packed >> SLOT_BITS {
            0 => None,
            1 => Some(Named::Bare),
            packed => {
                let packed = packed - 2;
                let generation = u16::try_from(packed >> 16);
                let generation = generation.map_err(|_| StoreError::corrupt("a job with an unknown name"))?;
                let shard = (packed & 0xffff) as u16;
                Some(Named::Shard { shard, generation })
            }
        };
        if slot.is_some_and(|slot| slot >= SLOTS) {
            return Err(StoreError::corrupt("a job that was sent nowhere"));
        }
        Ok(Trail { named, slot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Id {
        Id::from(Token::from_parts(1_800_000_000_000, &[7; 10]))
    }

    #[test]
    fn a_name_leads_to_its_shard_and_an_older_one_somewhere() {
        let id = id();
        let once = Layout::from(4);
        let now = Layout {
            shards: 64,
            generation: 1,
        };
        let old = once.names(3).name(&id);
        let new = now.names(3).name(&id);
        assert_ne!(old, new);
        assert_eq!(locate(&old, once), Some((Lead::Here(3), id)));
        assert_eq!(locate(&old, now), Some((Lead::Somewhere, id)));
        assert_eq!(locate(&new, now), Some((Lead::Here(3), id)));
        let bare = Named::Bare.name(&id);
        assert_eq!(locate(&bare, now), Some((Lead::Somewhere, id)));
        // A layout without a past knows its own names alone.
        for unknown in [&new, &bare] {
            assert_eq!(locate(unknown, once), None);
        }
        assert_eq!(locate(&old, Layout::from(1)), None);
        let alone = Layout {
            shards: 1,
            generation: 2,
        };
        for name in [&old, &new, &bare] {
            assert_eq!(locate(name, alone), Some((Lead::Here(0), id)));
        }
    }

    #[test]
    fn only_a_name_as_it_is_given_is_one() {
        let token = JobId::from(Token::from_bytes(id().0));
        for wrong in [
            "nobody".to_owned(),
            token.as_str().to_uppercase(),
            format!("{token}."),
            format!("{token}.03"),
            format!("{token}.3.0"),
            format!("{token}.3.1.1"),
            format!("{token}.70000"),
        ] {
            assert_eq!(parse(&JobId::new(wrong).unwrap()), None);
        }
    }

    #[test]
    fn what_a_job_carries_is_read_back() {
        let shard = |shard, generation| Some(Named::Shard { shard, generation });
        for named in [
            None,
            Some(Named::Bare),
            shard(0, 0),
            shard(1_023, 0),
            shard(7, u16::MAX),
        ] {
            for slot in [None, Some(0), Some(SLOTS - 1)] {
                let trail = Trail { named, slot };
                assert_eq!(Trail::unpack(trail.pack()).unwrap(), trail);
            }
        }
    }
}
