//! Documents: every program that they show is checked and run.
//!
//! In: a Markdown file. A block between "```tenon" and "```" is a program of its own, and ends with directives as a
//! file of the suite does; one without any must pass the checker. The interpreter runs it; "```tenon,engines" asks
//! for every engine. `BLESS=1` rewrites what is expected.

use std::path::Path;

use driver::cores::on_all_cores;

use crate::{Case, parse, run, stages};

/// Runs the programs of a document, says how many there are, and gives what is wrong.
pub fn run_document(path: &Path) -> Result<usize, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut lines: Vec<&str> = text.lines().collect();
    let blocks = blocks(&lines).map_err(|(at, what)| format!("{}:{}: {what}\n", path.display(), at + 1))?;
    let bless = std::env::var_os("BLESS").is_some();
    let found = on_all_cores(&blocks, |b| run_block(path, &lines, b, bless));
    let mut wrong = String::new();
    // From the last to the first, so that the lines before stay where they are.
    for (block, found) in blocks.iter().zip(&found).rev() {
        match found {
            Ok((faults, text)) => {
                wrong.push_str(faults);
                lines.splice(block.first..block.end, text.lines());
            }
            Err(text) => wrong.push_str(text),
        }
    }
    let blessed = lines.join("\n") + "\n";
    if bless && blessed != text {
        std::fs::write(path, blessed).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if wrong.is_empty() { Ok(blocks.len()) } else { Err(wrong) }
}

/// A program in a document.
struct Block {
    /// Its first line, from 0, and the line of the fence behind it.
    first: usize,
    end: usize,
    /// Every engine runs it.
    engines: bool,
}

/// The programs of a document, or the line of a fence and what is wrong with it.
fn blocks(lines: &[&str]) -> Result<Vec<Block>, (usize, &'static str)> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(fence) = (at..lines.len()).find(|&l| lines[l].starts_with("```")) {
        let first = fence + 1;
        let end =
            (first..lines.len()).find(|&l| lines[l] == "```").ok_or((fence, "a block is not closed"))?;
        match lines[fence].strip_prefix("```tenon") {
            Some("") => out.push(Block { first, end, engines: false }),
            Some(",engines") => out.push(Block { first, end, engines: true }),
            Some(_) => return Err((fence, "a program is `tenon` or `tenon,engines`")),
            None => {}
        }
        at = end + 1;
    }
    Ok(out)
}

/// What is wrong with a block, and its text.
fn run_block(path: &Path, lines: &[&str], block: &Block, bless: bool) -> Result<(String, String), String> {
    let text = lines[block.first..block.end].join("\n") + "\n";
    let case = Case { before: block.first, interpreted: !block.engines, ..parse(path, text) };
    if case.directives.is_empty() {
        stages::checks(&case).map_err(|text| format!("{}:{}:\n{text}\n", path.display(), block.first + 1))?;
    }
    run(&case, bless)
}
