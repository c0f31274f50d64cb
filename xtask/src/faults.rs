//! `cargo xtask faults`: the campaigns at full length. The tests run a short, seeded piece of each.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::cargo::{self, cargo};
use crate::prerequisites;

/// Runs campaigns: those of `sqlite`, of `redis`, of `s3`, of `effects` (steps, outbox, inbox, bridge), or all of them.
///
/// Arguments after that word, or without one for the embedded store, are the campaigns' own.
pub fn command(args: &[String]) -> Result<ExitCode> {
    prerequisites::ensure()?;
    match args.split_first() {
        None => all(),
        Some((word, rest)) if word == "sqlite" => store("semel-sqlite", rest),
        Some((word, rest)) if word == "redis" => store("semel-redis", rest),
        Some((word, rest)) if word == "s3" => s3(rest),
        Some((word, rest)) if word == "effects" => effects(rest),
        Some(_) => store("semel-sqlite", args),
    }
}

fn all() -> Result<ExitCode> {
    let run: [fn() -> Result<ExitCode>; 4] = [
        || store("semel-sqlite", &[]),
        || store("semel-redis", &[]),
        || s3(&[]),
        || effects(&[]),
    ];
    for campaigns in run {
        let ended = campaigns()?;
        if ended != ExitCode::SUCCESS {
            return Ok(ended);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Release: a campaign is worth what it visits per minute.
fn store(package: &str, args: &[String]) -> Result<ExitCode> {
    let mut command = cargo("run");
    command
        .args(["--release", "-p", package, "--example", "faults", "--"])
        .args(args);
    cargo::run(&mut command)
}

/// The campaigns in a bucket, then the whole conformance suite on both servers; the tests run the part of it to which a
/// server matters. With the word `suite` the suite alone, on one of them if that is named; with other arguments only
/// campaigns.
fn s3(args: &[String]) -> Result<ExitCode> {
    match args.split_first() {
        Some((word, [])) if word == "suite" => suite(&SERVERS),
        Some((word, [server])) if word == "suite" => suite(&[server.as_str()]),
        Some(_) => store("semel-s3", args),
        None => {
            let ended = store("semel-s3", args)?;
            if ended != ExitCode::SUCCESS {
                return Ok(ended);
            }
            suite(&SERVERS)
        }
    }
}

const SERVERS: [&str; 2] = ["ministack", "moto"];

fn suite(servers: &[&str]) -> Result<ExitCode> {
    for server in servers {
        if !SERVERS.contains(server) {
            bail!(
                "{server} is no S3 server that is known here; hint: {}",
                SERVERS.join(" or ")
            );
        }
        println!("== the whole suite on {server}");
        let mut command = cargo("test");
        command
            .args(["--release", "-p", "semel-s3", "--test", "conformance"])
            .env("SEMEL_S3_SUITE", "whole")
            .env("SEMEL_S3_SERVER", server);
        let ended = cargo::run(&mut command)?;
        if ended != ExitCode::SUCCESS {
            return Ok(ended);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One after another: they start servers and count what a second brings.
fn effects(args: &[String]) -> Result<ExitCode> {
    let mut command = cargo("test");
    command
        .args(["--release", "-p", "semel-outbox", "--test", "campaigns"])
        .args(["-p", "semel-resque", "--test", "kills", "--"])
        .args(["--nocapture", "--test-threads", "1"])
        .args(args)
        .env("SEMEL_CAMPAIGN", "full");
    cargo::run(&mut command)
}
