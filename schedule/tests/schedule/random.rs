//! Random primitives under random transformations: the oracle gives the same bits, and the text of each is a program
//! that means it.
#![allow(clippy::disallowed_methods, reason = "a campaign is told its length by the environment")]

use std::collections::BTreeMap;

use crate::support::{Numbers, arguments, checked, comes_back, is_long, random, run, sizes, step, text_of};

/// What was done and what was refused; and where the text of what came out is not seen to be what it is.
type Told = (Vec<(String, bool)>, Option<String>);

/// One primitive and a few transformations.
fn round(seed: u64) -> Result<Told, String> {
    let mut r = Numbers(seed);
    let text = random(&mut r);
    let first = checked(&text).map_err(|e| format!("{e}\n{text}"))?;
    let cases: Vec<_> = (0..4)
        .map(|_| {
            let dims = sizes(&first, &mut r);
            let args = arguments(&first, &dims, &mut r);
            let want = run(&first, &dims, &args);
            (dims, args, want)
        })
        .collect();
    let (mut prim, mut said, mut done, mut unseen) = (first, Vec::new(), Vec::new(), None);
    for _ in 0..8 {
        let (what, made) = step(&prim, &mut r);
        let verb = what.split(' ').next().unwrap_or_default().to_owned();
        said.push((verb, made.is_ok()));
        let Ok(made) = made else { continue };
        done.push(what);
        let story = |e: String| format!("{e}\nafter {done:?} of\n{text}\nis\n{}", text_of(&made));
        for (dims, args, want) in &cases {
            let got = run(&made, dims, args);
            if got != *want && !is_long(&got) && !is_long(want) {
                return Err(story(format!("{dims:?}: {got:?}, not {want:?}")));
            }
        }
        unseen = unseen.or(comes_back(&made).map_err(story).err());
        prim = made;
    }
    Ok((said, unseen))
}

#[test]
fn transformations_keep_what_is_computed() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let from: u64 = std::env::var("FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut tally: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut wrong, mut unseen) = (Vec::new(), Vec::new());
    let seeds: Vec<u64> = (from..from + rounds).collect();
    let halves: Vec<&[u64]> = seeds.chunks(seeds.len().div_ceil(2).max(1)).collect();
    let of = |seeds: &[u64]| seeds.iter().map(|seed| (*seed, round(*seed))).collect::<Vec<_>>();
    let done: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = halves.into_iter().map(|half| s.spawn(move || of(half))).collect();
        threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
    });
    for (seed, done) in done {
        match done {
            Ok((said, lost)) => {
                said.into_iter().for_each(|(verb, ok)| {
                    let n = tally.entry(verb).or_default();
                    if ok { n.0 += 1 } else { n.1 += 1 }
                });
                unseen.extend(lost.map(|e| format!("seed {seed}: {e}")));
            }
            Err(e) => wrong.push(format!("seed {seed}: {e}")),
        }
    }
    println!("{tally:?}");
    wrong.sort_by_key(String::len);
    if std::env::var("ALL").is_ok() {
        wrong.iter().chain(&unseen).for_each(|w| println!("{w}\n----"));
    }
    assert!(wrong.is_empty(), "{} of {rounds} wrong, the first:\n{}", wrong.len(), wrong[0]);
    // The checker proves from the text what each step knew: of loops cut several times over in odd ways it may not
    // see that they stay in bounds, or that two nests together write everything. That must stay rare.
    let share = (unseen.len() as f64) / (rounds as f64);
    assert!(share <= 0.08, "{} of {rounds} texts mean less, one of them:\n{}", unseen.len(), unseen[0]);
    // A transformation that nothing allows is not tested.
    if rounds >= 200 {
        for (verb, (done, _)) in &tally {
            assert!(*done > 0, "`{verb}` was always refused");
        }
    }
}
