//! Writing a listing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tensor::abi::{Access, Step};

use super::steps;
use super::token::quoted;
use crate::isa::{Instr, Operand, Reg};
use crate::program::{Constant, Entry, Extent, Function, Kernel, Program, SourceLocation, TensorType, Type};
use crate::tnx::{Package, VERSION};

/// A register as text: `i0`, `f1`, `t2`.
pub fn reg(r: Reg) -> String {
    match r {
        Reg::I(n) => format!("i{n}"),
        Reg::F(n) => format!("f{n}"),
        Reg::T(n) => format!("t{n}"),
    }
}

/// All that a package holds but native code.
pub fn listing(package: &Package) -> String {
    let program = &package.program;
    let mut out = format!("tenon bytecode {VERSION}\n");
    for (i, file) in program.files.iter().enumerate() {
        let _ = writeln!(out, "file {i} {file:?}");
    }
    for (i, message) in program.messages.iter().enumerate() {
        let _ = writeln!(out, "message m{i} {message:?}");
    }
    for (i, c) in program.constants.iter().enumerate() {
        constant(&mut out, i, c);
    }
    for s in &program.settings {
        let _ = write!(out, "setting {}", quoted(&s.name));
        if let Some(d) = s.dtype {
            let _ = write!(out, ": {d}");
        }
        if let Some(e) = &s.is {
            let _ = write!(out, " = {e:?}");
        }
        let _ = writeln!(out, "{}", from(s.from.as_ref()));
    }
    for e in &program.entries {
        entry(&mut out, program, e);
    }
    for (i, k) in program.kernels.iter().enumerate() {
        kernel(&mut out, i, k);
    }
    for (i, f) in program.functions.iter().enumerate() {
        header(&mut out, i, f);
        out.push_str(&function(program, f));
        out.push_str("}\n");
    }
    if !package.loops.is_empty() {
        let _ = write!(out, "\nloops\n{}", package.loops);
    }
    out
}

fn constant(out: &mut String, i: usize, c: &Constant) {
    let _ = write!(out, "const c{i} {}", c.dtype);
    if !c.shape.is_empty() {
        let _ = write!(out, "{:?}", c.shape);
    }
    out.push_str(" {");
    let pieces = c.bytes.bytes().chunks(32);
    let gap = if pieces.len() > 1 { "\n    " } else { " " };
    for piece in pieces {
        let _ = write!(out, "{gap}0x");
        piece.iter().for_each(|b| {
            let _ = write!(out, "{b:02x}");
        });
    }
    let end = if gap == " " { " }" } else { "\n}" };
    let _ = writeln!(out, "{end}");
}

fn entry(out: &mut String, program: &Program, e: &Entry) {
    let name = program.functions.get(e.function as usize).map_or("?", |f| f.name.as_str());
    let line = format!("entry {} = fn{} {{", quoted(&e.name), e.function);
    let _ = writeln!(out, "\n{line:<54}; {}", one_line(name));
    // What the numbers in the dims stand for.
    let extents: Vec<String> = e
        .params
        .iter()
        .flat_map(|p| (0..p.shape.len()).map(move |axis| format!("{}.{axis}", p.name)))
        .collect();
    for d in &e.dims {
        let line = format!("    dim {} = {}", quoted(&d.name), steps::print(&d.steps, "#"));
        let first = d.steps.iter().find_map(|s| match s {
            Step::Int(n) => extents.get(*n as usize),
            Step::Const(_) | Step::Bin(..) => None,
        });
        match first {
            Some(x) => {
                let _ = writeln!(out, "{line:<54}; of {}", one_line(x));
            }
            None => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    for p in &e.params {
        let own = if p.own { "own " } else { "" };
        let shape: Vec<String> =
            p.shape.iter().map(|x| format!("{:?} = {}", x.text, steps::print(&x.steps, "#"))).collect();
        let (name, shape, from) = (quoted(&p.name), bracketed(&shape), from(p.from.as_ref()));
        let _ = writeln!(out, "    param {own}{name}: {}{shape}{from}", p.dtype);
    }
    for r in &e.results {
        let name = r.name.as_ref().map_or(String::new(), |n| format!("{}: ", quoted(n)));
        let shape: Vec<String> = r.shape.iter().map(|x| format!("{x:?}")).collect();
        let _ = writeln!(out, "    result {name}{}{}", r.dtype, bracketed(&shape));
    }
    if let Some(kept) = &e.load_split {
        for load in &kept.loads {
            let args: Vec<String> = load.args.iter().map(u32::to_string).collect();
            let _ = writeln!(out, "    load entry{}({})", load.entry, args.join(", "));
        }
        let takes: Vec<String> = kept.takes.iter().map(u32::to_string).collect();
        let _ = writeln!(out, "    step entry{}({})", kept.step, takes.join(", "));
    }
    out.push_str("}\n");
}

fn from(name: Option<&String>) -> String {
    name.map_or(String::new(), |n| format!(" from {n:?}"))
}

/// `[a, b]`; nothing for none.
fn bracketed(all: &[String]) -> String {
    if all.is_empty() { String::new() } else { format!("[{}]", all.join(", ")) }
}

/// A remark: whatever a name holds, it ends with its line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn kernel(out: &mut String, i: usize, k: &Kernel) {
    let _ = write!(out, "\nkernel k{i} {}({} ints", quoted(&k.name), k.abi.ints);
    for (b, shape) in k.abi.bufs.iter().zip(&k.shapes) {
        let access = match b.access {
            Access::In => "in",
            Access::Out => "out",
            Access::InOut => "inout",
        };
        let shape: Vec<String> = shape.iter().map(extent).collect();
        let _ = write!(out, ", {access} {}{}", b.dtype, bracketed(&shape));
    }
    out.push_str(") {\n");
    if !k.abi.symbol.is_empty() {
        let _ = writeln!(out, "    symbol {:?}", k.abi.symbol);
    }
    let stops = k.abi.stops.iter().map(|s| ("stop", s));
    let sizes = [("shared", &k.abi.shared), ("scratch", &k.abi.scratch)];
    for (word, program) in [("grid", &k.abi.grid)].into_iter().chain(stops).chain(sizes) {
        if !program.is_empty() {
            let _ = writeln!(out, "    {word} {}", steps::print(program, "#"));
        }
    }
    if !k.floats.is_empty() {
        let floats: Vec<String> = k.floats.iter().map(u32::to_string).collect();
        let _ = writeln!(out, "    floats {}", floats.join(" "));
    }
    for library in &k.abi.libraries {
        let _ = writeln!(out, "    library {library:?}");
    }
    for (i, check) in k.abi.checks.iter().enumerate() {
        let place = k.places.get(i).map_or(String::new(), |p| format!(" {}", source_location(p)));
        let _ = writeln!(out, "    check {check:?}{place}");
    }
    if let Some(w) = &k.work {
        let guessed = if w.guessed { ", guessed" } else { "" };
        let (flops, bytes) = (steps::print(&w.flops, "#"), steps::print(&w.bytes, "#"));
        let _ = writeln!(out, "    work flops {flops}, bytes {bytes}{guessed}");
    }
    out.push_str("}\n");
}

fn source_location(p: &SourceLocation) -> String {
    format!("@{} {}:{} {}..{}", p.file, p.line, p.col, p.lo, p.hi)
}

fn extent(e: &Extent) -> String {
    match e {
        Extent::Const(c) => c.to_string(),
        Extent::Int(n) => format!("#{n}"),
        // In braces it is not taken for one of the others.
        Extent::Steps(s) if s.len() == 1 => format!("{{{}}}", steps::print(s, "#")),
        Extent::Steps(s) => steps::print(s, "#"),
    }
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

fn header(out: &mut String, i: usize, f: &Function) {
    let params: Vec<String> =
        f.params.iter().map(|p| format!("{}{}", if p.own { "own " } else { "" }, type_text(p.ty))).collect();
    let results: Vec<String> = f.results.iter().map(|&t| type_text(t)).collect();
    let tensors: String = f.tensors.iter().map(|&t| format!(" {}", tensor_type(t))).collect();
    let name = quoted(&f.name);
    let _ = writeln!(out, "\nfunction fn{i} {name}({}) -> ({}) {{", params.join(", "), results.join(", "));
    let _ = writeln!(out, "    registers ints {}, floats {}, tensors{tensors}", f.ints, f.floats);
    for (i, r) in f.regions.iter().enumerate() {
        let twin = if r.twin { ", twin" } else { "" };
        let _ = writeln!(
            out,
            "    region r{i} {} bytes, {}..{}{twin}",
            steps::print(&r.bytes, "i"),
            r.from,
            r.to
        );
    }
}

/// The code of a function: one instruction a line, labels on lines of their own, each place where it begins.
pub fn function(program: &Program, f: &Function) -> String {
    let mut labels = BTreeSet::new();
    for instr in &f.code {
        instr.operands(&mut |_, o| {
            if let Operand::Label(l) = o {
                labels.insert(l.0 as usize);
            }
        });
    }
    let mut out = String::new();
    let mut places = f.places.iter().peekable();
    for (pc, instr) in f.code.iter().enumerate() {
        if labels.contains(&pc) {
            let _ = writeln!(out, "L{pc}:");
        }
        let (mut line, remark) = instruction(program, f, instr);
        while let Some(p) = places.next_if(|p| p.pc as usize <= pc) {
            line = format!("{line:<49} {}", source_location(p));
        }
        if remark.is_empty() {
            let _ = writeln!(out, "    {line}");
        } else {
            let _ = writeln!(out, "    {line:<49} ; {remark}");
        }
    }
    // A jump past the end: the verifier refuses it, and the text still reads.
    for end in labels.range(f.code.len()..) {
        let _ = writeln!(out, "L{end}:");
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
                remark = program.kernels.get(k.0 as usize).map_or(String::new(), |k| one_line(&k.name));
                format!("k{}", k.0)
            }
            Operand::Func(n) => {
                remark = program.functions.get(n.0 as usize).map_or(String::new(), |f| one_line(&f.name));
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
