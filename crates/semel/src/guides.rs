//! The guides, so that every block in them is compiled and run.

#[doc = include_str!("../../../docs/guides/deduplication.md")]
struct Deduplication;

#[doc = include_str!("../../../docs/guides/retries.md")]
struct Retries;

#[doc = include_str!("../../../docs/guides/scheduling.md")]
struct Scheduling;

#[doc = include_str!("../../../docs/guides/testing.md")]
struct Testing;

#[doc = include_str!("../../../docs/guides/operating.md")]
struct Operating;

#[doc = include_str!("../../../docs/guides/tuning-ttl.md")]
struct TuningTtl;

#[doc = include_str!("../../../docs/guides/coming-from.md")]
struct ComingFrom;
