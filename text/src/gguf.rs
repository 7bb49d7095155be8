//! Vocabularies in the metadata of GGUF files.
//!
//! In: the flat keys `tokenizer.ggml.*`. Out: what encodes, and the bytes of all tokens. The rules are those by which
//! llama.cpp reads the same keys, so that both give the same ids.
//!
//! `tokenizer.ggml.model` says which kind it is: `gpt2` merges pairs of bytes in the order of a list, `llama` merges
//! whatever scores best, `bert` takes the longest pieces of words, `t5` the likeliest.

mod bpe;
mod cut;
mod keys;
mod pre;
mod special;
mod spm;
mod unigram;
mod vocabulary;
mod wordpiece;

use serde_json::{Map, Value};

use crate::decoder;
use crate::pieces::{Arena, Kind, Pieces, Strip};
use crate::tokenizer::{Encoder, Parts};
use crate::whole::share;
use crate::{Error, Whole};
use keys::Keys;
use special::{Fragment, Specials};
use vocabulary::{Role, Vocabulary};

/// What stands for a blank in vocabularies.
const BLANK: &str = "▁";

/// What turns a text without special tokens into ids.
trait Model: Send + Sync {
    /// Appends the ids of a text. `begins` says whether nothing, or a special token, stands before it.
    fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        begins: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), String>;
}

/// How a kind of vocabulary writes its tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writing {
    /// In the alphabet of bytes.
    Bytes,
    /// As text, with `▁` for blanks.
    Blanks,
    /// As text with `▁`; blanks before punctuation are dropped.
    Words,
}

/// What is added to texts.
#[derive(Clone, Copy, Default, Debug)]
struct Frame {
    bos: Option<u32>,
    eos: Option<u32>,
    /// Whether texts of a pair are of segments of their own. Where they are not, `eos` stands twice between them.
    segments: bool,
}

/// A kind of vocabulary, read.
struct Made {
    model: Box<dyn Model>,
    writing: Writing,
    /// Whether texts begin with a blank that is not there.
    prefix: bool,
    add_bos: bool,
    add_eos: bool,
    /// Models of this kind fail without the token that begins a text, whatever their files say.
    needs_bos: bool,
}

/// Reads a vocabulary.
pub(crate) fn read(metadata: &Map<String, Value>) -> Result<Parts, Error> {
    read_parts(&Keys::new(metadata)).map_err(Error::Gguf)
}

fn read_parts(keys: &Keys<'_>) -> Result<Parts, String> {
    let kind = keys.text("tokenizer.ggml.model")?.ok_or("there is no key tokenizer.ggml.model")?;
    let made: fn(&Keys<'_>, &Vocabulary) -> Result<Made, String> = match kind {
        "gpt2" | "gemma4" => bpe::read,
        "llama" => spm::read,
        "bert" => wordpiece::read,
        "t5" => unigram::read,
        other => {
            return Err(format!(
                "tokenizer.ggml.model is {other:?}; known are gpt2, gemma4, llama, bert, t5"
            ));
        }
    };
    let vocabulary = Vocabulary::read(keys, kind)?;
    let made = made(keys, &vocabulary)?;
    let frame = frame(keys, &vocabulary, &made, kind)?;
    let (pieces, texts) = pieces(&vocabulary, &made);
    let strip_right = keys.text("general.name")?.is_some_and(|name| {
        let name = name.to_lowercase();
        name.contains("phi-3") || name.contains("phi3")
    });
    let specials = Specials::new(&vocabulary, strip_right);
    let ends = vocabulary.ends.clone();
    let named = |name: &str, id: Option<u32>| Some((name.to_string(), vocabulary.text(id?)?.to_string()));
    let special_texts = [
        named("bos_token", vocabulary.bos),
        named("eos_token", vocabulary.eos),
        named("unk_token", vocabulary.unk),
        named("sep_token", vocabulary.sep),
        named("pad_token", vocabulary.pad),
        named("mask_token", vocabulary.mask),
    ];
    let special_texts = special_texts.into_iter().flatten().collect();
    let (bos, eos) = (vocabulary.bos, vocabulary.eos);
    let encoder = Box::new(Engine { vocabulary, model: made.model, specials, frame });
    Ok(Parts { encoder, pieces, texts, bos, eos, ends, special_texts })
}

/// What is added to texts: what the keys say, else what is usual for the kind.
fn frame(keys: &Keys<'_>, vocabulary: &Vocabulary, made: &Made, kind: &str) -> Result<Frame, String> {
    if kind == "bert" {
        let bos = vocabulary.bos.ok_or("a vocabulary of words needs the token that begins a text")?;
        let sep = vocabulary.sep.ok_or("a vocabulary of words needs the token that separates texts")?;
        return Ok(Frame { bos: Some(bos), eos: Some(sep), segments: true });
    }
    let wanted =
        |key: &str, default: bool, id: Option<u32>, id_key: &str| match keys.yes(key)?.unwrap_or(default) {
            false => Ok(None),
            true => id.map(Some).ok_or_else(|| format!("{key} is true, but {id_key} is not set")),
        };
    let bos = match wanted("tokenizer.ggml.add_bos_token", made.add_bos, vocabulary.bos, "bos_token_id")? {
        None if made.needs_bos => vocabulary.bos,
        bos => bos,
    };
    let eos = wanted("tokenizer.ggml.add_eos_token", made.add_eos, vocabulary.eos, "eos_token_id")?;
    Ok(Frame { bos, eos, segments: false })
}

/// The bytes and the texts of all tokens.
fn pieces(vocabulary: &Vocabulary, made: &Made) -> (Pieces, Arena) {
    let (mut rest, mut texts) = (Arena::default(), Arena::default());
    let mut kinds = Vec::with_capacity(vocabulary.len());
    for (text, role) in vocabulary.iter() {
        let special = matches!(role, Role::Control | Role::Unknown);
        kinds.push(if special { Kind::Special } else { Kind::Text });
        texts.push(text.as_bytes());
        match role {
            Role::Control | Role::Unknown | Role::UserDefined => rest.push(text.as_bytes()),
            Role::Byte => match decoder::byte_token(text) {
                Some(byte) => rest.push(&[byte]),
                None => rest.push(text.as_bytes()),
            },
            Role::Unused => rest.push(&[]),
            Role::Normal => match made.writing {
                Writing::Bytes => rest.push(&decoder::byte_level(text)),
                Writing::Blanks => rest.push(text.replace(BLANK, " ").as_bytes()),
                Writing::Words => {
                    let text = tokenizers::decoders::wordpiece::cleanup(&text.replace(BLANK, " "));
                    rest.push(text.as_bytes());
                }
            },
        }
    }
    let strip = (made.prefix || made.writing == Writing::Words).then_some(Strip { what: b' ', times: 1 });
    (Pieces { rest, first: None, kinds, strip }, texts)
}

/// A vocabulary at work.
struct Engine {
    vocabulary: Vocabulary,
    model: Box<dyn Model>,
    specials: Specials,
    frame: Frame,
}

impl Engine {
    /// The ids of a text behind others.
    fn append(&self, text: &str, special: bool, out: &mut Vec<u32>) -> Result<(), Error> {
        let mut begins = true;
        for fragment in self.specials.split(text, special) {
            match fragment {
                Fragment::Token(id) => out.push(id),
                Fragment::Text(text) => {
                    self.model.encode(&self.vocabulary, text, begins, out).map_err(Error::Encode)?;
                }
            }
            begins = matches!(fragment, Fragment::Token(_));
        }
        Ok(())
    }
}

impl Encoder for Engine {
    fn encode(&self, text: &str, special: bool, add_bos_eos: bool) -> Result<Vec<u32>, Error> {
        let mut out = Vec::new();
        if add_bos_eos {
            out.extend(self.frame.bos);
        }
        self.append(text, special, &mut out)?;
        if add_bos_eos {
            out.extend(self.frame.eos);
        }
        Ok(out)
    }

    fn whole(&self, first: &str, second: Option<&str>, most: usize) -> Result<Whole, Error> {
        let Frame { bos, eos, segments } = self.frame;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.append(first, true, &mut a)?;
        second.map_or(Ok(()), |text| self.append(text, true, &mut b))?;
        let between = eos.filter(|_| !segments && second.is_some());
        let behind = eos.filter(|_| second.is_some());
        let added = [bos, eos, between, behind].iter().flatten().count();
        let length = a.len() + b.len() + added;
        let (left, right) = share(most.saturating_sub(added), a.len(), b.len());
        a.truncate(left);
        b.truncate(right);
        let ids: Vec<u32> =
            bos.into_iter().chain(a).chain(eos).chain(between).chain(b).chain(behind).collect();
        let ends = right + behind.iter().count();
        let segment = |i: usize| u32::from(segments && i >= ids.len() - ends);
        Ok(Whole { segments: (0..ids.len()).map(segment).collect(), ids, length })
    }

    fn id_of(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text)
    }
}
