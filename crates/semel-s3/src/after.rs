//! A change of one object that depends on another.
//!
//! Adding up what is about to go takes two objects: the sum, and what is added to it. Whoever adds puts a mark into the
//! sum, removes the thing, then takes the mark back. Another who comes late has seen the thing, and finds no mark: it
//! would be added twice. So one looks once more whether it is there, *after* reading the sum. If it was removed and its
//! mark taken back before that reading, it is found to be gone; if later, the sum has changed, and the write is refused.

use futures_util::future::BoxFuture;
use semel_core::error::StoreError;

use crate::bucket::Patience;
use crate::cell::Cell;
use crate::clock::{Moment, random};
use crate::desk::{Committed, Desk};

impl Desk {
    /// Changes a cell by what `look` finds elsewhere after the cell was read. It is read anew for each try.
    pub async fn change_after<'a, L, T: Clone>(
        &self,
        name: &str,
        look: impl Fn(&Cell) -> BoxFuture<'a, Result<L, StoreError>>,
        mut work: impl FnMut(&mut Cell, &L, Moment) -> T,
    ) -> Result<T, StoreError> {
        let _turn = self.turn(name).await;
        let mut tried: Vec<(u64, T)> = Vec::new();
        let mut patience = Patience::new();
        loop {
            let loaded = self.read(name).await?;
            if let Some((_, cell)) = &loaded.base
                && let Some((_, answer)) = tried.iter().find(|(nonce, _)| cell.was_written_by(*nonce))
            {
                return Ok(answer.clone());
            }
            let mut cell = loaded.cell();
            let found = look(&cell).await?;
            let moment = self.moment();
            let answer = work(&mut cell, &found, moment);
            if !loaded.differs(&cell) {
                return Ok(answer);
            }
            let nonce = random();
            tried.push((nonce, answer.clone()));
            if let Committed::Done(stale) = self.commit(&loaded, cell, nonce, moment).await? {
                self.sweep(stale).await;
                return Ok(answer);
            }
            if tried.len() > 1 {
                patience.again("adding up").await?;
            }
        }
    }
}
