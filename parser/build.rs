//! Turns `src/grammar.lalrpop` into tables.

fn main() {
    println!("cargo:rerun-if-changed=src/grammar.lalrpop");
    if let Err(error) = lalrpop::process_src() {
        eprintln!("grammar.lalrpop: {error}");
        std::process::exit(1);
    }
}
