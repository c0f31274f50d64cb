//! Where the work is done: leased jobs wait here for a free slot, run, and leave their result for the scribe.
//!
//! A slot is a task that takes one job after the other, so a job costs one turn at the lock and no wake-up
//! as long as there is work. Whoever takes a job while more are waiting wakes the next idle slot.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::lifecycle::Settle;
use semel_core::limits::BATCH;
use tokio::sync::Notify;

use crate::worker::attempt::Ended;
use crate::worker::lease::Lease;

/// Results that may wait for the store before no more work is taken on.
const UNSETTLED: usize = 4 * BATCH;

/// The buffer, the slots and the results of a worker.
pub(crate) struct Floor {
    slots: usize,
    /// For each group of tasks, how many of its jobs may be in hand; `None`: as many as there are slots.
    limits: Vec<Option<usize>>,
    state: Mutex<State>,
    /// There are jobs to run, or it is time to go home.
    work: Notify,
    /// There is room for jobs that the claimer waits for.
    room: Notify,
    /// There are results.
    results: Notify,
}

struct State {
    buffer: VecDeque<Arc<Lease>>,
    running: usize,
    idle: usize,
    /// Running and waiting in the buffer, by group.
    in_hand: Vec<usize>,
    /// Jobs to have in the buffer beyond the free slots.
    prefetch: usize,
    /// For which groups the claimer waits.
    awaited: Vec<bool>,
    ended: Vec<Ended>,
    /// Results that the scribe has and the store has not answered.
    unsettled: usize,
    /// Jobs that ever ended here.
    done: u64,
    closed: bool,
}

/// So many jobs of a group of tasks can be taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) group: usize,
    pub(crate) max: usize,
}

enum Turn {
    Run(Arc<Lease>),
    Wait,
    Home,
}

impl Floor {
    pub(crate) fn new(slots: usize, limits: Vec<Option<usize>>) -> Self {
        let groups = limits.len();
        Floor {
            slots,
            limits,
            state: Mutex::new(State {
                buffer: VecDeque::new(),
                running: 0,
                idle: 0,
                in_hand: vec![0; groups],
                prefetch: 0,
                awaited: vec![false; groups],
                ended: Vec::new(),
                unsettled: 0,
                done: 0,
                closed: false,
            }),
            work: Notify::new(),
            room: Notify::new(),
            results: Notify::new(),
        }
    }

    /// Leaves the result of a slot's last job and takes the next one. `None`: nothing will come any more.
    pub(crate) async fn next(&self, mut ended: Option<Ended>) -> Option<Arc<Lease>> {
        loop {
            match self.turn(ended.take()) {
                Turn::Run(lease) => return Some(lease),
                Turn::Wait => self.work.notified().await,
                Turn::Home => return None,
            }
            self.state().idle -= 1;
        }
    }

    fn turn(&self, ended: Option<Ended>) -> Turn {
        let mut state = self.state();
        let (mut results, mut room) = (false, false);
        if let Some(ended) = ended {
            state.running -= 1;
            state.in_hand[ended.lease.group] -= 1;
            state.done += 1;
            results = state.ended.is_empty();
            state.ended.push(ended);
            room = self.has_awaited_room(&mut state);
        }
        let turn = match state.buffer.pop_front() {
            Some(lease) => {
                state.running += 1;
                Turn::Run(lease)
            }
            None if state.closed => Turn::Home,
            None => {
                state.idle += 1;
                Turn::Wait
            }
        };
        let more = state.idle > 0 && (!state.buffer.is_empty() || state.closed);
        drop(state);
        if results {
            self.results.notify_one();
        }
        if room {
            self.room.notify_one();
        }
        if more && !matches!(turn, Turn::Wait) {
            self.work.notify_one();
        }
        turn
    }

    /// Puts claimed jobs into the buffer; once it is closed they are handed back instead.
    pub(crate) fn fill(&self, leases: Vec<Arc<Lease>>) {
        let mut state = self.state();
        if state.closed {
            state.ended.extend(leases.into_iter().map(hand_back));
            drop(state);
            return self.results.notify_one();
        }
        for lease in &leases {
            state.in_hand[lease.group] += 1;
        }
        state.buffer.extend(leases);
        drop(state);
        self.work.notify_one();
    }

    /// What can be claimed now.
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let state = self.state();
        (0..self.limits.len())
            .map(|group| self.ask(&state, group))
            .filter(|ask| ask.max > 0)
            .collect()
    }

    fn ask(&self, state: &State, group: usize) -> Ask {
        let target = self.slots + state.prefetch;
        let in_hand: usize = state.in_hand.iter().sum();
        let free = target.saturating_sub(in_hand);
        let starving = state.buffer.is_empty() && state.running < self.slots;
        // Few large claims are better than many small ones, as long as no slot is waiting.
        let worth_it = starving || free * 2 >= target;
        let settled = state.ended.len() + state.unsettled < UNSETTLED;
        let mut max = match worth_it && settled {
            true => free.min(BATCH),
            false => 0,
        };
        if let Some(limit) = self.limits[group] {
            // Jobs of a limited task are not fetched ahead: whatever is in the buffer may run.
            max = max.min(limit.saturating_sub(state.in_hand[group]));
        }
        Ask { group, max }
    }

    /// Waits until something can be claimed of one of these groups.
    pub(crate) async fn room(&self, groups: &[usize]) {
        {
            let mut state = self.state();
            groups.iter().for_each(|group| state.awaited[*group] = true);
            if self.has_awaited_room(&mut state) {
                return;
            }
        }
        self.room.notified().await;
    }

    fn has_awaited_room(&self, state: &mut State) -> bool {
        if !state.awaited.contains(&true) {
            return false;
        }
        let has_room = |group: usize| state.awaited[group] && self.ask(state, group).max > 0;
        let found = (0..self.limits.len()).any(has_room);
        if found {
            state.awaited.fill(false);
        }
        found
    }

    /// Sets how many jobs to fetch ahead.
    pub(crate) fn prefetch(&self, jobs: usize) {
        self.state().prefetch = jobs;
    }

    /// Jobs that ever ended here.
    pub(crate) fn done(&self) -> u64 {
        self.state().done
    }

    /// Jobs that run right now.
    pub(crate) fn running(&self) -> usize {
        self.state().running
    }

    /// Waits for results.
    pub(crate) async fn results(&self) {
        self.results.notified().await;
    }

    /// Takes results, to be told to the store.
    pub(crate) fn take_results(&self, most: usize) -> Vec<Ended> {
        let mut state = self.state();
        let taken = state.ended.len().min(most);
        state.unsettled += taken;
        if taken == state.ended.len() {
            return std::mem::take(&mut state.ended);
        }
        state.ended.drain(..taken).collect()
    }

    /// Results that were taken have been answered.
    pub(crate) fn answered(&self, count: usize) {
        let mut state = self.state();
        state.unsettled -= count;
        let room = self.has_awaited_room(&mut state);
        drop(state);
        if room {
            self.room.notify_one();
        }
    }

    /// Takes no more jobs: those that wait are handed back, slots go home when they are done with theirs.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waiting: Vec<_> = state.buffer.drain(..).collect();
        for lease in &waiting {
            state.in_hand[lease.group] -= 1;
        }
        state.ended.extend(waiting.into_iter().map(hand_back));
        drop(state);
        self.work.notify_one();
        self.results.notify_one();
    }

    /// Hands back the jobs of slots that do not let go of them.
    pub(crate) fn wrest(&self, leases: Vec<Arc<Lease>>) {
        self.state().ended.extend(leases.into_iter().map(hand_back));
        self.results.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hand_back(lease: Arc<Lease>) -> Ended {
    Ended::new(lease, Some(Settle::HandBack))
}
