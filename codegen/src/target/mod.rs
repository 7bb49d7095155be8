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

use crate::{Error, Pass, Passes};

pub(crate) mod facts;

/// A processor to make code for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// LLVM's name of the processor, by which instructions are chosen and ordered.
    pub cpu: String,
    /// LLVM's name of the processor whose instructions code may use, before [`Target::features`]: that of a level, or
    /// the host's.
    pub(crate) base: String,
    /// LLVM's feature string, in addition to what the base implies: `+avx2,-avx512f`.
    pub features: String,
    level: Level,
    /// Rows of [`EXTRAS`] that it has.
    extras: Vec<&'static str>,
    /// Whether LLVM translates what it is given and improves nothing.
    plain: bool,
    /// The passes that run.
    pub passes: Passes,
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

impl Level {
    /// LLVM's name of it.
    fn name(self) -> &'static str {
        match self {
            Level::V1 => "x86-64",
            Level::V2 => "x86-64-v2",
            Level::V3 => "x86-64-v3",
            Level::V4 => "x86-64-v4",
        }
    }
}

/// The named targets: LLVM's name, the level whose features it has, and what code for it may use beyond. Nothing else
/// of what LLVM knows of that processor is used, so whatever machine has these features can run the code.
const TABLE: [(&str, Level, &[&str]); 17] = [
    ("x86-64", Level::V1, &[]),
    ("x86-64-v2", Level::V2, &[]),
    ("x86-64-v3", Level::V3, &[]),
    ("x86-64-v4", Level::V4, &[]),
    ("haswell", Level::V3, &[]),
    ("skylake", Level::V3, &[]),
    ("alderlake", Level::V3, &[GFNI, AVXVNNI]),
    ("skylake-avx512", Level::V4, &[]),
    ("cascadelake", Level::V4, &[AVX512VNNI]),
    ("icelake-server", Level::V4, beyond(6)),
    ("sapphirerapids", Level::V4, beyond(10)),
    ("graniterapids", Level::V4, beyond(11)),
    ("znver1", Level::V3, &[]),
    ("znver2", Level::V3, &[]),
    ("znver3", Level::V3, &[]),
    ("znver4", Level::V4, beyond(7)),
    ("znver5", Level::V4, beyond(8)),
];

/// What processors have beyond level 4, in an order in which each has all that one named before it has.
const BEYOND: [&str; 11] = [
    GFNI,
    AVX512VBMI,
    AVX512VBMI2,
    AVX512BITALG,
    AVX512VPOPCNT,
    AVX512VNNI, // icelake-server
    AVX512BF16, // znver4
    AVXVNNI,    // znver5
    AMXBF16,
    AMXINT8, // sapphirerapids
    AMXFP16, // graniterapids
];

/// The first so many of them.
const fn beyond(n: usize) -> &'static [&'static str] {
    BEYOND.split_at(n).0
}

const GFNI: &str = "gfni";
const AVX512VBMI: &str = "avx512vbmi";
const AVX512VBMI2: &str = "avx512vbmi2";
const AVX512BITALG: &str = "avx512bitalg";
const AVX512VPOPCNT: &str = "avx512vpopcntdq";

const AVX512VNNI: &str = "avx512vnni";
const AVX512BF16: &str = "avx512bf16";
const AVXVNNI: &str = "avxvnni";
const AMXBF16: &str = "amx-bf16";
const AMXINT8: &str = "amx-int8";
const AMXFP16: &str = "amx-fp16";

/// One row a feature of a level that code may use: LLVM's name, the level it belongs to.
const FEATURES: [(&str, Level); 16] = [
    ("sse2", Level::V1),
    ("sse4.2", Level::V2),
    ("popcnt", Level::V2),
    ("avx", Level::V3),
    ("avx2", Level::V3),
    ("fma", Level::V3),
    ("f16c", Level::V3),
    ("bmi", Level::V3),
    ("bmi2", Level::V3),
    ("lzcnt", Level::V3),
    ("movbe", Level::V3),
    ("avx512f", Level::V4),
    ("avx512bw", Level::V4),
    ("avx512cd", Level::V4),
    ("avx512dq", Level::V4),
    ("avx512vl", Level::V4),
];

/// Features that belong to no level: LLVM's name, and the level without whose registers it is of no use.
const EXTRAS: [(&str, Level); 11] = [
    (GFNI, Level::V3),
    (AVX512VBMI, Level::V4),
    (AVX512VBMI2, Level::V4),
    (AVX512BITALG, Level::V4),
    (AVX512VPOPCNT, Level::V4),
    (AVX512VNNI, Level::V4),
    (AVX512BF16, Level::V4),
    (AVXVNNI, Level::V3),
    (AMXBF16, Level::V4),
    (AMXINT8, Level::V4),
    (AMXFP16, Level::V4),
];

/// Whether CPUID and XCR0 say that the host has a row of [`FEATURES`] or [`EXTRAS`].
#[cfg(target_arch = "x86_64")]
fn confirmed(feature: &str) -> bool {
    match feature {
        "sse2" => is_x86_feature_detected!("sse2"),
        "sse4.2" => is_x86_feature_detected!("sse4.2"),
        "popcnt" => is_x86_feature_detected!("popcnt"),
        "avx" => is_x86_feature_detected!("avx"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "bmi" => is_x86_feature_detected!("bmi1"),
        "lzcnt" => is_x86_feature_detected!("lzcnt"),
        "movbe" => is_x86_feature_detected!("movbe"),
        "avx512cd" => is_x86_feature_detected!("avx512cd"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        GFNI => is_x86_feature_detected!("gfni"),
        AVX512VBMI => is_x86_feature_detected!("avx512vbmi"),
        AVX512VBMI2 => is_x86_feature_detected!("avx512vbmi2"),
        AVX512BITALG => is_x86_feature_detected!("avx512bitalg"),
        AVX512VPOPCNT => is_x86_feature_detected!("avx512vpopcntdq"),
        AVX512VNNI => is_x86_feature_detected!("avx512vnni"),
        AVX512BF16 => is_x86_feature_detected!("avx512bf16"),
        AVXVNNI => is_x86_feature_detected!("avxvnni"),
        AMXBF16 => has_tiles() && edx_of_7() >> 22 & 1 == 1,
        AMXINT8 => has_tiles() && edx_of_7() >> 25 & 1 == 1,
        AMXFP16 => has_tiles() && std::arch::x86_64::__cpuid_count(7, 1).eax >> 21 & 1 == 1,
        _ => false,
    }
}

#[cfg(target_arch = "x86_64")]
fn edx_of_7() -> u32 {
    let most = std::arch::x86_64::__cpuid(0).eax;
    if most < 7 { 0 } else { std::arch::x86_64::__cpuid_count(7, 0).edx }
}

/// Whether there are registers that hold tiles, and this process may use them: the system keeps room for their 8 KiB
/// only for whom asks for it, and asking is how one learns what is saved.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[expect(unsafe_code, reason = "a system call")]
fn has_tiles() -> bool {
    const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
    const XFEATURE_XTILEDATA: i32 = 18;
    static ONCE: OnceLock<bool> = OnceLock::new();
    *ONCE.get_or_init(|| {
        let registers = edx_of_7() >> 24 & 1 == 1;
        // SAFETY: it changes nothing but what state of this process the system has room for.
        registers
            && unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) } == 0
    })
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn has_tiles() -> bool {
    false
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

/// Whether both detections grant a feature, of those that LLVM said.
fn granted(llvm: &[String], feature: &str) -> bool {
    llvm.iter().any(|d| d[1..] == *feature && d.starts_with('+')) && confirmed(feature)
}

/// The highest level all of whose features both detections grant.
fn host_level(llvm: &[String]) -> Level {
    let complete = |level: Level| FEATURES.iter().filter(|f| f.1 <= level).all(|f| granted(llvm, f.0));
    [Level::V4, Level::V3, Level::V2].into_iter().find(|&l| complete(l)).unwrap_or(Level::V1)
}

/// Whether a name is that of the machine itself; `native` is what C compilers say.
fn is_host(name: &str) -> bool {
    ["host", "native"].contains(&name)
}

impl Target {
    /// The machine this runs on, or what [`Target::from_env`] makes of it.
    pub fn host() -> Target {
        static ONCE: OnceLock<Target> = OnceLock::new();
        ONCE.get_or_init(|| Target::from_env().unwrap_or_else(|_| Target::detected())).clone()
    }

    /// The processor that `TENON_TARGET_CPU` names, or this one, without the passes that `TENON_WITHOUT` names: so
    /// that code for narrower machines is tested, and a pass measured, wherever something calls the compiler.
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment stands for the machine, in this one place"
    )]
    pub fn from_env() -> Result<Target, Error> {
        let named = std::env::var("TENON_TARGET_CPU").ok().filter(|name| !is_host(name));
        let target = named.map_or_else(|| Ok(Target::detected()), |name| Target::named(&name))?;
        let left_out = std::env::var("TENON_WITHOUT").unwrap_or_default();
        left_out.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(target, |target, name| {
            let pass = Pass::named(name).ok_or_else(|| Error::UnknownPass { name: name.to_owned() })?;
            Ok(target.without(pass))
        })
    }

    /// The machine this runs on.
    fn detected() -> Target {
        initialize();
        let llvm = detected();
        let level = host_level(&llvm);
        let cpu = TargetMachine::get_host_cpu_name().to_string();
        let extra = |f: &str| EXTRAS.iter().find(|e| e.0 == f);
        // A feature above the confirmed level is struck out, with everything that builds on it.
        let kept = |name: &str| match (extra(name), level) {
            (Some(e), level) => e.1 <= level && confirmed(name),
            (None, Level::V4) => !name.starts_with("amx") || has_tiles(),
            (None, Level::V3) => {
                !name.starts_with("avx512") && !name.starts_with("avx10") && !name.starts_with("amx")
            }
            (None, Level::V1 | Level::V2) => !["avx", "amx", "fma", "f16c", "xop", "vaes", "vpclmul", "gfni"]
                .iter()
                .any(|p| name.starts_with(p)),
        };
        let features: Vec<String> = llvm
            .iter()
            .map(|f| if f.starts_with('+') && kept(&f[1..]) { f.clone() } else { format!("-{}", &f[1..]) })
            .collect();
        let extras = EXTRAS.iter().map(|e| e.0).filter(|e| granted(&features, e)).collect();
        let (base, features) = (cpu.clone(), features.join(","));
        Target { cpu, base, features, level, extras, plain: false, passes: Passes::default() }
    }

    /// The target of a name: `host` (or `native`), `x86-64-v3`, `znver4`.
    pub fn named(name: &str) -> Result<Target, Error> {
        initialize();
        if is_host(name) {
            return Ok(Target::host());
        }
        let row = TABLE.iter().find(|row| row.0 == name);
        let &(cpu, level, extras) = row.ok_or_else(|| {
            let known: Vec<&str> = std::iter::once("native").chain(Target::names()).collect();
            Error::UnknownTarget { name: name.to_string(), known: known.join(", ") }
        })?;
        let features: Vec<String> = extras.iter().map(|e| format!("+{e}")).collect();
        let (cpu, base, features) = (cpu.to_string(), level.name().to_string(), features.join(","));
        let extras = extras.to_vec();
        Ok(Target { cpu, base, features, level, extras, plain: false, passes: Passes::default() })
    }

    /// The same processor, for code that LLVM did not improve: what differs from it tells a mistake of LLVM's from one
    /// of ours. Tiles of registers are left out, which LLVM lowers in a way of its own there.
    pub fn plain(self) -> Target {
        let tiles = |e: &&str| *e == AMXBF16 || *e == AMXINT8;
        let extras = self.extras.into_iter().filter(|e| !tiles(e)).collect();
        Target { extras, plain: true, ..self }
    }

    /// The same processor, for code that a pass leaves as it is.
    pub fn without(self, pass: Pass) -> Target {
        Target { passes: self.passes.without(pass), ..self }
    }

    /// Whether a pass runs.
    pub(crate) fn runs(&self, pass: Pass) -> bool {
        self.passes.runs(pass)
    }

    /// Whether it is a plain target.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Every name that [`Target::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once("host").chain(TABLE.iter().map(|row| row.0))
    }

    /// Every feature that a machine must have to run code for this target, by LLVM's names.
    pub fn needs(&self) -> Vec<String> {
        let level = FEATURES.iter().filter(|f| f.1 <= self.level).map(|f| f.0);
        let mut needs: Vec<String> = level.map(str::to_owned).collect();
        for feature in self.features.split(',').filter_map(|f| f.strip_prefix('+')) {
            if !needs.iter().any(|n| n == feature) {
                needs.push(feature.to_owned());
            }
        }
        needs
    }

    /// Whether code for this target may be run on this machine.
    pub fn check_host(&self) -> Result<(), Error> {
        // A name that means nothing is told before anything runs.
        Target::from_env()?;
        let has = Target::detected().needs();
        let mut missing = self.needs();
        missing.retain(|f| !has.contains(f));
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::HostLacks { target: self.cpu.clone(), missing: missing.join(", ") })
    }

    /// Whether code may use a feature, by LLVM's name of it.
    pub fn has(&self, feature: &str) -> bool {
        let of_level = FEATURES.iter().any(|(name, level)| *name == feature && *level <= self.level);
        of_level || self.extras.contains(&feature)
    }

    /// All that code depends on, as text.
    pub fn key(&self) -> String {
        let plain = if self.plain { " plain" } else { "" };
        let (extras, passes) = (self.extras.join(","), self.passes);
        format!("{} {} {} {:?} {extras}{plain}{passes}", self.cpu, self.base, self.features, self.level)
    }

    /// LLVM's machine for it: position independent, small code model, so that an object can be placed anywhere.
    pub(crate) fn machine(&self) -> Result<TargetMachine, Error> {
        initialize();
        let triple = TargetTriple::create("x86_64-unknown-linux-gnu");
        let target = Llvm::from_triple(&triple).map_err(|e| Error::Llvm(e.to_string()))?;
        target
            .create_target_machine(
                &triple,
                &self.base,
                &self.features,
                if self.plain { OptimizationLevel::None } else { OptimizationLevel::Aggressive },
                RelocMode::PIC,
                CodeModel::Small,
            )
            .ok_or_else(|| Error::Llvm(format!("no machine for {}", self.cpu)))
    }
}

/// `znver3` or `x86-64-v3`: the processor, and what is turned off.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cpu)?;
        f.write_str(if self.plain { " (plain)" } else { "" })?;
        self.passes.fmt(f)
    }
}
