//! Many at once: orders that are carried out at the same moment, by many tasks and, where the store can be
//! shared, by many processes.
//!
//! A [`Team`] hands orders to its members, waits until all of them are ready, lets them go together and
//! collects one answer per order. What must hold is then judged from the answers alone.

pub(crate) mod member;
mod order;
mod storm;
mod team;

pub(crate) use order::{Answer, KeyHold, Order};
pub(crate) use storm::{PROCESSES, storm};
pub(crate) use team::{Arena, Team};
