//! `semel-bench`: measures the embedded store and prints what it saw.

/// The one of the command `semel`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    semel_bench::run(std::env::args().skip(1))
}
