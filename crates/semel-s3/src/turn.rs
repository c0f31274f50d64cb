//! Whose turn it is to keep house. A round lists everything, and who has done one remembers what it read: so one process
//! makes the regular rounds, the same one as long as it lives, and less often while there is nothing to do. Nothing
//! depends on there being only one: a round is safe beside another.

use std::sync::atomic::Ordering;

use semel_core::error::StoreError;
use semel_core::time::{Millis, Timestamp};

use crate::cell::Turn;
use crate::desk::Desk;
use crate::layout;
use crate::setup::Setup;

/// How soon another round follows one that did something.
const SOON: Millis = Millis::from_secs(15);
/// And at the latest: each minute has its snapshot.
const LATEST: Millis = Millis::from_secs(60);
/// How much longer others wait than the one who made the last round.
const COURTESY: Millis = Millis::from_secs(45);
/// How long a round may take. Then whoever makes it is taken to be dead.
const LONGEST: Millis = Millis::from_secs(300);

impl Turn {
    /// When a handle may take it; at once, if what it says cannot be: a clock was set back.
    fn is_due_at(&self, handle: u32, now: Timestamp) -> Timestamp {
        if self.until > now.plus(LONGEST) || self.next_at > now.plus(LATEST) {
            return now;
        }
        match self.by == handle {
            true => self.next_at,
            false => self.next_at.plus(COURTESY).max(self.until),
        }
    }
}

impl Desk {
    /// Whether this handle makes the next round.
    pub async fn take_turn(&self) -> Result<bool, StoreError> {
        if self.moment().now.as_millis() < self.resting.load(Ordering::Acquire) {
            return Ok(false);
        }
        let due_at = self
            .change(layout::UPKEEP, false, &Setup::default(), |cell, moment| {
                let turn = cell.turn.unwrap_or_default();
                let due_at = turn.is_due_at(self.handle, moment.now);
                if due_at > moment.now {
                    return Some(due_at);
                }
                cell.turn = Some(Turn {
                    by: self.handle,
                    until: moment.now.plus(LONGEST),
                    ..turn
                });
                None
            })
            .await?;
        if let Some(due_at) = due_at {
            self.resting.store(due_at.as_millis(), Ordering::Release);
        }
        Ok(due_at.is_none())
    }

    /// Says when the next round is due, if nobody else has taken over meanwhile.
    pub async fn end_turn(&self, did_something: bool, more: bool) -> Result<(), StoreError> {
        let next_at = self
            .change(layout::UPKEEP, true, &Setup::default(), |cell, moment| {
                let turn = cell.turn.filter(|turn| turn.by == self.handle)?;
                let idle = match did_something {
                    true => 0,
                    false => turn.idle.saturating_add(1).min(8),
                };
                let pause = match more {
                    true => Millis::new(0),
                    false => Millis::new(SOON.as_millis() << idle).min(LATEST),
                };
                let next_at = moment.now.plus(pause);
                cell.turn = Some(Turn {
                    by: self.handle,
                    until: moment.now,
                    next_at,
                    idle,
                });
                Some(next_at)
            })
            .await?;
        if let Some(next_at) = next_at {
            self.resting.store(next_at.as_millis(), Ordering::Release);
        }
        Ok(())
    }
}
