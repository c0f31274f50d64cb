//! Everything a developer types: `cargo xtask test | ci | bench | faults | mutants`.

mod bench;
mod cargo;
mod ci;
mod clock;
mod faults;
mod mutants;
mod neighbour;
mod prerequisites;
mod tally;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [ARGS]            run every test, then the mutants; ARGS go to `cargo test` and leave the mutants out
  ci                     format, clippy without warnings, then test: what a change must pass
  bench [ARGS]           measure the embedded store against the raw SQLite ceiling; --store URL: on a server
  bench server [PART]    measure a server: rate, million, hostile, large; all of them if nothing is said
  faults [WHAT] [ARGS]   the long campaigns of `sqlite`, `redis`, `s3` or `effects`; all of them if nothing is said
  mutants [--only NAME]  break the SQLite store on purpose and show that the conformance suite notices
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match command.as_str() {
        "test" => test::command(rest),
        "ci" => ci::command(rest),
        "bench" => bench::command(rest),
        "faults" => faults::command(rest),
        "mutants" => mutants::command(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        unknown => {
            eprint!("error: there is no command {unknown:?}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
