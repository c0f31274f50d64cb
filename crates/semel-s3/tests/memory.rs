//! The conformance suite on a bucket in memory: quick, and every case of one process.

#[path = "bucket/mod.rs"]
mod bucket;
#[path = "through/mod.rs"]
mod through;

use std::process::ExitCode;

use bucket::{Faults, Memory};

fn main() -> ExitCode {
    semel_conformance::main(Memory {
        faults: Faults::default(),
        seed: 1,
    })
}
