//! Who has which key. Whether a key is held is derived from its newest owner; nothing here is a lock (contract 2.9).

use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId};
use semel_core::lifecycle;

use crate::head::Head;
use crate::jobs::score;
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::records::{self, Owner};
use crate::tx::{Slot, Tx};

impl Slot {
    /// The newest owner of a key.
    pub fn owner(keys: &Keys, digest: &Digest) -> Self {
        Slot::new(keys.owners(digest), Keys::owned(digest))
    }

    /// The holders of hybrid keys with the same fields.
    pub fn group(keys: &Keys, digest: &Digest) -> Self {
        Slot::new(keys.groups(digest), *digest.as_bytes())
    }
}

impl Tx<'_> {
    /// Who took a key last.
    pub async fn owner(&mut self, digest: &Digest) -> Result<Option<Owner>, StoreError> {
        let slot = Slot::owner(self.names(), digest);
        self.get(&slot).await?.map(Owner::decode).transpose()
    }

    /// The same with its generation, which for the first one who has a key is told by the job alone.
    pub async fn owner_in_full(&mut self, digest: &Digest) -> Result<Option<Owner>, StoreError> {
        let slot = Slot::owner(self.names(), digest);
        let Some(first) = self.get(&slot).await?.and_then(Owner::first) else {
            return self.owner(digest).await;
        };
        let head = self.sound_head(&first).await?;
        let holding = head.and_then(|head| head.life.holding);
        Ok(Some(Owner {
            newest: Some(first),
            generation: holding.map_or(0, |holding| holding.generation),
            kin: false,
        }))
    }

    /// The generation the next owner of a key takes it with.
    pub async fn next_generation(&mut self, digest: &Digest) -> Result<i64, StoreError> {
        let last = self
            .owner_in_full(digest)
            .await?
            .map_or(0, |owner| owner.generation);
        Ok(lifecycle::next_fence(last, self.micros))
    }

    /// Makes a job the newest owner of its key.
    pub async fn own(&mut self, head: &Head, generation: i64) -> Result<(), StoreError> {
        let Some(digest) = head.digest else { return Ok(()) };
        let keys = self.names();
        let before = self.owner_in_full(&digest).await?;
        let mut kin = before.is_some_and(|owner| owner.kin);
        if kin {
            // It may have been among those that had the key without being its newest owner.
            self.run("ZREM", keys.kin(&digest), vec![head.id.0.to_vec()]);
        }
        let older = before.and_then(|owner| Some((owner.newest?, owner.generation)));
        if let Some((older, generation)) = older.filter(|(older, _)| *older != head.id) {
            self.run(
                "ZADD",
                keys.kin(&digest),
                vec![score(generation), older.0.to_vec()],
            );
            kin = true;
        }
        if let Some(left) = self.kin_left.get_mut(&digest) {
            left.retain(|(_, id)| *id != head.id);
            left.extend(
                older
                    .filter(|(older, _)| *older != head.id)
                    .map(|(id, generation)| (generation, id)),
            );
            left.sort_unstable();
        }
        let owner = Owner {
            newest: Some(head.id),
            generation,
            kin,
        };
        self.set(Slot::owner(keys, &digest), owner.encode());
        if let Some(group) = head.group {
            let mut members = self.group(&group).await?;
            members.retain(|(_, id)| *id != head.id);
            members.push((head.seq, head.id));
            members.sort_unstable();
            self.set(Slot::group(keys, &group), records::encode_ids(&members));
        }
        Ok(())
    }

    /// A job has a key that it never took: it follows the one that did.
    pub async fn know_key(&mut self, head: &Head) -> Result<(), StoreError> {
        let Some(digest) = head.digest else { return Ok(()) };
        let keys = self.names();
        let before = self.owner_in_full(&digest).await?;
        let owner = Owner {
            newest: before.and_then(|owner| owner.newest),
            generation: before.map_or(0, |owner| owner.generation),
            kin: true,
        };
        if let Some(left) = self.kin_left.get_mut(&digest) {
            left.insert(0, (-head.seq, head.id));
        }
        self.run(
            "ZADD",
            keys.kin(&digest),
            vec![score(-head.seq), head.id.0.to_vec()],
        );
        self.set(Slot::owner(keys, &digest), owner.encode());
        Ok(())
    }

    /// A job that goes has its key no more; the total of the key goes with its last trace.
    pub async fn disown(&mut self, digest: &Digest, head: &Head) -> Result<(), StoreError> {
        let keys = self.names();
        if let Some(group) = head.group {
            let mut members = self.group(&group).await?;
            members.retain(|(_, id)| *id != head.id);
            self.put_group(&group, &members);
        }
        let Some(owner) = self.owner_in_full(digest).await? else {
            return Ok(());
        };
        let mut kin = if owner.kin {
            self.kin(digest).await?
        } else {
            Vec::new()
        };
        kin.retain(|(_, id)| *id != head.id);
        if owner.kin {
            self.run("ZREM", keys.kin(digest), vec![head.id.0.to_vec()]);
        }
        let mut next = owner;
        if owner.newest == Some(head.id) {
            let heir = kin.pop_if(|(generation, _)| *generation > 0);
            next.newest = heir.map(|(_, id)| id);
            if let Some((_, heir)) = heir {
                self.run("ZREM", keys.kin(digest), vec![heir.0.to_vec()]);
            }
        }
        next.kin = !kin.is_empty();
        self.kin_left.insert(*digest, kin);
        let slot = Slot::owner(keys, digest);
        if next.newest.is_some() || next.kin {
            self.set(slot, next.encode());
            return Ok(());
        }
        self.unset(slot);
        self.forget_total(digest).await
    }

    /// Other jobs of a key, the newest owner among them last.
    pub async fn kin(&mut self, digest: &Digest) -> Result<Vec<(i64, Id)>, StoreError> {
        if let Some(kin) = self.kin_left.get(digest) {
            return Ok(kin.clone());
        }
        let mut ask = redis::pipe();
        ask.cmd("ZRANGE")
            .arg(self.names().kin(digest))
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES");
        let found = answer::pairs(self.look(&ask).await?.remove(0))?;
        found
            .into_iter()
            .map(|(id, score)| {
                let id = id
                    .try_into()
                    .map_err(|_| StoreError::corrupt("an owner that is no job"))?;
                Ok((answer::parse(&score)?, Id(id)))
            })
            .collect()
    }

    /// Forgets how much a key has absorbed, once neither a job nor the ledger knows it.
    pub async fn forget_total(&mut self, digest: &Digest) -> Result<(), StoreError> {
        if self.owner(digest).await?.is_some() {
            return Ok(());
        }
        let keys = self.names();
        let member = digest.as_bytes().to_vec();
        self.forget_if_empty(keys.ledger_of(digest), keys.absorbed(digest), "HDEL", member);
        Ok(())
    }

    async fn group(&mut self, group: &Digest) -> Result<Vec<(i64, Id)>, StoreError> {
        let slot = Slot::group(self.names(), group);
        match self.get(&slot).await? {
            Some(bytes) => records::decode_ids(bytes),
            None => Ok(Vec::new()),
        }
    }

    fn put_group(&mut self, group: &Digest, members: &[(i64, Id)]) {
        let slot = Slot::group(self.names(), group);
        match members.is_empty() {
            true => self.unset(slot),
            false => self.set(slot, records::encode_ids(members)),
        }
    }

    /// The oldest job that holds a key of this hybrid group, but not this very key. Those that let go are forgotten.
    pub async fn collision(&mut self, group: &Digest, digest: &Digest) -> Result<Option<JobId>, StoreError> {
        let members = self.group(group).await?;
        self.load_heads(members.iter().map(|(_, id)| *id)).await?;
        let (mut holders, mut oldest) = (Vec::new(), None);
        for (seq, id) in &members {
            let head = self.head(id).await?.filter(|head| head.life.is_holder(self.now));
            let Some(head) = head else { continue };
            holders.push((*seq, *id));
            if oldest.is_none() && head.digest != Some(*digest) {
                oldest = Some(self.names().id_of(&head.trail, id));
            }
        }
        if holders != members {
            self.put_group(group, &holders);
        }
        Ok(oldest)
    }
}
