//! Bytecode as text.
//!
//! [`listing`] shows a whole program: entries with their signatures, constants, kernels, functions with
//! labels, and beside each run of instructions the source line it came from. [`function`] shows the code
//! of one function, and [`parse`] reads such code back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tensor::DType;
use tensor::abi::{Access, Step, StepOp};

use crate::isa::{
    Axis, ConstId, F, Float, FuncId, I, Instr, Int, KernelId, Kind, Label, List, MessageId, Operand, Reg,
    RegionId, T,
};
use crate::program::{Entry, Extent, Function, Kernel, Program, TensorType, Type};
use crate::scalar::{Compare, FloatBinary, FloatUnary, IntBinary, IntUnary};

/// A register as text: `i0`, `f1`, `t2`.
pub fn reg(r: Reg) -> String {
    match r {
        Reg::I(n) => format!("i{n}"),
        Reg::F(n) => format!("f{n}"),
        Reg::T(n) => format!("t{n}"),
    }
}

/// The whole program.
pub fn listing(program: &Program) -> String {
    let mut out = String::new();
    for e in &program.entries {
        entry(&mut out, program, e);
    }
    for (i, c) in program.constants.iter().enumerate() {
        let _ = writeln!(out, "const c{i}: {}{:?}", c.dtype, c.shape);
    }
    for (i, k) in program.kernels.iter().enumerate() {
        kernel(&mut out, i, k);
    }
    for (i, f) in program.functions.iter().enumerate() {
        let _ = writeln!(out, "\nfn {i} {}", signature(f));
        regions(&mut out, f);
        out.push_str(&function(program, f));
    }
    out
}

fn entry(out: &mut String, program: &Program, e: &Entry) {
    let params: Vec<String> = e
        .params
        .iter()
        .map(|p| format!("{}{}: {}", if p.own { "own " } else { "" }, p.name, p.type_text()))
        .collect();
    let results: Vec<String> = e
        .results
        .iter()
        .map(|r| {
            let name = r.name.as_ref().map_or(String::new(), |n| format!("{n}: "));
            let dims = if r.shape.is_empty() { String::new() } else { format!("[{}]", r.shape.join(", ")) };
            format!("{name}{}{dims}", r.dtype)
        })
        .collect();
    let name = program.functions.get(e.function as usize).map_or("?", |f| f.name.as_str());
    let _ = writeln!(
        out,
        "entry {}({}) -> ({}) = fn {} {name}",
        e.name,
        params.join(", "),
        results.join(", "),
        e.function
    );
    let extents: Vec<String> = e
        .params
        .iter()
        .flat_map(|p| (0..p.shape.len()).map(move |axis| format!("{}.{axis}", p.name)))
        .collect();
    for (i, d) in e.dims.iter().enumerate() {
        let known: Vec<String> =
            extents.iter().cloned().chain(e.dims[..i].iter().map(|d| d.name.clone())).collect();
        let _ = writeln!(out, "    {} = {}", d.name, steps(&d.steps, &|n| known.get(n as usize).cloned()));
    }
}

fn kernel(out: &mut String, i: usize, k: &Kernel) {
    let int = |n: u32| Some(format!("#{n}"));
    let bufs: Vec<String> = k
        .abi
        .bufs
        .iter()
        .zip(&k.shapes)
        .map(|(b, shape)| {
            let access = match b.access {
                Access::In => "in",
                Access::Out => "out",
                Access::InOut => "inout",
            };
            let dims: Vec<String> = shape
                .iter()
                .map(|e| match e {
                    Extent::Const(c) => c.to_string(),
                    Extent::Int(n) => format!("#{n}"),
                    Extent::Steps(s) => steps(s, &int),
                })
                .collect();
            format!("{access} {}[{}]", b.dtype, dims.join(", "))
        })
        .collect();
    let _ = write!(out, "kernel k{i} {}({} ints; {})", k.name, k.abi.ints, bufs.join(", "));
    let _ = write!(out, " grid {}", steps(&k.abi.grid, &int));
    if !k.abi.scratch.is_empty() {
        let _ = write!(out, " scratch {}", steps(&k.abi.scratch, &int));
    }
    if !k.abi.libraries.is_empty() {
        let _ = write!(out, " from {}", k.abi.libraries.join(", "));
    }
    out.push('\n');
}

/// A step program as an expression.
fn steps(all: &[Step], name: &dyn Fn(u32) -> Option<String>) -> String {
    /// Shared steps are written out where they are used: past this the text says so instead.
    const LONG: usize = 400;
    let mut texts: Vec<String> = Vec::new();
    for step in all {
        let at = |i: u32| texts.get(i as usize).cloned().unwrap_or_else(|| "?".to_owned());
        let text = match *step {
            Step::Const(c) => c.to_string(),
            Step::Int(n) => name(n).unwrap_or_else(|| "?".to_owned()),
            Step::Bin(op, a, b) => {
                let (a, b) = (at(a), at(b));
                match op {
                    StepOp::Add => format!("({a} + {b})"),
                    StepOp::Sub => format!("({a} - {b})"),
                    StepOp::Mul => format!("({a} * {b})"),
                    StepOp::FloorDiv => format!("({a} / {b})"),
                    StepOp::CeilDiv => format!("ceil({a} / {b})"),
                    StepOp::Mod => format!("({a} % {b})"),
                    StepOp::Min => format!("min({a}, {b})"),
                    StepOp::Max => format!("max({a}, {b})"),
                }
            }
        };
        texts.push(if text.len() > LONG { "(...)".to_owned() } else { text });
    }
    texts.pop().unwrap_or_else(|| "0".to_owned())
}

fn tensor_type(t: TensorType) -> String {
    format!("{}/{}", t.dtype, t.rank)
}

fn type_text(t: Type) -> String {
    match t {
        Type::Int => "int".to_owned(),
        Type::Float => "float".to_owned(),
        Type::Tensor(t) => tensor_type(t),
    }
}

fn signature(f: &Function) -> String {
    let params: Vec<String> =
        f.params.iter().map(|p| format!("{}{}", if p.own { "own " } else { "" }, type_text(p.ty))).collect();
    let results: Vec<String> = f.results.iter().map(|&t| type_text(t)).collect();
    let tensors: Vec<String> =
        f.tensors.iter().enumerate().map(|(i, &t)| format!("t{i} {}", tensor_type(t))).collect();
    format!(
        "{}({}) -> ({})  ; {} ints, {} floats, {}",
        f.name,
        params.join(", "),
        results.join(", "),
        f.ints,
        f.floats,
        if tensors.is_empty() { "no tensors".to_owned() } else { tensors.join(", ") }
    )
}

fn regions(out: &mut String, f: &Function) {
    for (i, r) in f.regions.iter().enumerate() {
        let bytes = steps(&r.bytes, &|n| Some(format!("i{n}")));
        let twin = if r.twin { ", twin" } else { "" };
        let _ = writeln!(out, "region r{i}: {bytes} bytes, {}..{}{twin}", r.from, r.to);
    }
}

/// The code of a function: one instruction a line, labels on lines of their own, remarks after `;`.
pub fn function(program: &Program, f: &Function) -> String {
    let mut labels = BTreeSet::new();
    for instr in &f.code {
        instr.operands(&mut |_, o| {
            if let Operand::Label(l) = o {
                labels.insert(l.0);
            }
        });
    }
    let mut out = String::new();
    let mut last = None;
    for (pc, instr) in f.code.iter().enumerate() {
        if labels.contains(&(pc as u32)) {
            let _ = writeln!(out, "L{pc}:");
        }
        let (text, mut remark) = instruction(program, f, instr);
        let place = f.place(pc).filter(|p| p.line > 0).map(|p| (p.file, p.line));
        if place != last
            && let Some((file, line)) = place
        {
            let file = program.files.get(file as usize).map_or("?", String::as_str);
            let gap = if remark.is_empty() { "" } else { "  " };
            remark = format!("{remark}{gap}{file}:{line}");
        }
        last = place;
        if remark.is_empty() {
            let _ = writeln!(out, "    {text}");
        } else {
            let _ = writeln!(out, "    {text:<50} ; {remark}");
        }
    }
    out
}

/// An instruction and a remark on it.
fn instruction(program: &Program, f: &Function, instr: &Instr) -> (String, String) {
    let (mut parts, mut remark) = (Vec::new(), String::new());
    instr.operands(&mut |_, o| {
        parts.push(match o {
            Operand::I(r) => reg(Reg::I(r.0)),
            Operand::F(r) => reg(Reg::F(r.0)),
            Operand::T(r) => reg(Reg::T(r.0)),
            Operand::Int(i) => i.0.to_string(),
            Operand::Float(b) => {
                let x = f64::from_bits(b.0);
                if x.is_nan() { format!("{:#x}", b.0) } else { format!("{x:?}") }
            }
            Operand::Label(l) => format!("L{}", l.0),
            Operand::Message(m) => {
                remark = program.messages.get(m.0 as usize).map_or(String::new(), |m| format!("{m:?}"));
                format!("m{}", m.0)
            }
            Operand::Const(c) => format!("c{}", c.0),
            Operand::Kernel(k) => {
                remark = program.kernels.get(k.0 as usize).map_or(String::new(), |k| k.name.clone());
                format!("k{}", k.0)
            }
            Operand::Func(n) => {
                remark = program.functions.get(n.0 as usize).map_or(String::new(), |f| f.name.clone());
                format!("fn{}", n.0)
            }
            Operand::Region(r) => format!("r{}", r.0),
            Operand::Axis(a) => a.0.to_string(),
            Operand::List(l) => {
                let regs: Vec<String> = f.list(l).iter().map(|&r| reg(r)).collect();
                format!("[{}]", regs.join(" "))
            }
            Operand::DType(d) => d.to_string(),
            Operand::IntUnary(o) => o.name().to_owned(),
            Operand::IntBinary(o) => o.name().to_owned(),
            Operand::FloatUnary(o) => o.name().to_owned(),
            Operand::FloatBinary(o) => o.name().to_owned(),
            Operand::Compare(o) => o.name().to_owned(),
        });
    });
    let text = format!("{} {}", instr.mnemonic(), parts.join(", "));
    (text.trim_end().to_owned(), remark)
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Error {
    /// 1-based.
    pub line: usize,
    /// Why.
    pub what: String,
}

/// Reads the code of a function as [`function`] writes it: the instructions and the pool of their lists.
pub fn parse(text: &str) -> Result<(Vec<Instr>, Vec<Reg>), Error> {
    let lines = || {
        text.lines()
            .enumerate()
            .map(|(n, l)| (n + 1, l.split(';').next().unwrap_or("").trim()))
            .filter(|(_, l)| !l.is_empty())
    };
    let mut labels = BTreeMap::new();
    let mut pc = 0u32;
    for (_, line) in lines() {
        match line.strip_suffix(':') {
            Some(label) => {
                labels.insert(label, pc);
            }
            None => pc += 1,
        }
    }
    let (mut code, mut pool) = (Vec::new(), Vec::new());
    for (line, text) in lines().filter(|(_, l)| !l.ends_with(':')) {
        let fail = |what: String| Error { line, what };
        let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut words = rest.split(',').map(str::trim).filter(|w| !w.is_empty());
        let instr = Instr::build(mnemonic, &mut |kind| {
            let word = words.next().ok_or_else(|| fail("an operand is missing".to_owned()))?;
            operand(kind, word, &labels, &mut pool).ok_or_else(|| fail(format!("`{word}` is no {kind:?}")))
        })?;
        let instr = instr.ok_or_else(|| fail(format!("`{mnemonic}` is no instruction")))?;
        if let Some(word) = words.next() {
            return Err(fail(format!("`{word}` is one operand too many")));
        }
        code.push(instr);
    }
    Ok((code, pool))
}

fn numbered<N: std::str::FromStr>(word: &str, prefix: &str) -> Option<N> {
    word.strip_prefix(prefix)?.parse().ok()
}

fn operand(kind: Kind, word: &str, labels: &BTreeMap<&str, u32>, pool: &mut Vec<Reg>) -> Option<Operand> {
    Some(match kind {
        Kind::I => Operand::I(I(numbered(word, "i")?)),
        Kind::F => Operand::F(F(numbered(word, "f")?)),
        Kind::T => Operand::T(T(numbered(word, "t")?)),
        Kind::Int => Operand::Int(Int(word.parse().ok()?)),
        Kind::Float => Operand::Float(Float(match word.strip_prefix("0x") {
            Some(bits) => u64::from_str_radix(bits, 16).ok()?,
            None => word.parse::<f64>().ok()?.to_bits(),
        })),
        Kind::Label => Operand::Label(Label(*labels.get(word)?)),
        Kind::Message => Operand::Message(MessageId(numbered(word, "m")?)),
        Kind::Const => Operand::Const(ConstId(numbered(word, "c")?)),
        Kind::Kernel => Operand::Kernel(KernelId(numbered(word, "k")?)),
        Kind::Func => Operand::Func(FuncId(numbered(word, "fn")?)),
        Kind::Region => Operand::Region(RegionId(numbered(word, "r")?)),
        Kind::Axis => Operand::Axis(Axis(word.parse().ok()?)),
        Kind::List => {
            let start = u32::try_from(pool.len()).ok()?;
            for r in word.strip_prefix('[')?.strip_suffix(']')?.split_whitespace() {
                let r = numbered(r, "i")
                    .map(Reg::I)
                    .or_else(|| numbered(r, "f").map(Reg::F))
                    .or_else(|| numbered(r, "t").map(Reg::T))?;
                pool.push(r);
            }
            Operand::List(List { start, len: u16::try_from(pool.len() - start as usize).ok()? })
        }
        Kind::DType => Operand::DType(word.parse::<DType>().ok()?),
        Kind::IntUnary => Operand::IntUnary(IntUnary::named(word)?),
        Kind::IntBinary => Operand::IntBinary(IntBinary::named(word)?),
        Kind::FloatUnary => Operand::FloatUnary(FloatUnary::named(word)?),
        Kind::FloatBinary => Operand::FloatBinary(FloatBinary::named(word)?),
        Kind::Compare => Operand::Compare(Compare::named(word)?),
    })
}
