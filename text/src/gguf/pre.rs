//! How vocabularies of byte pairs cut text into words, by the name that GGUF files give it.
//!
//! A file only says a name, `tokenizer.ggml.pre`. What it means is a convention: the expressions with which the models
//! of that name were trained. They are applied one after the other, each to what the ones before left whole.

/// Digits, three at a time, counted from the right: `\p{N}{1,2}(?=(?:\p{N}{3})+(?!\p{N}))|\p{N}{3}|\p{N}{1,2}`.
///
/// Like the next two it is no expression here but code, for as one it looks to the end of the digits at each of them.
pub(super) const DIGITS_FROM_RIGHT: &str = "digits from right";

/// The same of digits that no letter follows: `\d{1,3}(?=(?:\d{3})*\b)`.
pub(super) const NUMBERS_FROM_RIGHT: &str = "numbers from right";

/// A cut before each three digits, counted from the right: `(?=(\d{3})+(?!\d))`.
pub(super) const BETWEEN_DIGITS_FROM_RIGHT: &str = "between digits from right";

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pre {
    /// The expressions, in order.
    pub(super) patterns: &'static [&'static str],
    /// A word that is a token is that token, whatever the merges say.
    pub(super) whole_words: bool,
    /// Texts begin with the token for that, if the file does not say.
    pub(super) add_bos: bool,
    /// Text is written in the alphabet of bytes; else as it is, with `▁` for blanks.
    pub(super) bytes: bool,
    /// Runs of line breaks that are a token are that token.
    pub(super) line_breaks: bool,
}

/// The same in all of them: English contractions, in the form with either case.
macro_rules! contractions {
    () => {
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    };
}

/// Blanks: those that end in a line break, those before a word but one, the rest.
macro_rules! blanks {
    () => {
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}

/// A word with capital letters first, or of capital letters.
macro_rules! cased_word {
    ($end:expr) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $end,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $end
        )
    };
}

/// Words with letters, numbers of so many digits, signs, blanks.
macro_rules! plain_words {
    ($digits:expr) => {
        concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
            blanks!()
        )
    };
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const DIGIT: &str = r"\p{N}";
const THREE_DIGITS: &str = r"\p{N}{1,3}";
const LLAMA3: &str = plain_words!(r"\p{N}{1,3}");
const QWEN2: &str = plain_words!(r"\p{N}");
const LINES: &str = r"[^\n]+|[\n]+";
const CJK: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+";
const CJK_AND_KOREAN: &str = r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

/// Letters that have a case, as of the version of Unicode that the model knows.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[[\p{Lu}\p{Ll}\p{Lt}]&&[^\x{560}-\x{588}\x{10C7}\x{10CD}\x{10D0}-\x{10FA}\x{10FD}-\x{10FF}",
    r"\x{1C80}-\x{1C8A}\x{2D00}-\x{2D2F}\x{A790}-\x{A7FF}\x{AB30}-\x{AB6F}",
    r"\x{10570}-\x{105BF}\x{10D50}-\x{10D8F}\x{16E40}-\x{16EFF}\x{1D400}-\x{1D7FF}\x{1DF00}-\x{1DFFF}]]+"
);

const DEEPSEEK3_WORDS: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    blanks!()
);

const GPT4O: &str = concat!(
    cased_word!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"),
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    blanks!()
);

/// Blanks by powers of two.
const JAIS2: &str = concat!(
    contractions!(),
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)",
    r"|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
);

const KIMI: &str = concat!(
    r"\p{Han}+|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]*",
    r"[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]+",
    r"[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    blanks!()
);

/// One row a way to cut: its names, then what they mean.
type Row = (&'static [&'static str], Pre);

const PLAIN: Pre = Pre { patterns: &[], whole_words: false, add_bos: false, bytes: true, line_breaks: false };

const fn cut(patterns: &'static [&'static str]) -> Pre {
    Pre { patterns, ..PLAIN }
}

const fn whole(patterns: &'static [&'static str]) -> Pre {
    Pre { patterns, whole_words: true, ..PLAIN }
}

const ROWS: &[Row] = &[
    (&["default", ""], cut(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"])),
    (
        &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        Pre { add_bos: true, ..whole(&[LLAMA3]) },
    ),
    (&["dbrx", "smaug-bpe", "chatglm-bpe"], cut(&[LLAMA3])),
    (&["glm4", "glm5"], whole(&[LLAMA3])),
    (&["jais-2"], cut(&[JAIS2])),
    (&["minicpm5"], whole(&[THREE_DIGITS, plain_words!(r"\p{N}+")])),
    (
        &["deepseek-llm"],
        cut(&[
            r"[\r\n]",
            DEEPSEEK_LETTERS,
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            CJK_AND_KOREAN,
            r"\p{N}+",
        ]),
    ),
    (&["deepseek-coder"], cut(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK_AND_KOREAN, DIGIT])),
    (&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], cut(&[THREE_DIGITS, CJK, DEEPSEEK3_WORDS])),
    (
        &["spark2_5"],
        cut(&[
            THREE_DIGITS,
            CJK,
            concat!(
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
                r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
            ),
            DIGIT,
        ]),
    ),
    (
        &["youtu"],
        whole(&[
            concat!(
                r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[！…“”‘’—：；，\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+",
                r"|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+"
            ),
            concat!(
                cased_word!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"),
                r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
                blanks!()
            ),
        ]),
    ),
    (&["falcon"], cut(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"])),
    (
        &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        cut(&[DIGIT, GPT2]),
    ),
    (
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
        ],
        cut(&[GPT2]),
    ),
    (
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "stablelm2",
            "megrez",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        cut(&[QWEN2]),
    ),
    (
        &["qwen35"],
        cut(&[concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
            blanks!()
        )]),
    ),
    (&["ufakzeka"], cut(&[concat!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*", blanks!())])),
    (&["laguna"], cut(&[LINES, QWEN2])),
    (&["poro-chat", "bloom", "gpt3-finnish"], cut(&[BLOOM])),
    (&["viking"], cut(&[BLOOM, DIGIT])),
    (
        &["tekken"],
        Pre {
            add_bos: true,
            ..whole(&[concat!(cased_word!(""), r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*", blanks!())])
        },
    ),
    (
        &["chameleon"],
        Pre {
            add_bos: true,
            ..cut(&[
                r"<sentinel:[0-9]+>",
                r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                r"([\t\n]|    |  )",
                DIGIT,
                r"[\p{P}!-/:-@\[-`{-~]",
                GPT2,
            ])
        },
    ),
    (&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], cut(&[GPT4O])),
    (&["granite-embed-multi-97m"], whole(&[GPT4O])),
    (&["tiny_aya", "cohere2moe"], cut(&[NUMBERS_FROM_RIGHT, GPT4O])),
    (&["kimi-k2"], cut(&[KIMI])),
    (&["superbpe"], cut(&[r"\p{N}+", BETWEEN_DIGITS_FROM_RIGHT])),
    (
        &["bailingmoe", "bailingmoe2", "llada-moe"],
        cut(&[concat!(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*",
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        )]),
    ),
    (
        &["seed-coder"],
        cut(&[concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+",
            blanks!()
        )]),
    ),
    (
        &["exaone-moe"],
        cut(&[concat!(
            contractions!(),
            r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?",
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        )]),
    ),
    (
        &["afmoe"],
        cut(&[
            DIGITS_FROM_RIGHT,
            concat!(
                r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}",
                r"\x{2F00}-\x{2FDF}\x{0E00}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}",
                r"\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
            ),
            DEEPSEEK3_WORDS,
        ]),
    ),
    (
        &["gemma4", "granite-embed-multi-311m"],
        Pre { add_bos: true, bytes: false, line_breaks: true, ..cut(&[LINES]) },
    ),
    (&["sarvam-moe"], Pre { bytes: false, ..cut(&[LINES]) }),
];

/// What a name means.
pub(super) fn find(name: &str) -> Result<Pre, String> {
    match ROWS.iter().find(|(names, _)| names.contains(&name)) {
        Some((_, pre)) => Ok(*pre),
        None => Err(format!(
            "the way {name:?} to cut text into words is not known; known are {}",
            names().join(", ")
        )),
    }
}

/// All names, in order.
pub(super) fn names() -> Vec<&'static str> {
    let mut all: Vec<&str> =
        ROWS.iter().flat_map(|(names, _)| *names).copied().filter(|n| !n.is_empty()).collect();
    all.sort_unstable();
    all
}
