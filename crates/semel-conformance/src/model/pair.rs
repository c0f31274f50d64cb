//! The two stores side by side: one call goes to both, and both have to answer alike.

use std::fmt::Debug;
use std::sync::Arc;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::memory::MemoryStore;
use semel_core::store::{Capabilities, Retention, Store};
use semel_core::time::{Clock as _, ManualClock, Timestamp};

use super::Report;
use super::known::Known;
use super::steer::retention;
use super::trace::Trace;
use super::words::Words;
use crate::harness::{Harness, Instance};
use crate::kit::name;
use crate::rng::Rng;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Store,
    Reference,
}

/// A value on each side.
#[derive(Clone, Debug)]
pub(super) struct Both<T> {
    pub(super) store: T,
    pub(super) reference: T,
}

impl<T> Both<T> {
    pub(super) fn of(&self, side: Side) -> &T {
        match side {
            Side::Store => &self.store,
            Side::Reference => &self.reference,
        }
    }

    pub(super) fn map<U>(self, mut change: impl FnMut(T, Side) -> U) -> Both<U> {
        Both {
            store: change(self.store, Side::Store),
            reference: change(self.reference, Side::Reference),
        }
    }
}

/// `Err` says how the two did not agree.
pub(super) type Agreed<T = ()> = Result<T, String>;

/// One run of the model.
pub(super) struct Run<'a> {
    harness: &'a dyn Harness,
    namespace: Name,
    instance: Option<Instance>,
    reference: Arc<dyn Store>,
    pub(super) capabilities: Capabilities,
    pub(super) clock: Arc<ManualClock>,
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) retention: Retention,
    pub(super) words: Words,
    pub(super) known: Known,
    pub(super) trace: Trace,
    pub(super) report: Report,
}

impl<'a> Run<'a> {
    /// Two empty stores on one clock.
    pub(super) fn new(harness: &'a dyn Harness, seed: u64) -> Self {
        let namespace = name("default");
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        let mut rng = Rng::new(seed);
        let instance = harness.create(&namespace, clock.clone());
        Run {
            capabilities: instance.store.capabilities(),
            reference: Arc::new(MemoryStore::new(namespace.clone(), clock.clone()).naming(harness.job_id())),
            instance: Some(instance),
            harness,
            namespace,
            clock,
            seed,
            retention: retention(&mut rng),
            rng,
            words: Words::new(),
            known: Known::default(),
            trace: Trace::default(),
            report: Report::default(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn reference(&self) -> Arc<dyn Store> {
        self.reference.clone()
    }

    fn store(&self) -> Arc<dyn Store> {
        self.instance
            .as_ref()
            .expect("only gone while it is opened again")
            .store
            .clone()
    }

    /// The store is thrown away as by a crash and opened again; the reference lives on.
    pub(super) fn crash(&mut self) -> Agreed {
        self.note("crash", ());
        let old = self.instance.take().expect("only gone while it is opened again");
        self.instance = Some(self.harness.reopen(old, &self.namespace, self.clock.clone()));
        self.report.crashes += 1;
        Ok(())
    }

    /// Writes an operation down.
    pub(super) fn note(&mut self, name: &'static str, request: impl Debug + 'static) {
        self.trace
            .begin(self.report.transitions, self.now(), name, Box::new(request));
    }

    /// A call that writes: counted, written down, made on both. `None` if both refuse it as a whole.
    pub(super) async fn ask<T: Clone + Debug + 'static>(
        &mut self,
        (name, items): (&'static str, usize),
        request: impl Debug + 'static,
        call: impl AsyncFn(&dyn Store, Side) -> Result<T, StoreError>,
    ) -> Agreed<Option<Both<T>>> {
        self.note(name, request);
        self.report.transitions += items as u64;
        self.report.calls += 1;
        let answers = self.look(name, call).await?;
        if let Some(answers) = &answers {
            self.trace.answer(Box::new(answers.reference.clone()));
        }
        Ok(answers)
    }

    /// A call that only looks, made on both.
    pub(super) async fn look<T>(
        &self,
        name: &'static str,
        call: impl AsyncFn(&dyn Store, Side) -> Result<T, StoreError>,
    ) -> Agreed<Option<Both<T>>> {
        let reference = answered(
            name,
            "the reference",
            call(&*self.reference, Side::Reference).await,
        )?;
        let store = answered(name, "the store", call(&*self.store(), Side::Store).await)?;
        match (store, reference) {
            (Ok(store), Ok(reference)) => Ok(Some(Both { store, reference })),
            (Err(_), Err(_)) => Ok(None),
            (Ok(_), Err(invalid)) => Err(format!(
                "{name}: the store takes what the reference refuses: {invalid}"
            )),
            (Err(invalid), Ok(_)) => Err(format!(
                "{name}: the store refuses what the reference takes: {invalid}"
            )),
        }
    }
}

/// A refusal is an answer; that a store cannot answer is not.
fn answered<T>(name: &str, who: &str, result: Result<T, StoreError>) -> Agreed<Result<T, Invalid>> {
    match result {
        Ok(answer) => Ok(Ok(answer)),
        Err(StoreError::Invalid(invalid)) => Ok(Err(invalid)),
        Err(error) => Err(format!("{name}: {who} does not answer: {error:?}")),
    }
}

/// Both sides have to be equal.
pub(super) fn same<T: PartialEq + Debug>(what: &str, both: &Both<T>) -> Agreed {
    if both.store == both.reference {
        return Ok(());
    }
    Err(format!(
        "{what} differs\n{}",
        difference(&both.store, &both.reference)
    ))
}

/// Both lists have to be equal; says the first place where they are not.
pub(super) fn same_list<T: PartialEq + Debug>(what: &str, both: &Both<Vec<T>>) -> Agreed {
    let Both { store, reference } = both;
    for at in 0..store.len().max(reference.len()) {
        if store.get(at) != reference.get(at) {
            let difference = difference(&store.get(at), &reference.get(at));
            let lengths = (store.len(), reference.len());
            return Err(format!(
                "{what} differs at {at} (lengths {lengths:?})\n{difference}"
            ));
        }
    }
    Ok(())
}

/// Both as text, and where the texts part ways.
fn difference(store: &impl Debug, reference: &impl Debug) -> String {
    let (store, reference) = (format!("{store:?}"), format!("{reference:?}"));
    let equal = store
        .chars()
        .zip(reference.chars())
        .take_while(|(ours, theirs)| ours == theirs)
        .count();
    let tail = |text: &str| {
        text.chars()
            .skip(equal.saturating_sub(60))
            .take(200)
            .collect::<String>()
    };
    let (ours, theirs) = (tail(&store), tail(&reference));
    format!("  store:     {store}\n  reference: {reference}\n  from here: …{ours}\n  and here:  …{theirs}")
}

/// The reason for a refusal is for people: stores may word it differently.
pub(super) fn unsaid() -> Invalid {
    Invalid::new("refused", "something else")
}
