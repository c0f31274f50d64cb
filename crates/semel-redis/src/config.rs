//! Lanes and settings of a shard, remembered between steps. One number says whether they have changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use redis::Value;

use semel_core::dedup::Mode;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::limits;
use semel_core::store::{Pause, Setting, Target};
use semel_core::time::Timestamp;

use crate::codec::{Reader, Writer};
use crate::keys::Keys;
use crate::link::{Link, answer};

/// A task in a queue.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The queue.
    pub queue: Name,
    /// The task.
    pub task: Name,
    /// Gone with its queue.
    pub gone: bool,
}

/// Lanes and settings as they were at a version.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Raised with every change.
    pub version: i64,
    /// By number.
    pub lanes: Vec<Lane>,
    by_name: HashMap<(Name, Name), u32>,
    queues: HashMap<Name, usize>,
    tasks: HashSet<Name>,
    /// Settings that are not at their default.
    pub settings: BTreeMap<Target, Setting>,
}

impl Config {
    /// Reads everything, in one instant.
    pub async fn read(link: &Link, keys: &Keys) -> Result<Arc<Config>, StoreError> {
        let mut ask = redis::pipe();
        ask.atomic()
            .cmd("HGET")
            .arg(keys.meta())
            .arg("config")
            .cmd("LRANGE")
            .arg(keys.lanes())
            .arg(0)
            .arg(-1)
            .cmd("HKEYS")
            .arg(keys.gone())
            .cmd("HGETALL")
            .arg(keys.settings());
        let answers = link.ask("reading queues and settings", &ask).await?;
        let [version, lanes, gone, settings] = <[Value; 4]>::try_from(answers)
            .map_err(|_| StoreError::corrupt("an answer of another length"))?;
        let mut config = Config {
            version: answer::number(version)?,
            ..Config::default()
        };
        let gone: HashSet<i64> = answer::all_bytes(gone)?
            .iter()
            .map(|number| answer::parse(number))
            .collect::<Result<_, _>>()?;
        for (number, bytes) in answer::all_bytes(lanes)?.iter().enumerate() {
            let (queue, task) = decode_lane(bytes)?;
            config.add(queue, task, gone.contains(&(number as i64)));
        }
        for (target, setting) in answer::pairs(settings)? {
            config
                .settings
                .insert(decode_target(&target)?, decode_setting(&setting)?);
        }
        Ok(Arc::new(config))
    }

    /// Adds a lane; gives its number.
    pub fn add(&mut self, queue: Name, task: Name, gone: bool) -> u32 {
        let number = u32::try_from(self.lanes.len()).expect("fewer lanes than numbers");
        self.tasks.insert(task.clone());
        if !gone {
            *self.queues.entry(queue.clone()).or_default() += 1;
            self.by_name.insert((queue.clone(), task.clone()), number);
        }
        self.lanes.push(Lane { queue, task, gone });
        number
    }

    /// The lanes of a queue go; gives their numbers.
    pub fn remove_queue(&mut self, queue: &Name) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if lane.queue == *queue && !lane.gone {
                lane.gone = true;
                numbers.push(u32::try_from(number).expect("fewer lanes than numbers"));
            }
        }
        self.by_name.retain(|(name, _), _| name != queue);
        self.queues.remove(queue);
        self.settings.remove(&Target::Queue(queue.clone()));
        numbers
    }

    /// The lane of a task in a queue.
    pub fn lane(&self, queue: &Name, task: &Name) -> Option<u32> {
        self.by_name.get(&(queue.clone(), task.clone())).copied()
    }

    /// Queue and task of a lane, even of one that is gone.
    pub fn names(&self, number: u32) -> Result<(Name, Name), StoreError> {
        let lane = self.lanes.get(number as usize);
        let lane = lane.ok_or_else(|| StoreError::corrupt(format!("lane {number} is missing")))?;
        Ok((lane.queue.clone(), lane.task.clone()))
    }

    /// A lane that is not gone.
    pub fn live(&self, number: u32) -> Option<&Lane> {
        self.lanes.get(number as usize).filter(|lane| !lane.gone)
    }

    /// Bounds the numbers of queues and tasks (contract 8.1).
    pub fn bounded(&self, queue: &Name, task: &Name) -> Result<(), Invalid> {
        if self.queues.len() >= limits::QUEUES && !self.queues.contains_key(queue) {
            return Err(Invalid::new(
                "queue",
                format!("at most {} queues", limits::QUEUES),
            ));
        }
        if self.tasks.len() >= limits::TASKS && !self.tasks.contains(task) {
            return Err(Invalid::new("task", format!("at most {} tasks", limits::TASKS)));
        }
        Ok(())
    }

    fn concerning(&self, queue: &Name, task: &Name) -> impl Iterator<Item = (Target, &Setting)> {
        let targets = [
            Target::All,
            Target::Queue(queue.clone()),
            Target::Task(task.clone()),
        ];
        targets
            .into_iter()
            .filter_map(|target| self.settings.get(&target).map(|setting| (target, setting)))
    }

    /// What keeps a submission out, if anything does.
    pub fn closed(&self, queue: &Name, task: &Name, now: Timestamp) -> Option<Target> {
        if self.settings.is_empty() {
            return None;
        }
        let mut all = self.concerning(queue, task);
        all.find(|(_, setting)| setting.is_closed(now))
            .map(|(target, _)| target)
    }

    /// Whether policies only watch in a lane.
    pub fn observes(&self, queue: &Name, task: &Name, now: Timestamp) -> bool {
        !self.settings.is_empty()
            && self
                .concerning(queue, task)
                .any(|(_, setting)| setting.is_observed(now))
    }

    /// Whether work of a lane is held back.
    pub fn is_paused(&self, queue: &Name, task: &Name, now: Timestamp) -> bool {
        !self.settings.is_empty()
            && self
                .concerning(queue, task)
                .any(|(_, setting)| setting.is_paused(now))
    }

    /// Whether a queue was declared unique.
    pub fn is_unique(&self, queue: &Name) -> bool {
        let is = |target| self.settings.get(&target).is_some_and(|setting| setting.unique);
        !self.settings.is_empty() && (is(Target::All) || is(Target::Queue(queue.clone())))
    }
}

const VERSION: u8 = 1;

/// A lane as stored.
pub fn encode_lane(queue: &Name, task: &Name) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    out.text(queue.as_str()).text(task.as_str());
    out.done()
}

fn decode_lane(bytes: &[u8]) -> Result<(Name, Name), StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a lane")?;
    Ok((from.name()?, from.name()?))
}

/// A target as stored.
pub fn encode_target(target: &Target) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    match target {
        Target::All => out.byte(0),
        Target::Queue(name) => out.byte(1).text(name.as_str()),
        Target::Task(name) => out.byte(2).text(name.as_str()),
    };
    out.done()
}

fn decode_target(bytes: &[u8]) -> Result<Target, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "the target of a setting")?;
    Ok(match from.byte()? {
        0 => Target::All,
        1 => Target::Queue(from.name()?),
        _ => Target::Task(from.name()?),
    })
}

/// A setting as stored.
pub fn encode_setting(setting: &Setting) -> Vec<u8> {
    let mut out = Writer::new(VERSION);
    let bits = u8::from(setting.closed)
        | u8::from(setting.unique) << 1
        | u8::from(setting.mode == Mode::Observe) << 2
        | u8::from(setting.paused.is_some()) << 3
        | u8::from(setting.closed_until.is_some()) << 4
        | u8::from(setting.observed_until.is_some()) << 5;
    out.byte(bits);
    if let Some(pause) = &setting.paused {
        out.time(pause.since)
            .maybe_time(pause.until)
            .maybe_text(pause.reason.as_deref());
    }
    for until in [setting.closed_until, setting.observed_until]
        .into_iter()
        .flatten()
    {
        out.time(until);
    }
    out.done()
}

fn decode_setting(bytes: &[u8]) -> Result<Setting, StoreError> {
    let mut from = Reader::new(bytes, VERSION, "a setting")?;
    let bits = from.byte()?;
    let paused = match bits & 8 {
        0 => None,
        _ => Some(Pause {
            since: from.time()?,
            until: from.maybe_time()?,
            reason: from.maybe_text()?.map(str::to_owned),
        }),
    };
    let mut until = |bit: u8| (bits & bit != 0).then(|| from.time()).transpose();
    let (closed_until, observed_until) = (until(16)?, until(32)?);
    Ok(Setting {
        paused,
        closed: bits & 1 != 0,
        closed_until,
        unique: bits & 2 != 0,
        mode: if bits & 4 != 0 {
            Mode::Observe
        } else {
            Mode::Enforce
        },
        observed_until,
    })
}
