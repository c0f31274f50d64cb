//! How a store is put under test, and how cases become tests.

use std::any::Any;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use semel_core::ids::{JobId, Name};
use semel_core::memory::Naming;
use semel_core::store::Store;
use semel_core::time::ManualClock;

use crate::cases;
use crate::kit::World;

/// How the suite gets hold of a store.
pub trait Harness: Send + Sync + 'static {
    /// The name of the store, as its capabilities say it.
    fn name(&self) -> &'static str;

    /// A fresh, empty store on the given clock.
    fn create(&self, namespace: &Name, clock: Arc<ManualClock>) -> Instance;

    /// Another namespace of the same place.
    fn sibling(&self, instance: &Instance, namespace: &Name, clock: Arc<ManualClock>) -> Arc<dyn Store>;

    /// Throws the handle away as a crash would and opens the same place again.
    /// A store that keeps nothing gives the same handle back.
    fn reopen(&self, instance: Instance, namespace: &Name, clock: Arc<ManualClock>) -> Instance;

    /// A fresh place that several processes can open, on the host's clock; `None` if the store cannot be shared.
    fn place(&self) -> Option<Place>;

    /// Opens a place made by [`Harness::place`], in this process or another.
    fn join(&self, location: &str) -> Arc<dyn Store>;

    /// The id of a job, by its token and the key it holds or waits for: what the reference calls it too.
    fn job_id(&self) -> Naming {
        |token, _| JobId::from(token)
    }
}

/// A store under test. Dropping it cleans up.
pub struct Instance {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Whatever has to live as long as the store: a directory, a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// A place that several processes can open.
pub struct Place {
    /// What [`Harness::join`] takes.
    pub location: String,
    /// Whatever has to live as long as the place.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// One case of the suite.
pub struct Case {
    /// The clause of the contract it checks.
    pub clause: &'static str,
    /// A sentence, as an identifier.
    pub name: &'static str,
    /// The check; panics when it fails.
    pub run: fn(&World),
}

/// Runs the whole suite on a store: the `main` of a store's conformance test.
///
/// The same executable, called with `--child`, plays one of the processes of the race and crash cases.
pub fn main(harness: impl Harness) -> ExitCode {
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--child") {
        return cases::play_child(&*harness, arguments.collect());
    }
    run_cases(harness, |_, _| true, &Arguments::from_args())
}

/// Runs those cases of the suite that `chosen` picks by their place and themselves, with the arguments of a test
/// runner (a filter, `--list`, …).
pub fn run(harness: impl Harness, chosen: impl Fn(usize, &Case) -> bool, arguments: &[String]) -> ExitCode {
    let arguments =
        Arguments::from_iter(std::iter::once(harness.name()).chain(arguments.iter().map(String::as_str)));
    run_cases(Arc::new(harness), chosen, &arguments)
}

fn run_cases(
    harness: Arc<dyn Harness>,
    chosen: impl Fn(usize, &Case) -> bool,
    arguments: &Arguments,
) -> ExitCode {
    let trials = cases::all()
        .into_iter()
        .enumerate()
        .filter(|(place, case)| chosen(*place, case))
        .map(|(_, case)| trial(harness.clone(), case))
        .collect();
    libtest_mimic::run(arguments, trials).exit_code()
}

fn trial(harness: Arc<dyn Harness>, case: Case) -> Trial {
    let name = format!("{}::{}", case.clause, case.name);
    Trial::test(name, move || {
        let world = World::new(harness.clone());
        let run = std::panic::AssertUnwindSafe(|| (case.run)(&world));
        std::panic::catch_unwind(run).map_err(|panic| Failed::from(message(&*panic)))
    })
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("the case panicked")
        .to_owned()
}
