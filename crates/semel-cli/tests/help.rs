//! Help pages and completion.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use std::process::Command;

use stage::Stage;

/// Every command there is, found by asking the program itself.
fn commands(stage: &Stage) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut at = 0;
    while at < found.len() {
        let path: Vec<String> = found[at].clone();
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        args.push("--help");
        for name in subcommands(&stage.run(&args).out) {
            found.push([path.clone(), vec![name]].concat());
        }
        at += 1;
    }
    found
}

/// The first words of the indented lines under `Commands:`, or under the groups of the first page.
fn subcommands(help: &str) -> Vec<String> {
    let mut under = false;
    let mut names = Vec::new();
    for line in help.lines() {
        if !line.starts_with(' ') {
            under = matches!(
                line,
                "Commands:" | "Start:" | "Work:" | "Look:" | "Check:" | "Set up:"
            );
        } else if let (true, Some(name)) = (under && !line.starts_with("   "), line.split_whitespace().next())
        {
            names.push(name.to_owned());
        }
    }
    names.retain(|name| name != "help");
    names
}

#[test]
fn every_help_page_reads_well_at_80_columns() {
    let stage = Stage::new();
    let commands = commands(&stage);
    assert!(commands.len() > 45, "only {} pages were found", commands.len());
    for path in &commands {
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        args.push("--help");
        let run = stage.run(&args);
        assert_eq!(run.code, 0, "{run:#?}");
        for line in run.out.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", run.line);
            assert_eq!(line, line.trim_end(), "{}: space at the end", run.line);
        }
        compare(path, &run.out);
    }
}

/// Each page is a snapshot of its own. The global options stand on every page; on the first is enough.
fn compare(path: &[String], page: &str) {
    let mut text = page.to_owned();
    if let (false, Some((before, rest))) = (path.is_empty(), page.split_once("Global options:")) {
        let after = rest.split_once("[default: auto]").map_or("", |(_, after)| after);
        text = format!("{}\n\n(global options)\n{after}", before.trim_end());
    }
    let name = format!(
        "help{}",
        path.iter().map(|name| format!("_{name}")).collect::<String>()
    );
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// What bash would offer after a line, by the script the program writes.
fn completions(words: &[&str]) -> String {
    let stage = Stage::new();
    let script = stage.run(&["completions", "bash"]);
    assert_eq!(script.code, 0);
    stage.write("semel.bash", &script.out);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (current, before) = (words.last().unwrap(), words[words.len() - 2]);
    let ask = format!(
        "source ./semel.bash; COMP_WORDS=({}); COMP_CWORD={}; _semel semel '{current}' '{before}'; echo \"${{COMPREPLY[*]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let output = Command::new("bash")
        .args(["-c", &ask])
        .current_dir(stage.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn bash_completes_commands_verbs_flags_and_values() {
    assert_eq!(completions(&["semel", "dea"]), "dead-letters");
    let verbs = completions(&["semel", "jobs", ""]);
    for verb in ["list", "show", "wait", "cancel", "retry"] {
        assert!(verbs.split(' ').any(|word| word == verb), "{verb} in {verbs}");
    }
    assert_eq!(completions(&["semel", "submit", "--unique-"]), "--unique-for");
    assert_eq!(
        completions(&["semel", "jobs", "list", "--state", "comp"]),
        "complete"
    );
    assert_eq!(
        completions(&["semel", "submit", "t", "--hold", "until_f"]),
        "until_finished"
    );
}

#[test]
fn scripts_for_other_shells_name_every_command() {
    let stage = Stage::new();
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = stage.run(&["completions", shell]);
        assert_eq!(script.code, 0);
        for word in ["dead-letters", "guarantees", "schedules"] {
            assert!(script.out.contains(word), "{word} in the script for {shell}");
        }
    }
    assert_eq!(stage.run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn the_version_is_said() {
    let stage = Stage::new();
    assert_eq!(
        stage.run(&["--version"]).out,
        format!("semel {}\n", env!("CARGO_PKG_VERSION"))
    );
}
