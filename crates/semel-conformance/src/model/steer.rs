//! What operators and time do: settings, queues, housekeeping, resets, waiting.

use semel_core::dedup::Mode;
use semel_core::store::{Retention, SettingChange, Target, UpkeepReport, UpkeepRequest};
use semel_core::time::Millis;

use super::pair::{Agreed, Run, same};
use crate::rng::Rng;

impl Run<'_> {
    pub(super) async fn set(&mut self) -> Agreed {
        let target = self.any_target();
        let change = self.any_change();
        self.set_to(target, change).await
    }

    async fn set_to(&mut self, target: Target, change: SettingChange) -> Agreed {
        let request = (target.clone(), change.clone());
        let answers = self
            .ask(("set", 1), request, async |store, _| {
                store.set(target.clone(), change.clone()).await
            })
            .await?;
        answers.map_or(Ok(()), |answers| same("set", &answers))
    }

    fn any_target(&mut self) -> Target {
        match self.rng.below(10) {
            0..2 => Target::All,
            2..7 => Target::Queue(self.rng.pick(&self.words.queues).clone()),
            _ => Target::Task(self.rng.pick(&self.words.tasks).clone()),
        }
    }

    /// Mostly back to normal, so that most of the time most of the work goes on.
    fn any_change(&mut self) -> SettingChange {
        let rng = &mut self.rng;
        match rng.below(20) {
            0..3 => SettingChange::Pause {
                lasting: rng.chance(80).then(|| Millis::new(rng.between(1, 10_000))),
                reason: rng.chance(50).then(|| "a reason".to_owned()),
            },
            3..8 => SettingChange::Resume,
            8 => match rng.chance(50) {
                true => SettingChange::Intake { open: false },
                false => SettingChange::CloseFor {
                    length: Millis::new(rng.between(1, 10_000)),
                },
            },
            9..13 => SettingChange::Intake { open: true },
            13..15 => SettingChange::Unique { unique: true },
            15..17 => SettingChange::Unique { unique: false },
            17 => match rng.chance(50) {
                true => SettingChange::Mode { mode: Mode::Observe },
                false => SettingChange::ObserveFor {
                    length: Millis::new(rng.between(1, 10_000)),
                },
            },
            _ => SettingChange::Mode { mode: Mode::Enforce },
        }
    }

    /// Everything back to normal.
    pub(super) async fn unset(&mut self) -> Agreed {
        let Some(settings) = self
            .look("settings", async |store, _| store.settings().await)
            .await?
        else {
            return Ok(());
        };
        for (target, setting) in settings.reference {
            let changes = [
                setting.paused.is_some().then_some(SettingChange::Resume),
                setting.closed.then_some(SettingChange::Intake { open: true }),
                setting.unique.then_some(SettingChange::Unique { unique: false }),
                (setting.mode == Mode::Observe).then_some(SettingChange::Mode { mode: Mode::Enforce }),
            ];
            for change in changes.into_iter().flatten() {
                self.set_to(target.clone(), change).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn remove_queue(&mut self) -> Agreed {
        let queue = self.rng.pick(&self.words.queues).clone();
        self.known.to_sweep = true;
        let answers = self
            .ask(("remove_queue", 1), queue.clone(), async |store, _| {
                store.remove_queue(&queue).await
            })
            .await?;
        answers.map_or(Ok(()), |answers| same("remove_queue", &answers))
    }

    pub(super) async fn reset_stats(&mut self) -> Agreed {
        let answers = self
            .ask(("reset_stats", 1), (), async |store, _| store.reset_stats().await)
            .await?;
        answers.map_or(Ok(()), |answers| same("reset_stats", &answers))
    }

    /// Rounds of housekeeping until nothing is left; how much each round does is the store's business.
    pub(super) async fn upkeep(&mut self) -> Agreed {
        // Small enough to need several rounds, large enough for all leases: a snapshot is taken in the first round.
        let budget = *self.rng.pick(&[100, 1_000]);
        let request = UpkeepRequest {
            retention: self.retention,
            budget,
            regular: false,
        };
        let answers = self
            .ask(("upkeep", 1), request, async |store, _| {
                let mut sum = UpkeepReport::default();
                for _ in 0..10_000 {
                    let round = store.upkeep(request).await?;
                    sum.expired += round.expired;
                    sum.pruned += round.pruned;
                    sum.stubbed += round.stubbed;
                    sum.snapshot |= round.snapshot;
                    sum.more = round.more;
                    if !round.more {
                        break;
                    }
                }
                Ok(sum)
            })
            .await?;
        let to_sweep = std::mem::take(&mut self.known.to_sweep);
        let Some(mut answers) = answers else { return Ok(()) };
        if to_sweep {
            // Jobs of a removed queue are gone at once for every reader; who sweeps them, and when, is open.
            answers = answers.map(|report, _| UpkeepReport {
                pruned: 0,
                stubbed: 0,
                ..report
            });
        }
        if let Err(what) = same("upkeep", &answers) {
            // What is stored says more than a number; the number stands if nothing else differs.
            return self.dump(true).await.and(Err(what));
        }
        Ok(())
    }

    /// A moment, or the length of a lease.
    pub(super) fn pass(&mut self) -> Agreed {
        let length = match self.rng.below(10) {
            0..4 => self.rng.between(0, 10),
            4..9 => self.rng.between(0, 2_000),
            _ => self.rng.between(0, 30_000),
        };
        self.wait(length)
    }

    /// Minutes to days: keys lapse, leases end, things grow old.
    pub(super) fn pass_long(&mut self) -> Agreed {
        let length = match self.rng.below(10) {
            0..8 => self.rng.between(60_000, 1_800_000),
            8 => self.rng.between(3_600_000, 36_000_000),
            _ => self.rng.between(86_400_000, 864_000_000),
        };
        self.wait(length)
    }

    fn wait(&mut self, length: i64) -> Agreed {
        let resolution = self.capabilities.clock_resolution.as_millis().max(1);
        let length = Millis::new(length / resolution * resolution);
        self.note("time passes", length);
        self.clock.advance(length);
        Ok(())
    }
}

/// How long things are kept in a run: short, so that the population stays small, and different from each other.
/// It does not change within a run; a store may plan ahead with it.
pub(super) fn retention(rng: &mut Rng) -> Retention {
    let mut minutes = || Millis::from_secs(60 * rng.between(1, 20));
    Retention {
        complete: minutes(),
        failed: minutes(),
        ledger: minutes(),
    }
}
