//! Text as tokens come.

use proptest::prelude::*;
use text::Stream;

use crate::common::{bpe512, sp2k, spm};

/// All that a stream gives out, piece by piece.
fn pieces(mut stream: Stream, ids: &[u32]) -> Vec<String> {
    let mut all: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    all.push(stream.finish());
    all
}

fn stops(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| s.to_string()).collect()
}

proptest! {
    #[test]
    fn the_pieces_of_any_ids_are_what_they_decode_to(
        ids in proptest::collection::vec(0u32..2100, 0..60),
        which in 0usize..3,
        keep in any::<bool>(),
    ) {
        let tokenizer = [bpe512(), sp2k(), spm()][which].clone();
        let mut stream = Stream::new(tokenizer.clone());
        if keep {
            stream = stream.keep_special();
        }
        prop_assert_eq!(pieces(stream, &ids).concat(), tokenizer.decode(&ids, !keep));
    }

    #[test]
    fn the_pieces_of_a_text_are_the_text(text in "\\PC{0,40}", which in 0usize..2) {
        let tokenizer = [bpe512(), sp2k()][which].clone();
        let ids = tokenizer.encode(&text, false, false).unwrap();
        // Pieces of the second kind write a blank as this character: a text's own reads as a blank too.
        let text = if which == 1 { text.replace('▁', " ") } else { text };
        prop_assert_eq!(pieces(Stream::new(tokenizer), &ids).concat(), text);
    }

    #[test]
    fn a_stream_stops_where_a_search_of_the_whole_text_finds_the_string(
        text in "[ab<é]{0,40}",
        stop in "[ab<é]{1,4}",
        other in "[ab<é]{1,4}",
    ) {
        let tokenizer = bpe512();
        let ids = tokenizer.encode(&text, false, false).unwrap();
        let list = [stop.clone(), other.clone()];
        let mut stream = Stream::new(tokenizer).stops(&list);
        let mut out: String = ids.iter().map(|&id| stream.push(id)).collect();
        out.push_str(&stream.finish());
        // The string that is complete first; of those, the longest.
        let found = list.iter().filter_map(|s| text.find(s.as_str()).map(|at| (at + s.len(), at, s)));
        match found.min_by_key(|&(end, at, _)| (end, at)) {
            Some((_, at, s)) => {
                prop_assert_eq!(out, &text[..at]);
                prop_assert_eq!(stream.stopped(), Some(s.as_str()));
            }
            None => {
                prop_assert_eq!(out, text);
                prop_assert_eq!(stream.stopped(), None);
            }
        }
    }
}

#[test]
fn no_character_is_split() {
    for tokenizer in [bpe512(), sp2k(), spm()] {
        let ids = tokenizer.encode("東🙂é", false, false).unwrap();
        assert!(ids.len() > 5);
        for piece in pieces(Stream::new(tokenizer), &ids) {
            assert!(!piece.contains('\u{fffd}'), "{piece:?}");
        }
    }
}

#[test]
fn text_is_given_out_as_soon_as_it_is_complete() {
    let tokenizer = bpe512();
    let ids = tokenizer.encode("aé", false, false).unwrap();
    assert_eq!(pieces(Stream::new(tokenizer), &ids), ["a", "", "é", ""]);
}

#[test]
fn a_character_that_stays_incomplete_is_replaced_at_the_end() {
    let tokenizer = bpe512();
    let ids = tokenizer.encode("é", false, false).unwrap();
    assert_eq!(pieces(Stream::new(tokenizer.clone()), &ids[..1]), ["", "\u{fffd}"]);
    let torn = [ids[0], tokenizer.id_of("a").unwrap()];
    assert_eq!(pieces(Stream::new(tokenizer), &torn), ["", "\u{fffd}a", ""]);
}

#[test]
fn the_first_blank_is_dropped_unless_other_text_stands_before() {
    for tokenizer in [sp2k(), spm()] {
        let ids = tokenizer.encode("a b", false, false).unwrap();
        assert_eq!(pieces(Stream::new(tokenizer.clone()), &ids).concat(), "a b");
        assert_eq!(pieces(Stream::new(tokenizer).continues(), &ids).concat(), " a b");
    }
}

#[test]
fn special_tokens_are_left_out_unless_they_are_kept() {
    let tokenizer = bpe512();
    let ids = tokenizer.encode("a<|im_end|>", true, false).unwrap();
    assert_eq!(pieces(Stream::new(tokenizer.clone()), &ids).concat(), "a");
    assert_eq!(pieces(Stream::new(tokenizer).keep_special(), &ids).concat(), "a<|im_end|>");
}

#[test]
fn nothing_behind_a_stop_string_is_given_out() {
    let tokenizer = bpe512();
    let ids = tokenizer.encode("one two STOP three", false, false).unwrap();
    let mut stream = Stream::new(tokenizer).stops(&stops(&["STOP", ""]));
    let out: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(out.concat(), "one two ");
    assert_eq!(stream.stopped(), Some("STOP"));
    assert_eq!(stream.finish(), "");
}

#[test]
fn what_could_begin_a_stop_string_is_held_back_until_it_is_none() {
    let tokenizer = bpe512();
    let ids = tokenizer.encode("xyz", false, false).unwrap();
    let out = pieces(Stream::new(tokenizer.clone()).stops(&stops(&["xyw"])), &ids);
    assert_eq!(out, ["", "", "xyz", ""]);
    let out = pieces(Stream::new(tokenizer).stops(&stops(&["xyzw"])), &ids);
    assert_eq!(out, ["", "", "", "xyz"]);
}
