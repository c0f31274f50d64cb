//! Files that are not what they should be, disks that do not take what is written: a clear error each time, and
//! everything answered before is still there.

mod stage;

#[path = "bad_files/damage.rs"]
mod damage;
#[path = "bad_files/disk.rs"]
mod disk;
#[path = "bad_files/refused.rs"]
mod refused;
