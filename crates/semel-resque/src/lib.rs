//! A bridge for those who come from Resque.
//!
//! Ruby and Node producers and workers go on with their lists in Redis while Semel's take over queue by queue. A
//! queue crosses in one direction: *inward*, what Resque's producers push becomes jobs; *outward*, jobs become payloads
//! that Resque's workers pop. Queues kept by resque-uniqueue keep their set and their list of times in step, and where
//! these disagree the list is the truth and the others are written anew: a wedged queue goes on.
//!
//! Killed at any moment and started again, a bridge loses nothing and gives nothing twice. A payload leaves its list in
//! the same step in which it is noted as under way, with a token; submitting it again under that token gives the same
//! job. A job's push is noted in the same step, under the job's id, until the job is settled.

mod bridge;
mod error;
mod payload;
mod resque;

pub use bridge::{Bridge, Crossed};
pub use error::Error;
pub use payload::START_AT;
pub use resque::Resque;
