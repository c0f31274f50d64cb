//! Queues and tasks as operators steer them: what the nouns `queues` and `tasks` have in common.

use clap::Args;
use semel_core::ids::Name;
use semel_core::store::{Setting, Target};
use semel_core::time::Timestamp;

use crate::duration::Length;
use crate::screen::{Tone, clean, paint, relative, span};

/// A queue or task, or all of them.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// Its name
    pub name: Option<Name>,
    /// Everything in the store
    #[arg(long)]
    pub all: bool,
}

impl TargetArgs {
    /// What is meant, where a name means what `named` makes of it.
    pub fn target(self, named: impl Fn(Name) -> Target) -> Target {
        self.name.map_or(Target::All, named)
    }
}

/// How long, and why.
#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    /// What.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Go on by itself after this
    #[arg(long = "for", value_name = "DURATION")]
    pub lasting: Option<Length>,
    /// Why, for whoever looks next
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// The name of a target in a sentence.
pub fn told(target: &Target) -> String {
    match target {
        Target::All => "everything".to_owned(),
        Target::Queue(name) => format!("queue {}", clean(name.as_str())),
        Target::Task(name) => format!("task {}", clean(name.as_str())),
    }
}

/// The setting of a target among those that are not at their default.
pub fn setting(settings: &[(Target, Setting)], target: &Target) -> Setting {
    settings
        .iter()
        .find(|(found, _)| found == target)
        .map(|(_, setting)| setting.clone())
        .unwrap_or_default()
}

/// What is set, in words: `paused for 5 m, closed, unique`.
pub fn words(setting: &Setting, now: Timestamp) -> String {
    let mut words = Vec::new();
    if let Some(pause) = setting.paused.as_ref().filter(|_| setting.is_paused(now)) {
        words.push(paint(
            Tone::Warn,
            format!("paused {}", relative(pause.since, now)),
        ));
        if let Some(until) = pause.until {
            words.push(format!("for another {}", span(until.since(now))));
        }
        if let Some(reason) = &pause.reason {
            words.push(format!("({})", clean(reason)));
        }
    }
    let mut lasting = |word: String, until: Option<Timestamp>| {
        words.push(word);
        if let Some(until) = until {
            words.push(format!("for another {}", span(until.since(now))));
        }
    };
    if setting.is_closed(now) {
        lasting(paint(Tone::Warn, "closed"), setting.closed_until);
    }
    if setting.is_observed(now) {
        lasting("observes".to_owned(), setting.observed_until);
    }
    if setting.unique {
        words.push("unique".to_owned());
    }
    match words.is_empty() {
        true => "-".to_owned(),
        false => words.join(" "),
    }
}

/// A queue or task that nobody has heard of is more likely a typo: says which there are.
pub fn unseen<'a>(
    kind: &str,
    wanted: &Name,
    known: impl Iterator<Item = &'a Name> + Clone,
) -> Option<String> {
    if known.clone().any(|name| name == wanted) {
        return None;
    }
    let mut names: Vec<&str> = known.map(Name::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(10);
    Some(match names.is_empty() {
        true => format!("no {kind} {wanted} has been seen in this store yet"),
        false => format!(
            "no {kind} {wanted} has been seen in this store yet; there are: {}",
            names.join(", ")
        ),
    })
}
