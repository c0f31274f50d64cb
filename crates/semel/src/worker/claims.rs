//! The one loop that takes on work: in batches, ahead of need, and only as much as there is room for.

use std::sync::Arc;
use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::store::{ClaimRequest, Claimed, Interest, Mark};
use tokio::time::Instant;

use crate::clock;
use crate::ids;
use crate::worker::desk::Desk;
use crate::worker::floor::Ask;
use crate::worker::jitter::{Trouble, about};
use crate::worker::pace::Pace;
use crate::worker::stop::Stage;

/// A store tells when there is work; it is asked this often all the same.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A store in this process costs nothing to ask, and may not tell when a job becomes due.
const LOOK_AGAIN_HERE: Duration = Duration::from_millis(50);

/// Empty looks in a row before the next one waits a little, whatever the store says.
const EMPTY: u32 = 8;

/// Takes on work until the worker stops.
pub(crate) struct Claimer {
    desk: Arc<Desk>,
    pace: Pace,
    /// Groups of tasks take turns at being first.
    turn: usize,
    empty: u32,
}

impl Claimer {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        let pace = Pace::new(desk.settings.prefetch, clock::instant());
        Claimer {
            desk,
            pace,
            turn: 0,
            empty: 0,
        }
    }

    /// Fails only if the store says that it will never answer.
    pub(crate) async fn run(mut self) -> Result<(), StoreError> {
        let desk = self.desk.clone();
        while !desk.stop.is_at(Stage::Finishing) {
            let round = self.round();
            round.await?;
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        let desk = self.desk.clone();
        let mark = desk.store.mark();
        desk.floor
            .prefetch(self.pace.ahead(desk.floor.done(), clock::instant()));
        let mut asks = desk.floor.asks();
        if asks.is_empty() {
            let groups: Vec<usize> = (0..desk.settings.groups.len()).collect();
            self.wait_for_room(&groups).await;
            return Ok(());
        }
        self.turn += 1;
        let first = self.turn % asks.len();
        asks.rotate_left(first);
        let mut dry = true;
        for ask in &asks {
            // Claims before this one may have taken the room.
            let Some(ask) = desk.floor.asks().into_iter().find(|now| now.group == ask.group) else {
                continue;
            };
            dry &= self.take_on(ask).await? < ask.max;
        }
        if dry {
            self.wait_for_work(&asks, mark).await;
        }
        Ok(())
    }

    /// Claims a batch and puts it into the buffer; says how many there were.
    async fn take_on(&mut self, ask: Ask) -> Result<usize, StoreError> {
        let desk = self.desk.clone();
        let sent = clock::instant();
        let claimed = self.claim(ask).await?;
        let count = claimed.len();
        self.empty = if count == 0 { self.empty + 1 } else { 0 };
        if count > 0 {
            let until = sent + desk.settings.lease;
            let leases = desk.leases.enter(claimed, ask.group, until);
            desk.floor.fill(leases);
            desk.leases
                .hurry(sent + desk.settings.lease / 3, clock::instant());
        }
        Ok(count)
    }

    /// One claim, sent again with its token until the store answers: it is the same claim (contract 3.5).
    async fn claim(&mut self, ask: Ask) -> Result<Vec<Claimed>, StoreError> {
        let desk = self.desk.clone();
        let request = ClaimRequest {
            token: ids::fresh_token(),
            worker: desk.settings.id.clone(),
            queues: desk.settings.queues.clone(),
            tasks: desk.settings.groups[ask.group].tasks.clone(),
            max: ask.max,
            lease: desk.settings.lease.into(),
        };
        let mut trouble = Trouble::default();
        loop {
            let error = match desk.store.claim(request.clone()).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            if is_for_good(&error) {
                return Err(error);
            }
            if trouble.is_first() {
                tracing::warn!(%error, "the store cannot be asked for work; trying again");
            }
            let wait = clock::instant() + trouble.again();
            if !self.sleep_until(wait).await {
                return Ok(Vec::new());
            }
        }
    }

    async fn wait_for_room(&self, groups: &[usize]) {
        tokio::select! {
            () = self.desk.floor.room(groups) => {}
            () = self.desk.stop.comes_to(Stage::Finishing) => {}
        }
    }

    /// Nothing is due of what was asked for: waits until the store says otherwise, or until there is room for
    /// something that was not asked for.
    async fn wait_for_work(&self, asks: &[Ask], mark: Mark) {
        let groups = &self.desk.settings.groups;
        let asked = |group: &usize| asks.iter().any(|ask| ask.group == *group);
        let full: Vec<usize> = (0..groups.len()).filter(|group| !asked(group)).collect();
        let tasks = asks.iter().flat_map(|ask| groups[ask.group].tasks.clone());
        let interest = Interest::Work {
            queues: self.desk.settings.queues.clone(),
            tasks: tasks.collect(),
        };
        let again = match self.desk.store.capabilities().shared_by_processes {
            true => LOOK_AGAIN,
            false => LOOK_AGAIN_HERE,
        };
        let work = self.desk.store.changed(mark, interest, about(again));
        tokio::select! {
            _ = work => {}
            () = self.desk.floor.room(&full), if !full.is_empty() => {}
            () = self.desk.stop.comes_to(Stage::Finishing) => {}
        }
        if self.empty > EMPTY {
            // Somebody else gets all the work, or the store cries wolf: no reason to spin.
            let rest = Duration::from_millis(u64::from(self.empty - EMPTY).min(10));
            self.sleep_until(clock::instant() + rest).await;
        }
    }

    /// Says whether the worker still takes on work.
    async fn sleep_until(&self, moment: Instant) -> bool {
        tokio::select! {
            () = tokio::time::sleep_until(moment) => true,
            () = self.desk.stop.comes_to(Stage::Finishing) => false,
        }
    }
}

/// Whether time will not mend it.
fn is_for_good(error: &StoreError) -> bool {
    matches!(error, StoreError::Invalid(_) | StoreError::Refused { .. })
}
