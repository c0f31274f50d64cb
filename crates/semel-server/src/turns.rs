//! Long polls and streams are cheap, but not free: so many for one caller, so many for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::problem::Problem;
use crate::role::Caller;

/// For one caller.
pub const PER_CALLER: usize = 256;
/// For all.
pub const IN_ALL: usize = 2_048;

/// How many are open.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_caller: HashMap<String, usize>,
}

/// One that is open, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    caller: String,
}

impl Turns {
    /// Opens one, if there is room.
    pub fn take(&self, caller: &Caller) -> Result<Turn, Problem> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all >= IN_ALL {
            let detail = format!("{IN_ALL} long polls and streams are open, as many as the server bears");
            return Err(Problem::new("busy", detail).retry_after(5));
        }
        let mine = open.by_caller.entry(caller.identity().to_owned()).or_default();
        if *mine >= PER_CALLER {
            let detail =
                format!("{PER_CALLER} long polls and streams are open, as many as one caller may have");
            return Err(Problem::new("too_many", detail).retry_after(5));
        }
        *mine += 1;
        open.all += 1;
        Ok(Turn {
            turns: self.clone(),
            caller: caller.identity().to_owned(),
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut open = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        if let Some(mine) = open.by_caller.get_mut(&self.caller) {
            *mine -= 1;
            if *mine == 0 {
                open.by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_cannot_take_all_there_is_and_what_ends_makes_room() {
        let turns = Turns::default();
        let caller = Caller::local();
        let mut taken: Vec<Turn> = (0..PER_CALLER)
            .map(|_| turns.take(&caller).expect("room"))
            .collect();
        assert_eq!(turns.take(&caller).expect_err("full").code(), "too_many");
        let other = Caller {
            token: Some("t".to_owned()),
            ..Caller::local()
        };
        assert!(turns.take(&other).is_ok());
        taken.pop();
        assert!(turns.take(&caller).is_ok());
    }
}
