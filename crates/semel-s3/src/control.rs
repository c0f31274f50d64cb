//! Settings, and the removal of a queue.

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::store::{Setting, SettingChange, Target};

use crate::desk::{Desk, lock};
use crate::layout;
use crate::setup::Setup;

impl Desk {
    pub async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, StoreError> {
        if let (Target::Task(_), SettingChange::Unique { .. }) = (&target, &change) {
            return Err(Invalid::new("unique", "a queue, or all queues").into());
        }
        let setup = self.setup().await?;
        self.tend(&setup).await?;
        let setting = self
            .change(layout::SETTINGS, false, &Setup::default(), |cell, moment| {
                let mut setup = Setup::read(cell.setup.as_ref());
                let setting = setup
                    .settings
                    .get(&target)
                    .cloned()
                    .unwrap_or_default()
                    .changed(&change, moment.now);
                if setting == Setting::default() {
                    setup.settings.remove(&target);
                } else {
                    setup.settings.insert(target.clone(), setting.clone());
                }
                cell.setup = Some(setup.write());
                setting
            })
            .await?;
        self.wake.signal(true, false);
        Ok(setting)
    }

    /// Removes all jobs of a queue in one step (contract 2.16): from the write of the settings on, none of them is
    /// there for anybody. Says how many there were to be seen.
    pub async fn remove_queue(&self, queue: &Name) -> Result<i64, StoreError> {
        let setup = self.setup().await?;
        self.tend(&setup).await?;
        let (before, _) = self.cells(&setup).await?;
        let removed = self
            .change(layout::SETTINGS, false, &Setup::default(), |cell, _| {
                let mut setup = Setup::read(cell.setup.as_ref());
                setup.remove(queue);
                cell.setup = Some(setup.write());
                setup
            })
            .await?;
        lock(&self.queues).remove(queue);
        self.sweep(vec![layout::queue(queue)]).await;
        // What they held is free already; here their objects are tidied up, and who followed them follows.
        let jobs = before.iter().flat_map(|(_, cell)| &cell.jobs);
        let seen = jobs.filter(|job| job.spec.queue == *queue && !job.stub).count();
        let (cells, _) = self.all(&[layout::KEYS, layout::TASKS]).await?;
        for (name, cell) in cells {
            if cell.jobs.iter().any(|job| removed.is_void(job)) {
                self.change(&name, true, &removed, |_, _| ()).await?;
            }
        }
        Ok(i64::try_from(seen).unwrap_or(i64::MAX))
    }
}
