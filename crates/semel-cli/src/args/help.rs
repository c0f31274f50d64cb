//! The first help page: commands by what one wants to do.

use std::fmt::Write as _;

use clap::Command;

use crate::screen::{Tone, paint};

/// What stands below every first page.
pub const AFTER: &str = "\
Exit codes: 0 done (also for an existing duplicate), 1 other, 2 usage,
3 rejected duplicate, 4 conflict, 5 not found, 6 store unavailable,
7 job failed, 8 wait timed out, 9 not permitted.

`semel COMMAND --help` says more about a command.";

const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["demo", "serve"]),
    (
        "Work",
        &[
            "submit",
            "work",
            "explain",
            "events",
            "schedules",
            "outbox",
            "bridge",
        ],
    ),
    (
        "Look",
        &[
            "status",
            "stats",
            "jobs",
            "keys",
            "dead-letters",
            "steps",
            "queues",
            "tasks",
            "workers",
        ],
    ),
    ("Check", &["guarantees", "doctor", "bench"]),
    ("Set up", &["config", "tokens", "shards", "completions"]),
];

/// The same command with its subcommands in groups.
pub fn grouped(command: Command) -> Command {
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n{}", paint(Tone::Strong, format!("{heading}:")));
        for name in names {
            if let Some(found) = command.find_subcommand(name) {
                let about = found.get_about().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(text, "  {} {about}", paint(Tone::Strong, format!("{name:<13}")));
            }
        }
    }
    let _ = write!(
        text,
        "\n{}\n{{options}}{{after-help}}",
        paint(Tone::Strong, "Global options:")
    );
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_on_the_first_page() {
        let command = crate::args::Cli::command();
        let listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        for subcommand in command.get_subcommands() {
            assert!(
                listed.contains(&subcommand.get_name()),
                "{} is missing",
                subcommand.get_name()
            );
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        crate::args::Cli::command().debug_assert();
    }
}
