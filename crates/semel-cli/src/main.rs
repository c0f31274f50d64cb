//! The command line of Semel.

fn main() {
    println!("semel {}", env!("CARGO_PKG_VERSION"));
}
