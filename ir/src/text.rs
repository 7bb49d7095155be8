//! Canonical text of primitives, bindings and scalar expressions.
//!
//! In: a primitive. Out: a text that holds everything its code depends on (and no spans), so that equal
//! texts mean equal kernels: the key of the kernel cache, and what measurements are kept under.

use std::fmt::Write;

use crate::loops::{BufId, Mark, Prim, Run, Scalar, ScalarKind, Stmt};
use crate::{CArg, CType, Combine, Extern, Intrinsic, Literal};

/// The primitive as text.
pub fn prim_text(prim: &Prim) -> String {
    let mut out = String::new();
    let name = |b: &BufId| {
        let buf = prim.buf(*b);
        let dims: Vec<String> = buf.shape.iter().map(ToString::to_string).collect();
        format!("{}: {}[{}]", buf.name, buf.dtype, dims.join(", "))
    };
    let dims: Vec<&str> = prim.dims.iter().map(|d| d.name()).collect();
    let params: Vec<String> = prim.params.iter().map(name).collect();
    let outs: Vec<String> = prim.outs.iter().map(name).collect();
    let _ = writeln!(
        out,
        "{}prim {}<{}>({}) -> ({}) {{",
        if prim.invariant { "invariant " } else { "" },
        prim.name,
        dims.join(", "),
        params.join(", "),
        outs.join(", ")
    );
    block(prim, &prim.body, 1, &mut out);
    out.push_str("}\n");
    out
}

fn block(prim: &Prim, stmts: &[Stmt], depth: usize, out: &mut String) {
    let pad = "    ".repeat(depth);
    for s in stmts {
        let _ = match s {
            Stmt::For { var, lo, hi, mark, run, body } => {
                let word = if *mark == Mark::Independent { "for" } else { "serial for" };
                let v = prim.var(*var).name;
                let _ = writeln!(
                    out,
                    "{pad}{word} {}{v} in {}..{} {{",
                    run_text(run),
                    scalar_text(prim, lo),
                    scalar_text(prim, hi)
                );
                block(prim, body, depth + 1, out);
                writeln!(out, "{pad}}}")
            }
            Stmt::While(c, body) => {
                let _ = writeln!(out, "{pad}while {} {{", scalar_text(prim, c));
                block(prim, body, depth + 1, out);
                writeln!(out, "{pad}}}")
            }
            Stmt::If(c, a, b) => {
                let _ = writeln!(out, "{pad}if {} {{", scalar_text(prim, c));
                block(prim, a, depth + 1, out);
                let _ = writeln!(out, "{pad}}} else {{");
                block(prim, b, depth + 1, out);
                writeln!(out, "{pad}}}")
            }
            Stmt::Set(v, e) => {
                let var = prim.var(*v);
                writeln!(out, "{pad}{}: {} = {}", var.name, var.dtype, scalar_text(prim, e))
            }
            Stmt::Alloc(b) => {
                let buf = prim.buf(*b);
                let dims: Vec<String> = buf.shape.iter().map(ToString::to_string).collect();
                writeln!(out, "{pad}local {}: {}[{}]", buf.name, buf.dtype, dims.join(", "))
            }
            Stmt::Store { buf, index, checked, combine, value, .. } => {
                let token = combine.map_or("=", Combine::token);
                let place = place_text(prim, *buf, index, *checked);
                writeln!(out, "{pad}{place} {token} {}", scalar_text(prim, value))
            }
        };
    }
}

fn run_text(run: &Run) -> String {
    match run {
        Run::Plain => String::new(),
        Run::Lanes { lanes, vectors } => format!("#[lanes({lanes}, {vectors})] "),
        Run::Stream { lanes, vectors, from } => format!("#[stream({lanes}, {vectors}, {from})] "),
        Run::Rows(rows) => format!("#[rows{rows:?}] "),
        Run::Unrolled => "#[unroll] ".into(),
        Run::Ahead(rounds) => format!("#[ahead({rounds})] "),
        Run::Dot => "#[dot] ".into(),
    }
}

fn place_text(prim: &Prim, buf: BufId, index: &[Scalar], checked: bool) -> String {
    let mark = if checked { "?" } else { "" };
    if index.is_empty() {
        return prim.buf(buf).name.to_string();
    }
    format!("{}{mark}[{}]", prim.buf(buf).name, list(prim, index))
}

fn list(prim: &Prim, args: &[Scalar]) -> String {
    let texts: Vec<String> = args.iter().map(|a| scalar_text(prim, a)).collect();
    texts.join(", ")
}

/// An expression as text; `?` marks checked accesses.
pub fn scalar_text(prim: &Prim, s: &Scalar) -> String {
    match &s.kind {
        ScalarKind::Const(Literal::Int(i)) if s.dtype == tensor::DType::I64 => i.to_string(),
        ScalarKind::Const(Literal::Int(i)) => format!("{}({i})", s.dtype),
        // The bits tell apart what decimals may not: zeros of both signs, and NaN.
        ScalarKind::Const(Literal::Float(x)) if x.is_finite() => format!("{}({x:?})", s.dtype),
        ScalarKind::Const(Literal::Float(x)) => format!("{}({x}: {:#x})", s.dtype, x.to_bits()),
        ScalarKind::Var(v) => prim.var(*v).name.name().to_string(),
        ScalarKind::Dim(d) => d.to_string(),
        ScalarKind::Load { buf, index, checked, .. } => place_text(prim, *buf, index, *checked),
        ScalarKind::Op(op, args) => {
            use Intrinsic as I;
            let sign = [
                (I::Add, "+"),
                (I::Sub, "-"),
                (I::Mul, "*"),
                (I::Div, "/"),
                (I::Eq, "=="),
                (I::Ne, "!="),
                (I::Lt, "<"),
                (I::Le, "<="),
                (I::Gt, ">"),
                (I::Ge, ">="),
            ];
            match (sign.iter().find(|row| row.0 == *op), args.as_slice()) {
                (Some((_, sign)), [a, b]) => {
                    let side = |x: &Scalar| {
                        let text = scalar_text(prim, x);
                        if matches!(x.kind, ScalarKind::Op(o, _) if o.arity() == 2) {
                            format!("({text})")
                        } else {
                            text
                        }
                    };
                    format!("{} {sign} {}", side(a), side(b))
                }
                _ => format!("{}({})", op.name(), list(prim, args)),
            }
        }
        ScalarKind::Choose(parts) => {
            let [c, a, b] = parts.each_ref().map(|s| scalar_text(prim, s));
            format!("(if {c} {{ {a} }} else {{ {b} }})")
        }
        ScalarKind::Cast(a) => format!("{}({} as {})", s.dtype, scalar_text(prim, a), a.dtype),
        ScalarKind::Reduce { combine, run, var, lo, hi, body } => {
            let run = run_text(run);
            let (v, lo, hi) = (prim.var(*var).name, scalar_text(prim, lo), scalar_text(prim, hi));
            format!("{}({run}{v} in {lo}..{hi}) ({})", combine.name(), scalar_text(prim, body))
        }
    }
}

/// All that the code of a binding depends on, as text.
pub fn extern_text(ext: &Extern) -> String {
    let prim = ext.shell();
    let mut out = format!("extern {:?} {} {}", ext.library, ext.symbol, prim_text(&prim));
    for arg in &ext.args {
        let _ = match arg {
            CArg::Buf(b) => writeln!(out, "{}", prim.buf(*b).name),
            CArg::Number(c, s) => writeln!(out, "{}", number_text(&prim, *c, s)),
            CArg::Address(c, s) => writeln!(out, "c_ptr({})", number_text(&prim, *c, s)),
        };
    }
    for (begun, from) in &ext.begins {
        let _ = writeln!(out, "{} = {}", prim.buf(*begun).name, prim.buf(*from).name);
    }
    if let Some(success) = ext.success {
        let _ = writeln!(out, "== {success}");
    }
    out
}

/// A number of a C call: `c_int(n)`.
pub fn number_text(prim: &Prim, c: CType, s: &Scalar) -> String {
    format!("{}({})", c.name(), scalar_text(prim, s))
}

/// FNV-1a: a hash of a text that is the same in every run and on every machine.
pub fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
