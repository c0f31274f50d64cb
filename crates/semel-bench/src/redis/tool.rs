//! What the server's own tool says of the same server.

use std::process::Command;

use anyhow::{Context, Result};

use semel_redis::{Place, RedisOptions};

use crate::redis::sets;

/// Bytes of a payload.
const PAYLOAD: usize = 300;

/// Writes per second by `redis-benchmark`, 64 in a pipeline on each of its 50 connections; nothing if it is not
/// installed, or if this is not one server it can reach without a certificate.
pub(super) fn measure(options: &RedisOptions, run: &str, steady: bool) -> Result<Option<f64>> {
    let Place::Server(url) = &options.place else {
        return Ok(None);
    };
    let Some(rest) = url.strip_prefix("redis://") else {
        return Ok(None);
    };
    let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (address, database) = place.split_once('/').unwrap_or((place, "0"));
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut tool = Command::new("redis-benchmark");
    tool.args([
        "-h",
        host.trim_matches(['[', ']']),
        "-p",
        port,
        "--csv",
        "-P",
        "64",
    ])
    .args(["-n", if steady { "500000" } else { "10000" }])
    .args(["-r", &sets::NAMES.to_string()])
    .args(["--dbnum", if database.is_empty() { "0" } else { database }]);
    if !password.is_empty() {
        // Not as an argument: those can be read by others on this machine.
        tool.env("REDISCLI_AUTH", password);
    }
    if !user.is_empty() {
        tool.args(["--user", user]);
    }
    let output = tool
        .args([
            "SET",
            &format!("semel:{{{run}:set:tool}}:__rand_int__"),
            &"x".repeat(PAYLOAD),
        ])
        .output();
    let Ok(output) = output else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().rev().find_map(|line| {
        let after_name = line.strip_prefix("\"SET ")?.split_once("\",\"")?.1;
        after_name.split('"').next()?.parse().ok()
    });
    rate.map(Some).with_context(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("redis-benchmark says nothing that can be read: {text}{errors}")
    })
}
