//! Many at once: orders that are carried out at the same moment, by many tasks and, where the store can be
//! shared, by many processes.
//!
//! A [`Team`] hands orders to its members, waits until all of them are ready, lets them go together and
//! collects one answer per order. What must hold is then judged from the answers alone.

mod answers;
pub(crate) mod member;
mod order;
mod scene;
mod storm;
mod team;

pub(crate) use answers::Answers;
pub(crate) use order::{KeyHold, Order};
pub(crate) use storm::{PROCESSES, storm};
pub(crate) use team::{Arena, Team, sides};
