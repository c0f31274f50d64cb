//! `semel-bench`: measures the embedded store and prints what it saw.

fn main() -> anyhow::Result<()> {
    semel_bench::run(std::env::args().skip(1))
}
