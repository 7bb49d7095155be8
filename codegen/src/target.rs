//! Targets: which processor the code is for, and what the lowering needs to know of it.
//!
//! A target is a row of a table or the host. What the host has is LLVM's detection, and of that only what
//! CPUID *and* the state the operating system saves (XCR0) confirm: LLVM alone has been wrong under
//! hypervisors that mask registers, and the price is SIGILL. Code for a named target may be made anywhere;
//! [`Target::check_host`] must pass before it is run.

use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target as Llvm, TargetMachine, TargetTriple,
};
use std::sync::OnceLock;

use crate::Error;

/// A processor to make code for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// LLVM's name of the processor.
    pub cpu: String,
    /// LLVM's feature string, in addition to what the processor implies: `+avx2,-avx512f`.
    pub features: String,
    level: Level,
}

/// What instruction sets a lowering may count on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Level {
    /// SSE2: 128-bit vectors.
    V1,
    /// SSE4.2.
    V2,
    /// AVX2, FMA, F16C: 256-bit vectors.
    V3,
    /// AVX-512 F, BW, CD, DQ, VL: 512-bit vectors and masks.
    V4,
}

/// The named targets: LLVM's name, and the level whose features it has.
const TABLE: [(&str, Level); 17] = [
    ("x86-64", Level::V1),
    ("x86-64-v2", Level::V2),
    ("x86-64-v3", Level::V3),
    ("x86-64-v4", Level::V4),
    ("haswell", Level::V3),
    ("skylake", Level::V3),
    ("alderlake", Level::V3),
    ("skylake-avx512", Level::V4),
    ("cascadelake", Level::V4),
    ("icelake-server", Level::V4),
    ("sapphirerapids", Level::V4),
    ("graniterapids", Level::V4),
    ("znver1", Level::V3),
    ("znver2", Level::V3),
    ("znver3", Level::V3),
    ("znver4", Level::V4),
    ("znver5", Level::V4),
];

/// One row a feature that the lowering decides by: LLVM's name, the level it belongs to.
const FEATURES: [(&str, Level); 11] = [
    ("sse4.2", Level::V2),
    ("popcnt", Level::V2),
    ("avx", Level::V3),
    ("avx2", Level::V3),
    ("fma", Level::V3),
    ("f16c", Level::V3),
    ("bmi2", Level::V3),
    ("avx512f", Level::V4),
    ("avx512bw", Level::V4),
    ("avx512dq", Level::V4),
    ("avx512vl", Level::V4),
];

/// Whether CPUID and XCR0 say that the host has a row of [`FEATURES`].
#[cfg(target_arch = "x86_64")]
fn confirmed(feature: &str) -> bool {
    match feature {
        "sse4.2" => is_x86_feature_detected!("sse4.2"),
        "popcnt" => is_x86_feature_detected!("popcnt"),
        "avx" => is_x86_feature_detected!("avx"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        _ => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn confirmed(_: &str) -> bool {
    false
}

fn initialize() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| Llvm::initialize_x86(&InitializationConfig::default()));
}

/// LLVM's detection of the host: every feature with its sign, `+avx2`.
fn detected() -> Vec<String> {
    let text = TargetMachine::get_host_cpu_features().to_string();
    text.split(',').filter(|f| !f.is_empty()).map(str::to_string).collect()
}

/// Those rows of [`FEATURES`] that both detections grant.
fn host_has() -> Vec<(&'static str, Level)> {
    let llvm = detected();
    FEATURES
        .into_iter()
        .filter(|(f, _)| llvm.iter().any(|d| d[1..] == **f && d.starts_with('+')) && confirmed(f))
        .collect()
}

fn host_level() -> Level {
    let has = host_has();
    let complete = |level: Level| FEATURES.iter().filter(|f| f.1 <= level).all(|f| has.contains(f));
    [Level::V4, Level::V3, Level::V2].into_iter().find(|&l| complete(l)).unwrap_or(Level::V1)
}

impl Target {
    /// The machine this runs on.
    pub fn host() -> Target {
        initialize();
        let level = host_level();
        let cpu = TargetMachine::get_host_cpu_name().to_string();
        // A feature above the confirmed level is struck out, with everything that builds on it.
        let kept = |name: &str| match level {
            Level::V4 => true,
            Level::V3 => {
                !name.starts_with("avx512") && !name.starts_with("avx10") && !name.starts_with("amx")
            }
            Level::V1 | Level::V2 => !["avx", "amx", "fma", "f16c", "xop", "vaes", "vpclmul", "gfni"]
                .iter()
                .any(|p| name.starts_with(p)),
        };
        let features: Vec<String> = detected()
            .iter()
            .map(|f| if f.starts_with('+') && kept(&f[1..]) { f.clone() } else { format!("-{}", &f[1..]) })
            .collect();
        Target { cpu, features: features.join(","), level }
    }

    /// The target of a name: `host`, `x86-64-v3`, `znver4`.
    pub fn named(name: &str) -> Result<Target, Error> {
        initialize();
        if name == "host" {
            return Ok(Target::host());
        }
        let row = TABLE.iter().find(|row| row.0 == name);
        row.map(|&(cpu, level)| Target { cpu: cpu.to_string(), features: String::new(), level }).ok_or_else(
            || {
                let known: Vec<&str> = std::iter::once("host").chain(TABLE.iter().map(|r| r.0)).collect();
                Error::UnknownTarget { name: name.to_string(), known: known.join(", ") }
            },
        )
    }

    /// Every name that [`Target::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once("host").chain(TABLE.iter().map(|row| row.0))
    }

    /// Whether code for this target may be run on this machine.
    pub fn check_host(&self) -> Result<(), Error> {
        let has = host_has();
        let mut missing: Vec<&str> =
            FEATURES.iter().filter(|f| f.1 <= self.level && !has.contains(f)).map(|f| f.0).collect();
        // A processor of a name has more than its level says: run it only on one that LLVM calls the same, or by level.
        let host = Target::host();
        let by_level = self.cpu.starts_with("x86-64");
        if missing.is_empty() && !by_level && self.cpu != host.cpu {
            missing.push(&self.cpu);
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::HostLacks { target: self.cpu.clone(), missing: missing.join(", ") })
    }

    /// Bits of a vector register.
    pub(crate) fn vector_bits(&self) -> u32 {
        match self.level {
            Level::V1 | Level::V2 => 128,
            Level::V3 => 256,
            Level::V4 => 512,
        }
    }

    /// The number of vector registers.
    pub(crate) fn registers(&self) -> u32 {
        if self.level == Level::V4 { 32 } else { 16 }
    }

    /// Whether there are fused multiply-add, half conversion and 32-bit masked accesses.
    pub(crate) fn has_v3(&self) -> bool {
        self.level >= Level::V3
    }

    /// Whether accesses of any width can be masked.
    pub(crate) fn has_masks(&self) -> bool {
        self.level == Level::V4
    }

    /// LLVM's machine for it: position independent, small code model, so that an object can be placed anywhere.
    pub(crate) fn machine(&self) -> Result<TargetMachine, Error> {
        initialize();
        let triple = TargetTriple::create("x86_64-unknown-linux-gnu");
        let target = Llvm::from_triple(&triple).map_err(|e| Error::Llvm(e.to_string()))?;
        target
            .create_target_machine(
                &triple,
                &self.cpu,
                &self.features,
                OptimizationLevel::Aggressive,
                RelocMode::PIC,
                CodeModel::Small,
            )
            .ok_or_else(|| Error::Llvm(format!("no machine for {}", self.cpu)))
    }
}

/// `znver3` or `x86-64-v3`: the processor alone.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cpu)
    }
}
