//! Library bindings: functions of other libraries behind the kernel ABI.
//!
//! In: an `extern` binding. Out: a kernel with a grid of one block that hands the library the addresses and numbers
//! that the text says. A number that does not fit its C type fails a check before anything is called.

use inkwell::IntPredicate as I;
use inkwell::module::Linkage;
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use ir::loops::{Prim, Scalar, ScalarKind};
use ir::text::number_text;
use ir::{CArg, CType, Extern};
use tensor::DType;
use tensor::abi::Kernel;

use crate::emit::Emit;
use crate::layout::Layout;
use crate::ll::{Ll, Ty, V};
use crate::{Error, Passes, object};

/// What the check of a number's range says, if there is one.
fn check_text(prim: &Prim, c: CType, s: &Scalar) -> Option<String> {
    let constant = if let ScalarKind::Const(ir::Literal::Int(i)) = &s.kind { Some(*i) } else { None };
    let fits = match (c, s.dtype) {
        (CType::Float | CType::Double | CType::Long, _) => true,
        (CType::Char | CType::Int8 | CType::UInt8 | CType::Int32, _) => true,
        (CType::Int, DType::I64) => constant.is_some_and(|i| i32::try_from(i).is_ok()),
        (CType::Int, _) => true,
        (CType::SizeT, DType::U8 | DType::Bool) => true,
        (CType::SizeT, _) => constant.is_some_and(|i| i >= 0),
    };
    (!fits).then(|| format!("{}: {} is out of range", prim.name, number_text(prim, c, s)))
}

/// How the wrapper is called.
pub(crate) fn describe(ext: &Extern, symbol: String) -> Result<Kernel, Error> {
    let prim = ext.shell();
    let mut kernel = layout(ext, &prim).kernel(&prim, symbol)?;
    kernel.libraries.push(ext.library.clone());
    Ok(kernel)
}

/// Emits the wrapper.
pub(crate) fn emit(ll: &Ll<'_>, ext: &Extern, symbol: &str) -> Result<(), Error> {
    let prim = ext.shell();
    let layout = layout(ext, &prim);
    crate::emit::emit_with(ll, &prim, &layout, symbol, |e| call(e, ext))
}

fn layout(ext: &Extern, prim: &Prim) -> Layout {
    let mut layout = Layout::new(prim, prim, Passes::default());
    // The library writes the outputs; what it leaves is its own affair.
    layout.init.clear();
    for arg in &ext.args {
        if let CArg::Number(c, s) | CArg::Address(c, s) = arg
            && let Some(message) = check_text(prim, *c, s)
            && !layout.checks.contains(&message)
        {
            layout.checks.push(message);
        }
    }
    if let Some(message) = status_text(ext) {
        layout.checks.push(message);
        layout.reports();
    }
    layout
}

/// What is said where the library answers otherwise than it does when all is well.
fn status_text(ext: &Extern) -> Option<String> {
    ext.success.map(|success| format!("{} of {} gave {{}}, not {success}", ext.symbol, ext.library))
}

fn call(e: &mut Emit<'_, '_>, ext: &Extern) -> Result<(), Error> {
    let mut args = Vec::new();
    for arg in &ext.args {
        args.push(match arg {
            CArg::Buf(b) => e.pointer(*b),
            CArg::Number(c, s) => number(e, *c, s)?,
            CArg::Address(c, s) => {
                let v = number(e, *c, s)?;
                let ll = e.ll();
                // What is handed over in a wider register is narrow in memory.
                let v = match c {
                    CType::Char | CType::Int8 | CType::UInt8 => ll.trunc(v, Ty::I8),
                    CType::Int32 | CType::Int | CType::Long | CType::SizeT => v,
                    CType::Float | CType::Double => v,
                };
                e.address_of(v)
            }
        });
    }
    // After the checks: a call that is refused writes nothing.
    for (out, from) in &ext.begins {
        e.copy_rows(*out, *from)?;
    }
    let ll = e.ll();
    let types: Vec<BasicMetadataTypeEnum<'_>> =
        args.iter().map(|a| BasicTypeEnum::into(a.get_type())).collect();
    let ty = match ext.success {
        Some(_) => ll.ctx.i32_type().fn_type(&types, false),
        None => ll.ctx.void_type().fn_type(&types, false),
    };
    let f = ll.module.add_function(&ext.symbol, ty, Some(Linkage::External));
    object::plain(ll, f, &["nounwind"]);
    let answer = ll.call(f, &args);
    if let (Some(answer), Some(success), Some(message)) = (answer, ext.success, status_text(ext)) {
        e.note(ll.sext(answer, Ty::I64));
        e.require(ll.icmp(I::NE, answer, ll.int(Ty::I32, i64::from(success))), &message)?;
    }
    Ok(())
}

/// A number as C is handed it, after the check that it fits.
fn number<'c>(e: &mut Emit<'_, 'c>, c: CType, s: &Scalar) -> Result<V<'c>, Error> {
    let v = e.number(s)?;
    if let Some(message) = check_text(e.prim(), c, s) {
        let ll = e.ll();
        let bad = match c {
            CType::Int => ll.icmp(I::NE, ll.sext(ll.trunc(v, Ty::I32), Ty::I64), v),
            CType::Char | CType::Int8 | CType::UInt8 | CType::Int32 => ll.bool(false),
            CType::Long | CType::SizeT | CType::Float | CType::Double => {
                ll.icmp(I::SLT, v, ll.int(crate::format::register(s.dtype), 0))
            }
        };
        e.require(bad, &message)?;
    }
    Ok(convert(e.ll(), c, s.dtype, v))
}

fn convert<'c>(ll: &Ll<'c>, c: CType, from: DType, v: V<'c>) -> V<'c> {
    match c {
        // A narrow integer has the whole register, extended by its sign: so C compilers expect it on x86-64, and
        // none is hurt by it elsewhere.
        CType::Char | CType::Int8 | CType::UInt8 | CType::Int32 => ll.cast(from, DType::I32, v),
        CType::Int => {
            let wide = if from.is_float() { DType::I32 } else { from };
            ll.cast(wide, DType::I32, if from.is_float() { ll.cast(from, DType::I32, v) } else { v })
        }
        CType::Long | CType::SizeT => ll.cast(from, DType::I64, v),
        CType::Float => ll.cast(from, DType::F32, v),
        CType::Double => ll.cast(from, DType::F64, v),
    }
}
