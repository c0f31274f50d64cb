//! The scripts, each a file with a header that says what is atomic, what goes in and what comes out.

use redis::{Arg, Cmd, Pipeline, Script};

/// Every script of the store.
pub struct Scripts {
    /// One look before a step is decided.
    pub begin: Script,
    /// Writes what was decided, if what it rested on is unchanged.
    pub apply: Script,
    /// New submissions.
    pub submit: Script,
    /// The end of new submissions.
    pub close: Script,
    /// One new submission.
    pub submit_one: Script,
    /// Who has some keys, and how those jobs fare.
    pub holders: Script,
    /// Records of absorbed submissions.
    pub absorb: Script,
    /// First leases.
    pub claim: Script,
    /// Completions.
    pub settle: Script,
    /// Whether what an answer rests on is unchanged.
    pub check: Script,
    /// Several reads in one instant, where the server has no room for a transaction.
    pub read: Script,
    /// Whether the user may run what the others run.
    pub probe: Script,
}

const BEGIN: &str = include_str!("lua/begin.lua");
const APPLY: &str = include_str!("lua/apply.lua");
const SUBMIT: &str = include_str!("lua/submit.lua");
const CLOSE: &str = include_str!("lua/close.lua");
const SUBMIT_ONE: &str = include_str!("lua/submit_one.lua");
const HOLDERS: &str = include_str!("lua/holders.lua");
const ABSORB: &str = include_str!("lua/absorb.lua");
const CLAIM: &str = include_str!("lua/claim.lua");
const SETTLE: &str = include_str!("lua/settle.lua");
const CHECK: &str = include_str!("lua/check.lua");
const READ: &str = include_str!("lua/read.lua");
const PROBE: &str = include_str!("lua/probe.lua");

impl Scripts {
    /// All of them, hashed.
    pub fn new() -> Self {
        Scripts {
            begin: Script::new(BEGIN),
            apply: Script::new(APPLY),
            submit: Script::new(SUBMIT),
            close: Script::new(CLOSE),
            submit_one: Script::new(SUBMIT_ONE),
            holders: Script::new(HOLDERS),
            absorb: Script::new(ABSORB),
            claim: Script::new(CLAIM),
            settle: Script::new(SETTLE),
            check: Script::new(CHECK),
            read: Script::new(READ),
            probe: Script::new(PROBE),
        }
    }

    /// What makes a server know them again, after a restart or a flush.
    pub fn load(&self) -> Vec<Cmd> {
        let load = |text: &str| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(text);
            load
        };
        [
            BEGIN, APPLY, SUBMIT, CLOSE, SUBMIT_ONE, HOLDERS, ABSORB, CLAIM, SETTLE, CHECK, READ, PROBE,
        ]
        .map(load)
        .into()
    }
}

/// Commands of a transaction that only reads, as one call of the script that reads. Each has its key right after its
/// name.
pub fn reading(script: &Script, transaction: &Pipeline) -> Pipeline {
    let (mut keys, mut arguments) = (Vec::new(), Vec::new());
    for command in transaction.cmd_iter() {
        let mut words = command.args_iter().map(|word| match word {
            Arg::Simple(bytes) => bytes.to_vec(),
            // Nothing here goes through a collection with a cursor.
            _ => b"0".to_vec(),
        });
        let (name, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        keys.push(key);
        arguments.extend([
            words.len().to_string().into_bytes(),
            name,
            keys.len().to_string().into_bytes(),
        ]);
        arguments.extend(words);
    }
    let mut call = redis::cmd("EVALSHA");
    call.arg(script.get_hash())
        .arg(keys.len())
        .arg(keys)
        .arg(arguments);
    let mut ask = redis::pipe();
    ask.add_command(call);
    ask
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
