//! Submissions whose keys are held: one round trip to look at the holders, and one to write what became of them.
//!
//! The submissions take their place at the instant their holders were looked at, which is within the call. So nothing
//! of that is compared again when their records are written, but what must not have changed since: that lanes and
//! settings are the same, that nobody has seen the tokens, and that the holders are known at all.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{Cmd, Pipeline, Value};

use semel_core::admission::{self, Decision};
use semel_core::counters::Counter;
use semel_core::error::StoreError;
use semel_core::ids::{Digest, Token};
use semel_core::job::Outcome;
use semel_core::limits;
use semel_core::store::Submitted;
use semel_core::submission::Prepared;
use semel_core::time::Timestamp;
use semel_core::view::LedgerEntry;

use super::submit::{Judged, keyed, next_size};
use super::{Said, ask};
use crate::admit;
use crate::config::Config;
use crate::head::Head;
use crate::keys::{Id, Keys};
use crate::link::answer;
use crate::open_calls::OpenItem;
use crate::records;
use crate::shard::Shard;
use crate::submit::{Difference, absorbed_answer, as_holder, reference};

/// Bytes of an input from which on a script would take longer over the record of the holder, which as a rule has the same
/// one, than the long way takes.
const LARGE: usize = 16_384;

/// A submission that is looked at, and its key.
struct Asked<'a> {
    place: usize,
    prepared: Cow<'a, Prepared>,
    digest: Digest,
    /// Its number in the ledger, if one was drawn for it before.
    number: Option<i64>,
}

/// What was seen at one instant.
struct Seen {
    now: Timestamp,
    /// The last of the numbers in the ledger that were drawn.
    last: i64,
    /// For each key its newest owner, if it is known how it fares; nothing if lanes and settings are not as believed, or
    /// a lease has run out, which comes first.
    owners: Vec<Option<Head>>,
}

/// A submission that is absorbed.
struct Absorbed {
    place: usize,
    holder: Id,
    outcome: Outcome,
    lane: u32,
    token: Id,
    digest: Digest,
    entry: LedgerEntry,
    answer: Submitted,
}

/// Absorbs what is open and meets a holder; the rest stays open. Each item sees the effect of those before it: whoever
/// has the key or token of one that stays open does too.
pub async fn absorb(
    shard: &Shard,
    config: &Arc<Config>,
    items: &mut [&mut OpenItem],
    judged: &mut Judged,
) -> Result<(), StoreError> {
    // With keys of the same submission in several parts: the first goes first.
    let mut undecided = Undecided::default();
    while wave(shard, config, items, judged, &mut undecided).await? {}
    Ok(())
}

/// Keys and tokens of submissions that stay open, and so of all who come after them.
#[derive(Default)]
struct Undecided {
    keys: HashSet<Digest>,
    tokens: HashSet<Token>,
}

/// Absorbs what it can, part by part. Says whether there may be more.
async fn wave(
    shard: &Shard,
    config: &Arc<Config>,
    items: &mut [&mut OpenItem],
    judged: &mut Judged,
    undecided: &mut Undecided,
) -> Result<bool, StoreError> {
    let (mut calls, mut ended) = (FuturesUnordered::new(), Vec::new());
    let (mut first, mut met, mut more) = (0, Met::default(), false);
    // Also those that stay open get a number: the ledger has a batch in its order.
    let mut unnumbered = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let size = next_size(first).min(rest.len());
        let part = rest.split_off_mut(..size).unwrap_or_default();
        let mut asked: Vec<Asked<'_>> = Vec::with_capacity(part.len());
        met.begin_part();
        for (place, item) in (first..).zip(part) {
            if judged.is_answered(place) {
                continue;
            }
            let Some(Ok(prepared)) = item.prepare(shard) else {
                continue;
            };
            let number = judged.number(place);
            if number.is_none() {
                unnumbered.push(place);
            }
            let token = prepared.submission.token;
            let is_first = met.tokens.insert(token) && !undecided.tokens.contains(&token);
            let found = keyed(shard, config, prepared)
                .filter(|_| is_first && !judged.is_known(place))
                .filter(|prepared| prepared.submission.content.input.as_str().len() < LARGE)
                .and_then(|prepared| Some((prepared.key.as_ref()?.digest, prepared)));
            let Some((digest, prepared)) = found else {
                undecided.tokens.insert(token);
                undecided.keys.extend(prepared.key.as_ref().map(|key| key.digest));
                continue;
            };
            match met.key(digest, undecided) {
                Turn::Now => asked.push(Asked {
                    place,
                    prepared,
                    digest,
                    number,
                }),
                Turn::Later => more = true,
                Turn::Never => drop(undecided.tokens.insert(token)),
            }
        }
        first += size;
        if asked.is_empty() {
            continue;
        }
        let unnumbered = std::mem::take(&mut unnumbered);
        calls.push(part_of(shard, config, asked, unnumbered));
        poll_fn(|context| {
            while let Poll::Ready(Some(one)) = calls.poll_next_unpin(context) {
                ended.push(one);
            }
            Poll::Ready(())
        })
        .await;
        if !rest.is_empty() {
            shard.link.send_off().await;
        }
    }
    while let Some(one) = calls.next().await {
        ended.push(one);
    }
    drop(calls);
    let mut absorbed_any = false;
    for one in ended {
        let Part {
            absorbed,
            left,
            numbered,
        } = one?;
        for (place, number) in numbered {
            judged.has_number(place, number);
        }
        absorbed_any |= !absorbed.is_empty();
        for one in absorbed {
            judged.answer(one.place, one.answer);
        }
        for (digest, token) in left {
            undecided.keys.insert(digest);
            undecided.tokens.insert(token);
        }
    }
    Ok(more && absorbed_any)
}

/// Keys and tokens that were met in one wave.
#[derive(Default)]
struct Met {
    tokens: HashSet<Token>,
    before: HashSet<Digest>,
    here: HashSet<Digest>,
}

/// When a submission is looked at.
enum Turn {
    Now,
    Later,
    Never,
}

impl Met {
    fn begin_part(&mut self) {
        let here = std::mem::take(&mut self.here);
        self.before.extend(here);
    }

    /// Parts are on their way together, so one key has to be in one of them.
    fn key(&mut self, digest: Digest, undecided: &Undecided) -> Turn {
        if undecided.keys.contains(&digest) {
            Turn::Never
        } else if self.before.contains(&digest) {
            Turn::Later
        } else {
            self.here.insert(digest);
            Turn::Now
        }
    }
}

/// What came of a part.
struct Part {
    absorbed: Vec<Absorbed>,
    /// Keys and tokens of those that stay open.
    left: Vec<(Digest, Token)>,
    /// Places and the numbers in the ledger that were drawn for them.
    numbered: Vec<(usize, i64)>,
}

async fn part_of(
    shard: &Shard,
    config: &Arc<Config>,
    mut asked: Vec<Asked<'_>>,
    unnumbered: Vec<usize>,
) -> Result<Part, StoreError> {
    let (mut left, mut absorbed, mut numbered) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(seen) = look(shard, config, &asked, unnumbered.len()).await? {
        let first = seen.last + 1 - unnumbered.len() as i64;
        numbered = unnumbered.into_iter().zip(first..).collect();
        let mut drawn = numbered.iter().copied().peekable();
        for one in asked.iter_mut().filter(|one| one.number.is_none()) {
            while drawn.next_if(|(place, _)| *place < one.place).is_some() {}
            one.number = drawn.next().map(|(_, number)| number);
        }
        let decided = decide(shard, config, &asked, &seen, &mut left);
        absorbed = write(shard, config, decided).await?;
    }
    let done: HashSet<usize> = absorbed.iter().map(|one| one.place).collect();
    let open = asked.iter().filter(|one| !done.contains(&one.place));
    left.extend(open.map(|one| (one.digest, one.prepared.submission.token)));
    Ok(Part {
        absorbed,
        left,
        numbered,
    })
}

/// Who has the keys; numbers for the ledger are drawn along the way. None where the server has no room for that.
async fn look(
    shard: &Shard,
    config: &Config,
    asked: &[Asked<'_>],
    numbers: usize,
) -> Result<Option<Seen>, StoreError> {
    let keys = &shard.keys;
    let mut call = redis::cmd("EVALSHA");
    call.arg(shard.link.scripts.holders.get_hash())
        .arg(4 + asked.len())
        .arg(keys.meta())
        .arg(keys.leases())
        .arg(keys.heads())
        .arg(keys.specs());
    for one in asked {
        call.arg(keys.owners(&one.digest));
    }
    let names: Vec<u8> = asked.iter().flat_map(|one| Keys::owned(&one.digest)).collect();
    call.arg(names).arg(numbers);
    let mut calls = Pipeline::with_capacity(1);
    calls.add_command(call);
    let at = shard.time.ask();
    let answers = match shard.link.ask("looking who has keys", &calls).await {
        // What writes nothing can be answered even by a server without room.
        Err(StoreError::Full { .. }) => return Ok(None),
        other => other?,
    };
    let mut answer = answer::list(answers.into_iter().next().unwrap_or(Value::Nil))?.into_iter();
    let mut number = || answer::number_or_none(answer.next().unwrap_or(Value::Nil));
    let (seconds, micros) = (number()?.unwrap_or_default(), number()?.unwrap_or_default());
    let (version, soonest, last) = (
        number()?.unwrap_or_default(),
        number()?,
        number()?.unwrap_or_default(),
    );
    let micros = shard.time.seen(at, seconds * 1_000_000 + micros);
    let now = Timestamp::from_millis(micros / 1_000);
    let other = version != config.version || soonest.is_some_and(|soonest| soonest <= now.as_millis());
    let owners = match other {
        true => Vec::new(),
        false => answer
            .map(|owner| Ok(owner_in(&answer::bytes(owner)?.unwrap_or_default())))
            .collect::<Result<_, StoreError>>()?,
    };
    Ok(Some(Seen { now, last, owners }))
}

/// The owner of a key, if it is there and nothing of it is damaged, which is for the long way to tell.
fn owner_in(bytes: &[u8]) -> Option<Head> {
    let (id, rest) = bytes.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (head, born) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let there = |bytes: &'_ [u8]| !bytes.is_empty();
    let head = Some(head).filter(|head| there(head));
    let born = Some(born).filter(|born| there(born));
    Head::read(Id(*id), head, born).ok().flatten()
}

/// What core says of those who meet a holder, as far as nothing but a record comes of it.
fn decide(
    shard: &Shard,
    config: &Config,
    asked: &[Asked<'_>],
    seen: &Seen,
    left: &mut Vec<(Digest, Token)>,
) -> Vec<Absorbed> {
    let mut absorbed: Vec<Absorbed> = Vec::with_capacity(asked.len());
    let mut open: HashSet<Digest> = HashSet::new();
    for (one, owner) in asked.iter().zip(&seen.owners) {
        let judged = owner
            .as_ref()
            .filter(|_| !open.contains(&one.digest))
            .and_then(|owner| judge(shard, config, one, owner, seen.now));
        match judged {
            Some(judged) => absorbed.push(judged),
            None => {
                open.insert(one.digest);
                left.push((one.digest, one.prepared.submission.token));
            }
        }
    }
    absorbed
}

fn judge(
    shard: &Shard,
    config: &Config,
    asked: &Asked<'_>,
    owner: &Head,
    now: Timestamp,
) -> Option<Absorbed> {
    let prepared = &asked.prepared;
    let submission = &prepared.submission;
    let (queue, task) = (&submission.queue, &submission.task);
    let lane = config.lane(queue, task)?;
    config.live(owner.lane).filter(|_| owner.life.is_holder(now))?;
    if config.closed(queue, task, now).is_some() {
        return None;
    }
    let key = prepared.key.as_ref()?;
    // How other inputs differ is seen on the whole of both.
    if owner.input != Some(key.input.into()) {
        return None;
    }
    let named = reference(&shard.keys, config, owner, now).ok()?;
    let holder = as_holder(owner, &named, key)?;
    let observe = config.observes(queue, task, now);
    // The generation of its next owner does not matter where there is none.
    let Decision::Absorb { outcome } = admission::admit(prepared, Some(&holder), observe, now, 0) else {
        return None;
    };
    let token = Id::from(submission.token);
    let entry = LedgerEntry {
        n: asked.number?,
        ..admit::entry(&shard.keys, now, prepared, outcome, owner, Difference::default())?
    };
    Some(Absorbed {
        place: asked.place,
        holder: owner.id,
        outcome,
        lane,
        token,
        digest: key.digest,
        entry,
        answer: absorbed_answer(outcome, named, key.digest, &[]),
    })
}

/// Writes what became of them; gives those for whom it is written.
async fn write(
    shard: &Shard,
    config: &Config,
    mut absorbed: Vec<Absorbed>,
) -> Result<Vec<Absorbed>, StoreError> {
    // Once more without those whose token is known.
    for _ in 0..2 {
        if absorbed.is_empty() {
            break;
        }
        match ask(shard, "writing the ledger", call(shard, config, &absorbed)).await? {
            Said::Done(_) => {
                let count = absorbed.len() as u64;
                shard.at_once.absorbed.fetch_add(count, Ordering::Relaxed);
                return Ok(absorbed);
            }
            Said::Other(known) => {
                for place in known.into_iter().rev() {
                    let place = usize::try_from(answer::number(place)?).unwrap_or(usize::MAX);
                    if place < absorbed.len() {
                        absorbed.remove(place);
                    }
                }
            }
            _ => break,
        }
    }
    Ok(Vec::new())
}

/// See `lua/absorb.lua`.
fn call(shard: &Shard, config: &Config, absorbed: &[Absorbed]) -> Cmd {
    let keys = &shard.keys;
    let mut pages: Vec<(i64, usize)> = Vec::new();
    // Of one key all were looked at in one instant: they have one holder.
    let mut of_keys: BTreeMap<Digest, (Id, Vec<usize>)> = BTreeMap::new();
    for (place, one) in absorbed.iter().enumerate() {
        let page = Keys::page(one.entry.n);
        match pages.last_mut() {
            Some((last, entries)) if *last == page => *entries += 1,
            _ => pages.push((page, 1)),
        }
        let of_key = of_keys.entry(one.digest).or_insert((one.holder, Vec::new()));
        of_key.1.push(place + 1);
    }
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    counted.insert("entries".to_owned(), absorbed.len());
    for one in absorbed {
        if let Some(counter) = Counter::of_outcome(one.outcome) {
            let field = format!("{}.c{}", one.lane, counter as usize);
            *counted.entry(field).or_default() += 1;
        }
    }
    let mut call = Cmd::with_capacity(32 + absorbed.len() * 6, 1_024 + absorbed.len() * 400);
    call.arg("EVALSHA")
        .arg(shard.link.scripts.absorb.get_hash())
        .arg(5 + pages.len() + of_keys.len())
        .arg(keys.meta())
        .arg(keys.specs())
        .arg(keys.tokens())
        .arg(keys.ledger_pages())
        .arg(keys.touched());
    for (page, _) in &pages {
        call.arg(keys.ledger(*page));
    }
    for digest in of_keys.keys() {
        call.arg(keys.ledger_of(digest));
    }
    let all: Vec<u8> = of_keys.keys().flat_map(|digest| *digest.as_bytes()).collect();
    let holders: Vec<u8> = of_keys.values().flat_map(|(holder, _)| holder.0).collect();
    call.arg(config.version)
        .arg(absorbed.len())
        .arg(pages.len())
        .arg(of_keys.len())
        .arg(counted.len())
        .arg(limits::LEDGER_PER_KEY)
        .arg(all)
        .arg(holders);
    for (page, entries) in pages {
        call.arg(page).arg(entries);
    }
    for (field, by) in counted {
        call.arg(field).arg(by);
    }
    for one in absorbed {
        call.arg(one.entry.n)
            .arg(records::encode_entry(&one.entry, &one.token));
    }
    for one in absorbed {
        call.arg(&one.token.0).arg(one.entry.n);
    }
    for (_, places) in of_keys.values() {
        call.arg(places.len()).arg(places);
    }
    call
}
