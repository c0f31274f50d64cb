//! The scripts, each a file with a header that says what is atomic, what goes in and what comes out.

use redis::{Cmd, Script};

/// Every script of the store.
pub struct Scripts {
    /// One look before a step is decided.
    pub begin: Script,
    /// Writes what was decided, if what it rested on is unchanged.
    pub apply: Script,
    /// Whether what an answer rests on is unchanged.
    pub check: Script,
}

const BEGIN: &str = include_str!("lua/begin.lua");
const APPLY: &str = include_str!("lua/apply.lua");
const CHECK: &str = include_str!("lua/check.lua");

impl Scripts {
    /// All of them, hashed.
    pub fn new() -> Self {
        Scripts {
            begin: Script::new(BEGIN),
            apply: Script::new(APPLY),
            check: Script::new(CHECK),
        }
    }

    /// What makes a server know them again, after a restart or a flush.
    pub fn load(&self) -> Vec<Cmd> {
        let load = |text: &str| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(text);
            load
        };
        [BEGIN, APPLY, CHECK].map(load).into()
    }
}

/// A call of a script the server is expected to know.
pub fn call(script: &Script, keys: &[String]) -> Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(script.get_hash()).arg(keys.len());
    for key in keys {
        call.arg(key);
    }
    call
}
