//! Asking before something that cannot be taken back.

use std::io::{BufRead, Write};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Goes on if `yes` was said or a person agrees; without a terminal the plan is shown and nothing is done.
pub fn ask(plan: &str, yes: bool, session: &Session) -> Result<(), Problem> {
    if yes {
        return Ok(());
    }
    if !session.screen.can_ask() {
        return Err(Problem::new(Exit::NotPermitted, "not_confirmed", plan)
            .hint("nothing was done; add --yes to carry it out"));
    }
    let mut err = anstream::stderr();
    let _ = write!(err, "{plan}\nGo on? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" if read.is_ok() => Ok(()),
        _ => Err(Problem::new(
            Exit::NotPermitted,
            "not_confirmed",
            "nothing was done",
        )),
    }
}
