//! Settings of everything, queues and tasks; and the removal of a queue.

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::store::{Setting, SettingChange, Target};

use crate::config::{encode_setting, encode_target};
use crate::head::Head;
use crate::jobs::born_fields;
use crate::keys::Id;
use crate::link::answer;
use crate::tx::Tx;

/// Refuses changes that mean nothing for their target.
pub fn check_change(target: &Target, change: &SettingChange) -> Result<(), Invalid> {
    match (target, change) {
        (Target::Task(_), SettingChange::Unique { .. }) => {
            Err(Invalid::new("unique", "a queue, or all queues"))
        }
        _ => Ok(()),
    }
}

impl Tx<'_> {
    /// Changes a setting; gives it as it is now.
    pub fn change_setting(&mut self, target: &Target, change: &SettingChange) -> Setting {
        let before = self.config.settings.get(target).cloned().unwrap_or_default();
        let after = before.changed(change, self.now);
        self.adopt_setting(target, after.clone());
        after
    }

    /// Settings as they were decided in another shard. Who has seen that they differ here says at which version; if there
    /// is another one by now, they may differ because somebody has decided anew since, and stay as they are.
    pub fn adopt_settings(&mut self, settings: &[(Target, Setting)], seen: Option<i64>) {
        if seen.is_some_and(|seen| seen != self.config.version) {
            return;
        }
        for (target, setting) in settings {
            self.adopt_setting(target, setting.clone());
        }
    }

    /// A setting as it is from now on.
    fn adopt_setting(&mut self, target: &Target, after: Setting) {
        let field = encode_target(target);
        let key = self.names().settings();
        if after == Setting::default() {
            self.run("HDEL", key, vec![field]);
            self.change_config().settings.remove(target);
        } else {
            self.run("HSET", key, vec![field, encode_setting(&after)]);
            self.change_config().settings.insert(target.clone(), after);
        }
        self.signals.work = true;
    }

    /// Removes a queue in one step: its lanes are no longer live (contract 2.16). The sweep comes later.
    /// Says how many jobs were in it.
    pub async fn remove_queue(&mut self, queue: &Name) -> Result<i64, StoreError> {
        let keys = self.names();
        let orphans = self.deferred_elsewhere(queue).await?;
        let has_setting = self.config.settings.contains_key(&Target::Queue(queue.clone()));
        let lanes = self.change_config().remove_queue(queue);
        let jobs = self.jobs_in_lanes(&lanes).await?;
        for lane in &lanes {
            self.run(
                "HSET",
                keys.gone(),
                vec![lane.to_string().into_bytes(), b"0".to_vec()],
            );
        }
        if has_setting {
            let field = encode_target(&Target::Queue(queue.clone()));
            self.run("HDEL", keys.settings(), vec![field]);
        }
        for orphan in orphans {
            if let Some(followed) = orphan.follows {
                self.promote_follower(&followed).await?;
            }
        }
        self.signals.ends = true;
        self.signals.work = true;
        Ok(jobs)
    }

    /// How many jobs are in these lanes. That is only reported, so it is not compared: in a busy queue it is another
    /// number at every look.
    async fn jobs_in_lanes(&self, lanes: &[u32]) -> Result<i64, StoreError> {
        if lanes.is_empty() {
            return Ok(0);
        }
        let mut ask = redis::pipe();
        let read = ask.cmd("HMGET").arg(self.names().counts());
        for lane in lanes {
            read.arg(&Phase::ALL.map(|phase| format!("{lane}.p{}", phase as usize)))
                .arg(&born_fields(*lane));
        }
        let counts = answer::list(self.look(&ask).await?.remove(0))?;
        counts.into_iter().map(answer::number).sum()
    }

    /// Followers in other queues of jobs in this one.
    async fn deferred_elsewhere(&mut self, queue: &Name) -> Result<Vec<Head>, StoreError> {
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE")
            .arg(self.names().rare(Phase::Deferred as usize))
            .arg(0)
            .arg(-1);
        let found = answer::all_bytes(self.look(&ask).await?.remove(0))?;
        let ids: Vec<Id> = found
            .into_iter()
            .filter_map(|id| id.try_into().ok().map(Id))
            .collect();
        self.load_heads(ids.iter().copied()).await?;
        let mut orphans = Vec::new();
        for id in ids {
            let Some(head) = self.head(&id).await? else {
                continue;
            };
            let followed = match head.follows {
                Some(followed) => self.head(&followed).await?,
                None => None,
            };
            let doomed = |head: &Head| {
                self.config
                    .live(head.lane)
                    .is_some_and(|lane| lane.queue == *queue)
            };
            if !doomed(&head) && followed.as_ref().is_some_and(doomed) {
                orphans.push(head);
            }
        }
        Ok(orphans)
    }
}
