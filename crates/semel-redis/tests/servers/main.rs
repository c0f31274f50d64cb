//! The store on servers that are started for it: how it opens, what it survives, how it scales out. One executable,
//! so that it is linked once.

#[path = "../server/mod.rs"]
mod server;

mod campaigns;
mod cluster;
mod doctor;
mod lost_replies;
mod opening;
mod outage;
mod proxy;
mod sentinel;
mod steps_of_time;
mod wake_up;
