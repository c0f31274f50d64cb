//! The store on servers that are started for it: how it opens, what it survives, how it scales out. One executable,
//! so that it is linked once.

#[path = "../server/mod.rs"]
mod server;

mod at_once;
mod campaigns;
mod closing;
mod cluster;
mod doctor;
mod half_way;
mod lone;
mod lost_numbers;
mod lost_replies;
mod many_places;
mod no_room;
mod opening;
mod outage;
mod permissions;
mod proxy;
mod removal;
mod replicas;
mod reshard;
mod sentinel;
mod settings;
mod steps_of_time;
mod wake_up;
