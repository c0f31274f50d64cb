//! What clients do, a request at a time.

use super::{Answer, Cell, ENTRIES, JOBS, Job, Phase, Ticket, World, Write};

/// What a client is there for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Sends a submission; sent again it is another client.
    Submit { id: u8 },
    /// Goes for hints and for lease entries that are due, so many times. A job it runs is completed; or as well kept for
    /// longer, or given back.
    Work { rounds: u8, completes: bool },
    /// Moves an ended job out of the cell.
    MoveOut { id: u8, by: u8 },
    /// Gives an ended job a new life, from wherever it is.
    Retry { id: u8 },
    /// Deletes an ended job, wherever it is.
    Delete { id: u8 },
    /// Empties copies that do not count.
    Tidy,
}

/// A rule that is not kept: each must be found to be needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    Nothing,
    /// A key is taken again without asking the token.
    TokenNotAsked,
    /// A submission is absorbed by a holder that was seen before its token was.
    HolderNotAskedAgain,
    /// A job is advertised after it is written.
    HintLater,
    /// A lease is advertised after the hint of its job is gone.
    EntryLater,
    /// A lease that was written late is not advertised again.
    LateLeaseTrusted,
    /// Who looks after a lease entry believes what it remembers of the cell.
    VisitFromMemory,
    /// A loser takes its hint back although its write may still be done.
    HintWithdrawnInDoubt,
    /// Two who give a job its next place advertise it under the same name.
    NamesShared,
    /// The copy of one move is written over that of another.
    CopyOverwritten,
    /// A move is not announced.
    MoveUnannounced,
    /// Whatever copy is there is emptied.
    AnyCopyEmptied,
    /// It is forgotten that a copy does not count before it is emptied.
    ForgottenEarly,
    /// Cells are written without a condition.
    Unconditional,
}

const OVER: u8 = u8::MAX;
/// Names that the hints of one place in the index can have: one for each client, as each draws its own.
const NAMES: u8 = 8;
/// Names that hints of a job can have.
const HINTS: u8 = 32;

/// Which of its places in the index the name of a hint is about.
pub fn nth(placement: u8) -> u8 {
    placement / NAMES
}

/// A client, between two requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Client {
    kind: Kind,
    at: u8,
    rounds: u8,
    /// What it read last.
    cell: Option<Cell>,
    ticket: Option<Ticket>,
    job: u8,
    hint: u8,
    entry: u8,
    absorbs: bool,
    writes: u8,
}

impl Client {
    pub fn new(kind: Kind) -> Self {
        let rounds = match kind {
            Kind::Work { rounds, .. } => rounds,
            _ => 1,
        };
        Client {
            kind,
            at: 0,
            rounds,
            cell: None,
            ticket: None,
            job: 0,
            hint: 0,
            entry: 0,
            absorbs: false,
            writes: 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    Done,
    Refused,
    Unknown,
}

type Next = Vec<Result<World, String>>;

/// One client's next request, in all the ways it may go.
struct Turn<'a> {
    world: &'a World,
    n: usize,
    broken: Broken,
    next: &'a mut Next,
}

pub fn step(world: &World, n: usize, broken: Broken, next: &mut Next) {
    let client = world.clients[n];
    if client.at == OVER {
        return;
    }
    let mut turn = Turn {
        world,
        n,
        broken,
        next,
    };
    match client.kind {
        Kind::Submit { id } => turn.submit(client, id, n as u8),
        Kind::Work { .. } if client.at < 20 => turn.claim(client),
        Kind::Work { .. } if client.at < 30 => turn.visit(client),
        Kind::Work { .. } => turn.run(client),
        Kind::MoveOut { id, by } => turn.move_out(client, id, by),
        Kind::Retry { id } => turn.bring(client, id, false),
        Kind::Delete { id } => turn.bring(client, id, true),
        Kind::Tidy => turn.tidy(client),
    }
}

fn bit(n: u8) -> u8 {
    1 << n
}

/// The bit of a hint.
fn hint_bit(placement: u8) -> u32 {
    1 << placement
}

impl Turn<'_> {
    /// Goes on to a place, having changed something.
    fn go(&mut self, at: u8, change: impl FnOnce(&mut World, &mut Client)) {
        let mut world = self.world.clone();
        let mut client = world.clients[self.n];
        client.at = at;
        change(&mut world, &mut client);
        world.clients[self.n] = client;
        self.next.push(Ok(world));
    }

    fn read(&mut self, at: u8) {
        self.go(at, |world, client| client.cell = world.cell);
    }

    /// The end of a round.
    fn finish(&mut self) {
        self.go(0, |_, client| {
            *client = Client {
                at: if client.rounds > 1 { 0 } else { OVER },
                rounds: client.rounds.saturating_sub(1),
                writes: client.writes,
                ..Client::new(client.kind)
            }
        });
    }

    /// The next place of a job, under a name of this client's own.
    fn next(&self, placement: u8) -> u8 {
        let name = match self.broken {
            Broken::NamesShared => 0,
            _ => self.n as u8,
        };
        (nth(placement) + 1) * NAMES + name
    }

    /// Takes back the hint of a write that was refused, if the cell is another one by now and does not have the write.
    fn withdraw(&mut self, at: u8) {
        let Client { cell, job: id, .. } = self.world.clients[self.n];
        let now = self.world.cell;
        let written = now.is_some_and(|now| self.wrote(now.wrote));
        let job = cell.and_then(|cell| cell.job(id));
        let hint = job.map(|job| self.next(job.placement));
        let lost = now != cell && !written;
        self.go(at, |world, _| {
            if let Some(hint) = hint.filter(|_| lost) {
                world.hints[id as usize] &= !hint_bit(hint);
            }
        });
    }

    fn answer(&mut self, id: u8, answer: Answer) {
        let mut world = self.world.clone();
        world.clients[self.n].at = OVER;
        self.next.push(world.answer(id, answer).map(|()| world));
    }

    /// The nonce of this client's next write.
    fn nonce(&self) -> u32 {
        1 << (self.n as u32 * 5 + u32::from(self.world.clients[self.n].writes))
    }

    fn wrote(&self, wrote: u32) -> bool {
        let mine = 0b1_1111 << (self.n as u32 * 5);
        wrote & mine & self.tried() != 0
    }

    fn tried(&self) -> u32 {
        ((1 << self.world.clients[self.n].writes) - 1) << (self.n as u32 * 5)
    }

    /// A conditional write, in all the ways it may go.
    fn write(&mut self, write: Write, deletes: u8, then: impl Fn(&mut World, &mut Client, Came)) {
        if self.world.clients[self.n].writes == 5 {
            // It has tried often enough to be called dead.
            return self.go(OVER, |_, _| {});
        }
        let write = self.signed(write);
        let mut outcomes = Vec::new();
        let mut world = self.world.clone();
        let deleted = world.deleted | deletes;
        let before = std::mem::replace(&mut world.deleted, deleted);
        match world.apply(&write) {
            Err(wrong) => return self.next.push(Err(wrong)),
            Ok(true) => {
                outcomes.push((world.clone(), Came::Done, 0));
                outcomes.push((world, Came::Unknown, 1));
            }
            Ok(false) => {
                world.deleted = before;
                outcomes.push((world, Came::Refused, 0));
            }
        }
        outcomes.push((self.world.clone(), Came::Unknown, 1));
        if self.world.late.is_none() && deletes == 0 {
            let mut late = self.world.clone();
            late.late = Some(write);
            outcomes.push((late, Came::Unknown, 1));
        }
        for (mut world, came, faults) in outcomes {
            if world.faults < faults {
                continue;
            }
            world.faults -= faults;
            let mut client = world.clients[self.n];
            client.writes += 1;
            then(&mut world, &mut client, came);
            world.clients[self.n] = client;
            self.next.push(Ok(world));
        }
    }

    fn signed(&self, write: Write) -> Write {
        match write {
            Write::Cell { over, mut new } => {
                new.wrote |= self.nonce();
                let over = match self.broken {
                    Broken::Unconditional if over.is_some() => self.world.cell,
                    _ => over,
                };
                Write::Cell { over, new }
            }
            Write::Ticket { of, over, mut new } => {
                new.wrote |= self.nonce();
                Write::Ticket { of, over, new }
            }
        }
    }

    fn submit(&mut self, client: Client, id: u8, placement: u8) {
        let cell = client.cell;
        match client.at {
            0 => self.read(1),
            1 => match cell {
                Some(cell) if self.wrote(cell.wrote) || cell.job(id).is_some() => {
                    self.answer(id, Answer::Accepted)
                }
                None => self.go(5, |_, _| {}),
                Some(_)
                    if cell.and_then(|cell| cell.holder()).is_none()
                        && self.broken == Broken::TokenNotAsked =>
                {
                    self.go(5, |_, _| {});
                }
                Some(cell) => {
                    let holder = cell.holder();
                    self.go(2, |_, client| {
                        client.absorbs = holder.is_some();
                        client.job = holder.map_or(0, |holder| holder.id);
                        client.ticket = None;
                    });
                }
            },
            // The object of the token: what becomes of this submission.
            2 => {
                let mut new = client.ticket.unwrap_or_default();
                if client.absorbs {
                    new.absorbed_by = Some(client.job);
                }
                let over = client.ticket;
                self.write(Write::Ticket { of: id, over, new }, 0, |_, client, came| {
                    client.at = match (came, client.absorbs) {
                        (Came::Done, true) => 9,
                        (Came::Done, false) => 5,
                        _ => 3,
                    };
                });
            }
            3 => self.go(4, |world, client| client.ticket = world.tickets[id as usize]),
            4 => match client.ticket {
                Some(ticket) if self.wrote(ticket.wrote) => {
                    self.go(if client.absorbs { 9 } else { 5 }, |_, _| {})
                }
                // Answered before, perhaps: the cell says whether that still counts.
                ticket => match ticket.and_then(|ticket| self.before(id, ticket)) {
                    Some(answer) => self.answer(id, answer),
                    // The same submission may be on its way to the key: what it meets there has to be seen after this.
                    None if client.absorbs && self.broken != Broken::HolderNotAskedAgain => self.read(12),
                    None => self.go(2, |_, _| {}),
                },
            },
            12 => match cell.unwrap_or_default() {
                cell if cell.job(id).is_some() => self.answer(id, Answer::Accepted),
                cell => {
                    let holder = cell.holder();
                    self.go(2, |_, client| {
                        client.absorbs = holder.is_some();
                        client.job = holder.map_or(0, |holder| holder.id);
                    });
                }
            },
            5 if self.broken == Broken::HintLater => self.go(6, |_, _| {}),
            5 => self.go(6, |world, _| world.hints[id as usize] |= hint_bit(placement)),
            6 => {
                let job = Job {
                    id,
                    phase: Phase::Waiting,
                    placement,
                    lease: 0,
                };
                let new = Cell {
                    last: id,
                    ..cell.unwrap_or_default().with(job)
                };
                let later = self.broken == Broken::HintLater;
                let in_doubt = self.broken == Broken::HintWithdrawnInDoubt;
                self.write(Write::Cell { over: cell, new }, 0, |_, client, came| {
                    client.at = match came {
                        Came::Done if later => 10,
                        Came::Done => 11,
                        Came::Refused => 7,
                        Came::Unknown if in_doubt => 7,
                        Came::Unknown => 0,
                    };
                });
            }
            // Refused: its hint goes, if the cell has changed and does not mean the same one.
            7 => {
                let now = self.world.cell;
                let written = now.is_some_and(|now| self.wrote(now.wrote));
                let is_its = now
                    .and_then(|now| now.job(id))
                    .is_some_and(|job| job.placement == placement);
                let lost =
                    (now != cell || self.broken == Broken::HintWithdrawnInDoubt) && !written && !is_its;
                self.go(if lost { 8 } else { 0 }, |_, _| {});
            }
            8 => self.go(0, |world, _| world.hints[id as usize] &= !hint_bit(placement)),
            9 => self.answer(id, Answer::Duplicate(client.job)),
            10 => self.go(11, |world, _| world.hints[id as usize] |= hint_bit(placement)),
            _ => self.answer(id, Answer::Accepted),
        }
    }

    /// What a submission was answered before, by the object of its token and a look at the cell.
    fn before(&self, id: u8, ticket: Ticket) -> Option<Answer> {
        let made = self.world.find(id);
        if self.world.cell?.job(id).is_some() || (ticket.copy.is_some() && made.is_some()) {
            return Some(Answer::Accepted);
        }
        let holder = ticket.absorbed_by?;
        self.world.find(holder).map(|_| Answer::Duplicate(holder))
    }

    fn claim(&mut self, client: Client) {
        let Client {
            job: id, hint, entry, ..
        } = client;
        match client.at {
            0 => {
                for id in 0..JOBS as u8 {
                    for hint in (0..HINTS).filter(|hint| self.world.hints[id as usize] >> hint & 1 == 1) {
                        self.go(1, |_, client| (client.job, client.hint) = (id, hint));
                    }
                }
                for entry in 0..self.world.past.min(self.world.made) {
                    if let Some(id) = self.world.entries[entry as usize] {
                        self.go(20, |_, client| (client.job, client.entry) = (id, entry));
                    }
                }
            }
            1 if self.world.made == ENTRIES => self.go(OVER, |_, _| {}),
            1 => {
                let later = self.broken == Broken::EntryLater;
                self.go(2, |world, client| {
                    client.entry = world.made;
                    world.entries[world.made as usize] = (!later).then_some(id);
                    world.made += 1;
                });
            }
            2 => self.read(3),
            3 => {
                let job = client.cell.and_then(|cell| cell.job(id));
                match job {
                    Some(job) if job.phase == Phase::Waiting && job.placement == hint => {
                        self.go(4, |_, _| {})
                    }
                    // Ahead of its job, which may still come.
                    None => self.go(37, |_, _| {}),
                    Some(job) if nth(hint) > nth(job.placement) => self.go(37, |_, _| {}),
                    Some(job) if job.phase == Phase::Running => self.go(7, |_, _| {}),
                    Some(job) if job.phase == Phase::Waiting => {
                        self.go(8, |world, _| world.hints[id as usize] |= hint_bit(job.placement));
                    }
                    Some(_) => self.go(8, |_, _| {}),
                }
            }
            4 => {
                let Some(cell) = client.cell else { return };
                let Some(job) = cell.job(id) else { return };
                let new = cell.with(Job {
                    phase: Phase::Running,
                    lease: entry,
                    ..job
                });
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    0,
                    |_, client, came| {
                        client.at = match came {
                            Came::Done => 30,
                            _ => 5,
                        };
                    },
                );
            }
            5 => {
                let now = self.world.cell;
                let written = now.is_some_and(|now| self.wrote(now.wrote));
                let mine = now.and_then(|now| now.job(id));
                let leased = mine.is_some_and(|job| job.phase == Phase::Running && job.lease == entry);
                let waits = mine.is_some_and(|job| job.phase == Phase::Waiting && job.placement == hint);
                let at = match (written && leased, waits) {
                    (true, _) => 30,
                    (_, true) => 4,
                    _ => 37,
                };
                self.read(at);
            }
            7 if self.world.made == ENTRIES => self.go(OVER, |_, _| {}),
            7 => self.go(8, |world, _| {
                world.entries[world.made as usize] = Some(id);
                world.made += 1;
            }),
            _ => self.go(37, |world, _| world.hints[id as usize] &= !hint_bit(hint)),
        }
    }

    /// A lease that was given: the job is run, kept, given back or left.
    fn run(&mut self, client: Client) {
        let Client {
            job: id, hint, entry, ..
        } = client;
        let is_late = entry < self.world.past;
        let later = self.broken == Broken::EntryLater;
        let trusted = self.broken == Broken::LateLeaseTrusted;
        match client.at {
            30 if is_late && !trusted && self.world.made == ENTRIES => self.go(OVER, |_, _| {}),
            30 if is_late && !trusted => self.go(31, |world, _| {
                world.entries[world.made as usize] = Some(id);
                world.made += 1;
            }),
            30 => self.go(31, |_, _| {}),
            31 => self.go(if later { 43 } else { 32 }, |world, _| {
                world.hints[id as usize] &= !hint_bit(hint)
            }),
            43 => self.go(32, |world, client| {
                world.entries[client.entry as usize] = Some(id)
            }),
            32 if matches!(client.kind, Kind::Work { completes: true, .. }) => self.read(33),
            32 => {
                self.read(33);
                self.read(34);
                if self.world.made < ENTRIES {
                    self.go(35, |world, client| {
                        client.cell = world.cell;
                        client.hint = world.made;
                        world.entries[world.made as usize] = Some(id);
                        world.made += 1;
                    });
                }
            }
            33..=36 => {
                let Some(cell) = client.cell else { return };
                let job = cell
                    .job(id)
                    .filter(|job| job.phase == Phase::Running && job.lease == entry);
                let Some(job) = job else {
                    // Settled by a write whose answer was lost, or lost to somebody else.
                    return self.go(37, |_, _| {});
                };
                if is_late {
                    // Who touches a lease that has run out takes it back.
                    return self.go(21, |_, _| {});
                }
                let new = match client.at {
                    33 => Job {
                        phase: Phase::Ended,
                        ..job
                    },
                    35 => Job {
                        lease: client.hint,
                        ..job
                    },
                    _ => Job {
                        phase: Phase::Waiting,
                        placement: self.next(job.placement),
                        ..job
                    },
                };
                if client.at == 34 {
                    return match nth(new.placement) < 3 {
                        true => self.go(36, |world, _| world.hints[id as usize] |= hint_bit(new.placement)),
                        false => self.go(OVER, |_, _| {}),
                    };
                }
                let again = client.at + 5;
                let (extends, places) = (client.at == 35, client.at == 36);
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new: cell.with(new),
                    },
                    0,
                    |_, client, came| {
                        client.at = match came {
                            Came::Done if extends => 39,
                            Came::Done => 37,
                            Came::Refused if places => 44,
                            _ => again,
                        };
                    },
                );
            }
            38 | 41 => self.read(client.at - 5),
            // Refused: the place it has advertised is not taken, and advertised anew.
            44 => self.withdraw(45),
            45 => self.read(34),
            // Whether the heartbeat was written is asked of the cell.
            40 => {
                let extended = self.world.cell.and_then(|cell| cell.job(id));
                let extended =
                    extended.is_some_and(|job| job.phase == Phase::Running && job.lease == client.hint);
                self.read(if extended { 39 } else { 35 });
            }
            // The entry of the heartbeat takes the place of the one before.
            39 => {
                let is_late = client.hint < self.world.past;
                if is_late && self.world.made == ENTRIES {
                    return self.go(OVER, |_, _| {});
                }
                self.go(32, |world, client| {
                    world.entries[client.entry as usize] = None;
                    client.entry = client.hint;
                    if is_late && !trusted {
                        world.entries[world.made as usize] = Some(id);
                        world.made += 1;
                    }
                });
            }
            37 => self.go(42, |world, client| world.entries[client.entry as usize] = None),
            _ => self.finish(),
        }
    }

    fn visit(&mut self, client: Client) {
        let Client { job: id, entry, .. } = client;
        match client.at {
            // It remembers the job waiting.
            20 if self.broken == Broken::VisitFromMemory => self.go(23, |_, _| {}),
            20 => self.read(21),
            21 => {
                let job = client.cell.and_then(|cell| cell.job(id));
                let expired = |job: &Job| job.phase == Phase::Running && job.lease < self.world.past;
                match job.filter(expired) {
                    Some(job) if nth(job.placement) < 2 => {
                        let next = self.next(job.placement);
                        self.go(22, |world, _| world.hints[id as usize] |= hint_bit(next));
                    }
                    Some(_) => self.go(OVER, |_, _| {}),
                    None => self.go(23, |_, _| {}),
                }
            }
            22 => {
                let Some(cell) = client.cell else { return };
                let Some(job) = cell.job(id) else { return };
                let new = cell.with(Job {
                    phase: Phase::Waiting,
                    placement: self.next(job.placement),
                    ..job
                });
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    0,
                    |_, client, came| {
                        client.at = match came {
                            Came::Done => 23,
                            Came::Refused => 25,
                            Came::Unknown => 20,
                        };
                    },
                );
            }
            25 => self.withdraw(20),
            23 => self.go(24, |world, _| world.entries[entry as usize] = None),
            _ => self.finish(),
        }
    }

    fn move_out(&mut self, client: Client, id: u8, by: u8) {
        let cell = client.cell.unwrap_or_default();
        let job = cell
            .job(id)
            .filter(|job| job.phase == Phase::Ended && cell.last != id);
        match client.at {
            0 => self.read(1),
            1 => match job {
                None => self.go(OVER, |_, _| {}),
                Some(_) if self.broken == Broken::MoveUnannounced => self.go(3, |_, client| client.hint = 0),
                Some(_) => {
                    let mut new = cell;
                    new.dead[id as usize] |= bit(by);
                    self.write(
                        Write::Cell {
                            over: Some(cell),
                            new,
                        },
                        0,
                        |_, client, came| {
                            client.at = if came == Came::Done { 2 } else { 0 };
                        },
                    );
                }
            },
            2 => self.read(3),
            3 => self.go(4, |world, client| client.ticket = world.tickets[id as usize]),
            4 => {
                let Some(job) = job else {
                    return self.go(OVER, |_, _| {});
                };
                let copy = Some((job, by));
                let new = Ticket {
                    copy,
                    ..client.ticket.unwrap_or_default()
                };
                if client.ticket.is_some_and(|ticket| ticket.copy == copy) {
                    return self.go(5, |_, _| {});
                }
                let others = client.ticket.and_then(|ticket| ticket.copy);
                if others.is_some_and(|(_, its)| its != by) && self.broken != Broken::CopyOverwritten {
                    // That of another move, which may be about to count on it.
                    return self.go(OVER, |_, _| {});
                }
                let over = client.ticket;
                self.write(Write::Ticket { of: id, over, new }, 0, |_, client, came| {
                    client.at = if came == Came::Done { 5 } else { 3 };
                });
            }
            5 => {
                let copied = client.cell;
                let same =
                    self.world.cell.unwrap_or_default().job(id) == copied.and_then(|cell| cell.job(id));
                self.read(if same { 6 } else { OVER });
            }
            _ => {
                if job.is_none() {
                    return self.go(OVER, |_, _| {});
                }
                let mut new = cell;
                new.jobs[id as usize] = None;
                new.dead[id as usize] &= !bit(by);
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    0,
                    |_, client, came| {
                        client.at = if came == Came::Done { OVER } else { 5 };
                    },
                );
            }
        }
    }

    /// Brings a job home where it is not; then gives it a new life, or deletes it.
    fn bring(&mut self, client: Client, id: u8, deletes: bool) {
        let cell = client.cell.unwrap_or_default();
        match (client.at, cell.job(id)) {
            (0, _) => self.read(1),
            (1, None) => self.go(2, |world, client| client.ticket = world.tickets[id as usize]),
            (1, Some(job)) if job.phase != Phase::Ended => self.go(OVER, |_, _| {}),
            (1, Some(job)) if deletes => {
                let mut new = cell;
                new.jobs[job.id as usize] = None;
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    bit(id),
                    |_, client, came| {
                        client.at = if came == Came::Done { OVER } else { 0 };
                    },
                );
            }
            (1, Some(job)) if cell.holder().is_none() && nth(job.placement) < 2 => {
                let next = self.next(job.placement);
                self.go(3, |world, client| {
                    client.job = id;
                    world.hints[id as usize] |= hint_bit(next);
                });
            }
            (4, _) => self.withdraw(0),
            (3, Some(job)) => {
                let new = cell.with(Job {
                    phase: Phase::Waiting,
                    placement: self.next(job.placement),
                    ..job
                });
                let new = Cell { last: id, ..new };
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    0,
                    |_, client, came| {
                        client.at = match came {
                            Came::Done => OVER,
                            Came::Refused => 4,
                            Came::Unknown => 0,
                        };
                    },
                );
            }
            (2, _) => {
                let copy = client.ticket.and_then(|ticket| ticket.copy);
                let counts = copy.filter(|(_, by)| cell.dead[id as usize] & bit(*by) == 0);
                let Some((job, by)) = counts.filter(|_| client.cell.is_some()) else {
                    return self.go(OVER, |_, _| {});
                };
                let mut new = cell.with(job);
                new.dead[id as usize] |= bit(by);
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    0,
                    |_, client, _| client.at = 0,
                );
            }
            _ => self.go(OVER, |_, _| {}),
        }
    }

    fn tidy(&mut self, client: Client) {
        let cell = client.cell.unwrap_or_default();
        let moving = |by: u8| {
            let mut movers = self.world.clients.iter();
            movers.any(|other| {
                matches!(other.kind, Kind::MoveOut { by: its, .. } if its == by)
                    && other.at < OVER
                    && (other.at > 0 || other.writes > 0)
            })
        };
        // A move that is over when the cell is read: who made it has said so or died, and no write of it is on its way.
        let over = (0..8).filter(|by| self.broken == Broken::AnyCopyEmptied || !moving(*by));
        let over = over.fold(0, |over, by| over | bit(by));
        let over = if self.world.late.is_none() { over } else { 0 };
        let dead = |id: u8| (0..8).find(|by| cell.dead[id as usize] & client.entry & bit(*by) != 0);
        let found = (0..JOBS as u8).find_map(|id| Some((id, dead(id)?)));
        let early = self.broken == Broken::ForgottenEarly;
        match (client.at, found) {
            (0, _) => self.go(1, |world, client| {
                client.cell = world.cell;
                client.entry = over;
            }),
            (_, None) => self.go(OVER, |_, _| {}),
            (1, Some(_)) if early => self.go(4, |_, _| {}),
            (1, Some((id, _))) => self.go(2, |world, client| client.ticket = world.tickets[id as usize]),
            (2, Some((id, by))) => match client.ticket {
                Some(ticket)
                    if ticket
                        .copy
                        .is_some_and(|(_, its)| its == by || self.broken == Broken::AnyCopyEmptied) =>
                {
                    let new = Ticket { copy: None, ..ticket };
                    let over = Some(ticket);
                    self.write(Write::Ticket { of: id, over, new }, 0, |_, client, came| {
                        client.at = if came == Came::Done { 4 } else { 1 };
                    });
                }
                _ => self.go(4, |_, _| {}),
            },
            (_, Some((id, by))) => {
                let mut new = cell;
                new.dead[id as usize] &= !bit(by);
                self.write(
                    Write::Cell {
                        over: Some(cell),
                        new,
                    },
                    0,
                    |_, client, came| {
                        client.at = if came == Came::Done { OVER } else { 0 };
                    },
                );
            }
        }
    }
}
