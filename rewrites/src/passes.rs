//! Passes: rewritings, each of which may be left out and results stay right.
//!
//! One table, a row a pass: its name, which is that of its file, of its switch (`--without NAME`) and of its file in
//! `filetests/suite/plan`, and its meaning on one line. A verb of pipelines ([`ir::pipeline::Pass`]) has its own name
//! here: left out, it is as if no pipeline said it. `library` is a step of `fuse.rs`. What no plan can do
//! without, and saturation, has no row.

ir::passes! {
    /// A rewriting that may be left out.
    Pass:
    // On functions.
    Inline "inline" "calls of small functions, and of those that are given weights, are replaced by their bodies"
    Outline "outline" "what a long text repeats becomes a function, which is planned once"
    // On the graph of equal terms.
    AlphaEqual "alpha_equal" "primitives with the loops of a product of matrices, under other names, are that product"
    Merge "merge" "rules of several values: what stands side by side is made together"
    LoadTime "load_time" "what weights alone make is made when they are loaded, and kept"
    Guarded "guarded" "rules fire under conditions that nothing decides, in plans for where these hold"
    // On what computes each term.
    Fuse "fuse" "groups of operators become one kernel"
    HorizontalFusion "horizontal_fusion" "kernels that read the same become one kernel with several results"
    Library "library" "functions of libraries that rules find are called"
    Regimes "regimes" "ranges of dims get plans of their own"
    // On plans.
    ShareKernels "share_kernels" "fused kernels that differ in names of dims alone are one"
}
