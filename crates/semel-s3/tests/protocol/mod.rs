//! The protocol of a cell, small enough to look at every state it can get into.
//!
//! It is told apart from the code on purpose: objects, requests and what clients do with them, no more. Clients may be
//! interleaved in every way and die between any two requests; the answer of a conditional write may be lost, or say
//! nothing, or the write may be done long after its client gave up; a lease may run out at any moment. In every state it
//! is asked: has a job vanished or come back, was a submission answered in two ways, did an old lease change anything,
//! and if everybody died now, would a worker who knows nothing find every job that is not done?

mod clients;
mod search;

pub use clients::{Broken, Client, Kind};

use clients::nth;
pub use search::search;

/// Jobs, each of one submission: a job is named as the token it came with.
pub const JOBS: usize = 3;
/// Lease entries there can be.
pub const ENTRIES: u8 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    Waiting,
    Running,
    Ended,
}

/// A job. It holds its key until it ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Job {
    pub id: u8,
    pub phase: Phase,
    pub placement: u8,
    /// The entry of its newest lease; also its fence.
    pub lease: u8,
}

/// The object of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cell {
    pub jobs: [Option<Job>; JOBS],
    /// Who took the key last.
    pub last: u8,
    /// Moves whose copies do not count, by job.
    pub dead: [u8; JOBS],
    /// Writes that are in it, by nonce.
    pub wrote: u32,
}

impl Cell {
    pub fn holder(&self) -> Option<Job> {
        let mut jobs = self.jobs.iter().flatten();
        jobs.find(|job| job.phase != Phase::Ended).copied()
    }

    pub fn job(&self, id: u8) -> Option<Job> {
        self.jobs[id as usize]
    }

    #[must_use]
    pub fn with(mut self, job: Job) -> Self {
        self.jobs[job.id as usize] = Some(job);
        self
    }
}

/// The object of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ticket {
    /// The job it was absorbed by.
    pub absorbed_by: Option<u8>,
    /// The job, moved here, and by which move.
    pub copy: Option<(Job, u8)>,
    pub wrote: u32,
}

/// A conditional write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Write {
    Cell {
        over: Option<Cell>,
        new: Cell,
    },
    Ticket {
        of: u8,
        over: Option<Ticket>,
        new: Ticket,
    },
}

/// What a submission was answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    Accepted,
    Duplicate(u8),
}

/// Everything there is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    pub cell: Option<Cell>,
    pub tickets: [Option<Ticket>; JOBS],
    /// By job, a bit per placement.
    pub hints: [u32; JOBS],
    /// The job each lease entry is about.
    pub entries: [Option<u8>; ENTRIES as usize],
    /// Entries that were made. They run out in this order.
    pub made: u8,
    /// Entries whose moment is past.
    pub past: u8,
    /// A write whose client has given up, still on its way.
    pub late: Option<Write>,
    pub faults: u8,
    pub clients: Vec<Client>,
    /// Jobs that have been there, and that were deleted: what really happened.
    pub ever: u8,
    pub deleted: u8,
    pub answers: [Option<Answer>; JOBS],
}

impl World {
    pub fn new(clients: Vec<Client>, faults: u8) -> Self {
        World {
            cell: None,
            tickets: [None; JOBS],
            hints: [0; JOBS],
            entries: [None; ENTRIES as usize],
            made: 0,
            past: 0,
            late: None,
            faults,
            clients,
            ever: 0,
            deleted: 0,
            answers: [None; JOBS],
        }
    }

    /// The same, later: these jobs are in the cell, the last of them had the key last. One that runs has a lease that
    /// is over.
    #[must_use]
    pub fn after(mut self, phases: &[Phase]) -> Self {
        let mut cell = Cell::default();
        for (id, phase) in (0..).zip(phases.iter().copied()) {
            cell = cell.with(Job {
                id,
                phase,
                placement: 0,
                lease: 0,
            });
            cell.last = id;
            self.ever |= 1 << id;
            match phase {
                Phase::Waiting => self.hints[id as usize] = 1,
                Phase::Running => {
                    self.entries[0] = Some(id);
                    (self.made, self.past) = (1, 1);
                }
                Phase::Ended => {}
            }
        }
        self.cell = Some(cell);
        self
    }

    /// A job, wherever it is.
    pub fn find(&self, id: u8) -> Option<Job> {
        let cell = self.cell?;
        cell.job(id).or_else(|| {
            let (copy, by) = self.tickets[id as usize]?.copy?;
            (cell.dead[id as usize] >> by & 1 == 0).then_some(copy)
        })
    }

    /// Does a write if its condition holds. Says whether it did, or what went wrong for good.
    pub fn apply(&mut self, write: &Write) -> Result<bool, String> {
        let before: Vec<Option<Job>> = (0..JOBS as u8).map(|id| self.find(id)).collect();
        let met = match write {
            Write::Cell { over, .. } => self.cell == *over,
            Write::Ticket { of, over, .. } => self.tickets[*of as usize] == *over,
        };
        if !met {
            return Ok(false);
        }
        match write {
            Write::Cell { new, .. } => self.cell = Some(*new),
            Write::Ticket { of, new, .. } => self.tickets[*of as usize] = Some(*new),
        }
        for (id, before) in before.into_iter().enumerate() {
            self.judge(id as u8, before)?;
        }
        Ok(true)
    }

    /// Whether what became of a job may become of one.
    fn judge(&mut self, id: u8, before: Option<Job>) -> Result<(), String> {
        let bit = 1 << id;
        match (before, self.find(id)) {
            (None, Some(_)) if self.deleted & bit != 0 => Err(format!("job {id} came back")),
            (None, Some(_)) if self.ever & bit != 0 => Err(format!("job {id} was made twice")),
            (None, Some(_)) => {
                self.ever |= bit;
                match self.answers[id as usize] {
                    Some(Answer::Duplicate(_)) => {
                        Err(format!("job {id} was made after its duplicate was told of"))
                    }
                    _ => Ok(()),
                }
            }
            (Some(_), None) if self.deleted & bit == 0 => Err(format!("job {id} vanished")),
            (Some(old), Some(new)) if new.lease < old.lease => Err(format!("a fence of job {id} fell")),
            _ => Ok(()),
        }
    }

    /// Answers a submission.
    pub fn answer(&mut self, id: u8, answer: Answer) -> Result<(), String> {
        let named = match answer {
            Answer::Accepted => id,
            Answer::Duplicate(holder) => holder,
        };
        if self.ever >> named & 1 == 0 {
            return Err(format!("an answer names job {named}, which there never was"));
        }
        match self.answers[id as usize].replace(answer) {
            Some(before) if before != answer => {
                Err(format!("submission {id} was answered {before:?} and {answer:?}"))
            }
            _ => Ok(()),
        }
    }

    /// What must be so in every state, as everybody may die in it.
    pub fn check(&self) -> Result<(), String> {
        for id in 0..JOBS as u8 {
            let Some(job) = self.find(id) else { continue };
            let hinted = |placement: u8| self.hints[id as usize] >> placement & 1 == 1;
            // A worker who comes by a hint that is behind its job sees to the entry of where the job is now.
            let led_to = (0..32).any(|hint| hinted(hint) && nth(hint) <= nth(job.placement));
            let looked_after = |entry: u8| entry >= job.lease && self.entries[entry as usize] == Some(id);
            match job.phase {
                Phase::Waiting if !led_to => return Err(format!("job {id} waits, and nobody will find it")),
                Phase::Running if !led_to && !(0..self.made).any(looked_after) => {
                    return Err(format!("job {id} runs, and nobody will take its lease back"));
                }
                _ => {}
            }
        }
        let holders = self.cell.iter().flat_map(|cell| cell.jobs.iter().flatten());
        match holders.filter(|job| job.phase != Phase::Ended).count() {
            0 | 1 => Ok(()),
            _ => Err("a key is held by two jobs".to_owned()),
        }
    }
}
