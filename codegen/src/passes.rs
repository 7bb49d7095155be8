//! Passes: optimizations, each of which may be left out and results stay right.
//!
//! One table, a row a pass: its name, which is that of its file, of its switch (`--without NAME`) and of its file in
//! `filetests/suite/emit`, and its meaning on one line. `vectorize` alone has no file of its own: deciding it is
//! most of `schedule/mod.rs`. What is needed for right code is no pass and has no row.

ir::passes! {
    /// An optimization that may be left out.
    Pass:
    // What is done to a primitive before it is scheduled.
    Delinearize "delinearize" "a loop whose variable is divided by a dim becomes two, one within the other"
    StripMine "strip_mine" "a loop whose variable is divided by a constant becomes two, over blocks and within one"
    ScalarReplacement "scalar_replacement" "small local arrays become variables"
    ReductionsInVariables "reductions_in_variables" "a loop that adds to variables becomes sums"
    Fission "fission" "statements that have nothing to do with each other get loops of their own"
    Peel "peel" "the round that writes what all others read is taken out of its loop"
    ReductionsInMemory "reductions_in_memory" "a loop that adds to elements of a buffer becomes a sum for each"
    BandFusion "band_fusion" "nests over the same rows run one band of rows after the other, fused"
    Interchange "interchange" "strips of an inner independent loop go around the serial loops outside of it"
    IfConvert "if_convert" "conditions around statements become conditions of values"
    Licm "licm" "a reduction that is the same in every round of a loop is computed before it"
    ParallelReduction "parallel_reduction" "a reduction over everything becomes one a chunk, and one of those"
    // Which loops become lanes, and which iterations are done together.
    Vectorize "vectorize" "rounds of a loop, or terms of a reduction, become lanes of vectors"
    Scatter "scatter" "rounds that store where data says are computed by lanes, and store one after the other"
    Popcount "popcount" "how often a condition holds is counted a vector of its lanes at once"
    Interleave "interleave" "copies that lay narrow numbers side by side are made of whole words"
    UnrollAndJam "unroll_and_jam" "several rows are done at once, and share in registers what they read alike"
    Transpose "transpose" "squares whose rows are read across are turned in registers"
    Pack "pack" "what all rows of a tile read is copied to panels, in the order in which it is read"
    CacheBlocking "cache_blocking" "a long reduction goes by pieces whose panels stay in the nearest cache"
    OuterProduct "outer_product" "few rows keep their sums in memory, and meet a matrix in the order in which it lies"
    Prepacked "prepacked" "panels that a program has made itself are read as they lie"
    Precompute "precompute" "what is computed of a prepacked panel is kept for all rows"
    DotProducts "dot_products" "sums of products of narrow numbers become dot-product instructions"
    MatrixTiles "matrix_tiles" "products of many rows are made by matrix instructions (AMX)"
    Specialize "specialize" "where the dim of all lanes is 1 there are loops of their own"
    Materialize "materialize" "a function that several passes over a row would compute again is kept in a buffer"
    Collapse "collapse" "loops around much work become one, whose rounds are blocks of the grid"
    Unroll "unroll" "loops and reductions of a few rounds inside of lanes are written out"
    StreamingStores "streaming_stores" "large outputs are written past the caches"
    Prefetch "prefetch" "what a later round of a loop reads is fetched while this one runs"
    DeadFill "dead_fill" "local buffers of which nothing is read but what was written are not filled with zeros"
    // How loops are emitted.
    Coalesce "coalesce" "rows that lie one behind the other run as one loop"
    MergeStrips "merge_strips" "neighbouring strips of one thread run as one"
    SplitLoop "split_loop" "a loop by lanes is cut into the rounds in which a condition holds and the others"
    LoopVersions "loop_versions" "rounds in which conditions inside hold get a loop of their own"
    HoistChecks "hoist_checks" "bounds checks that are the same in all rounds are made before the loop"
    BoundsChecks "bounds_checks" "indices that are proved to be inside are not compared"
    Strided "strided" "lanes that lie evenly apart are read and written by whole vectors"
    NarrowCompare "narrow_compare" "positions of lanes are compared as narrow numbers"
    RegisterPromotion "register_promotion" "an element to which an unrolled loop adds is kept in a register"
}

/// Which passes run: all, but for those that are turned off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Passes {
    /// A bit for each that is turned off, by its place in [`Pass::ALL`].
    off: u64,
}

impl Passes {
    /// The same without a pass.
    pub fn without(self, pass: Pass) -> Passes {
        Passes { off: self.off | 1 << pass as u32 }
    }

    /// Whether a pass runs.
    pub fn runs(self, pass: Pass) -> bool {
        self.off >> pass as u32 & 1 == 0
    }
}

/// ` without peel, unroll`: what is turned off, or nothing.
impl std::fmt::Display for Passes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let off = Pass::ALL.iter().filter(|p| !self.runs(**p)).map(|p| p.name());
        let off = off.collect::<Vec<_>>().join(", ");
        if off.is_empty() { Ok(()) } else { write!(f, " without {off}") }
    }
}

const _: () = assert!(Pass::ALL.len() <= u64::BITS as usize);
