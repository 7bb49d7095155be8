//! A conversation with a model, an answer as it comes: `cargo run --release -p tenon --example chat MODEL`.

use std::io::Write;

use tenon::llm::{Chat, Model, Request};

fn main() -> Result<(), tenon::Error> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "MODEL.gguf".to_owned()))?;
    let mut chat = Chat::new(&model).system("You answer in one sentence.");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        chat.say(&line, &Request::default(), &mut |piece| {
            print!("{piece}");
            let _ = std::io::stdout().flush();
        })?;
        println!();
    }
    let s = model.statistics();
    eprintln!("{} tokens read, {} reused, {} written in {:?}", s.prefilled, s.reused, s.decoded, s.time);
    Ok(())
}
