//! `tenon asm`: a listing of a compiled program back to the program.
//!
//! The text is read and verified like any program of unknown origin; its kernels are compiled from their loops, which
//! must be what the bytecode calls.

use std::ops::Range;

use codegen::{Compiler, Target};
use ir::diag::Diagnostic;
use ir::source::{SourceMap, Span};
use vm::asm::{self, Places};
use vm::tnx::Package;
use vm::verify::{self, Part};

use crate::{Failure, kernels};

/// A package from its text.
pub fn assemble(name: &str, text: &str, target: &Target) -> Result<Package, (SourceMap, Failure)> {
    let mut sources = SourceMap::default();
    let file = sources.add(name, text);
    let span = |r: &Range<usize>| Span { file, lo: r.start as u32, hi: r.end as u32 };
    let read = match asm::read(text) {
        Ok(read) => read,
        Err(faults) => {
            let list = faults.iter().map(|f| wrong(f, span(&f.span))).collect();
            return Err((sources, Failure::Diagnostics(list)));
        }
    };
    let mut package = read.package;
    let made = verify::verify(&package.program)
        .map_err(|fault| {
            let at = byte_range(&read.places, fault.part).map_or(Span::default(), |r| span(&r));
            Failure::from(Diagnostic::error("E0607", at, format!("the program is refused: {fault}")))
        })
        .and_then(|()| kernels::recompile(&package.program, &package.loops, &Compiler::new(target.clone())));
    match made {
        Ok(compiled) => {
            let compiled: Vec<_> = compiled.into_iter().map(|(code, _)| code).collect();
            package.natives = vec![kernels::native(&compiled, target)];
            Ok(package)
        }
        Err(failure) => Err((sources, failure)),
    }
}

fn wrong(fault: &asm::Error, span: Span) -> Diagnostic {
    let mut d = Diagnostic::error("E0606", span, fault.what.clone());
    let near = fault
        .unknown
        .as_ref()
        .and_then(|(name, known)| ir::diag::nearest(name, known.iter().map(String::as_str)));
    if let Some(near) = near {
        d = d.help(format!("did you mean `{near}`?"));
    } else if let Some(help) = &fault.help {
        d = d.help(help.clone());
    }
    d
}

/// Where a part stands in the text.
fn byte_range(places: &Places, part: Part) -> Option<Range<usize>> {
    let function = |f: usize| places.functions.get(f);
    match part {
        Part::Constant(i) => places.constants.get(i).cloned(),
        Part::Kernel(i) => places.kernels.get(i).cloned(),
        Part::Entry(i) => places.entries.get(i).cloned(),
        Part::Function(f) => function(f).map(|p| p.0.clone()),
        Part::Instr(f, pc) => function(f).map(|p| p.1.get(pc).unwrap_or(&p.0).clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_show_the_line_and_what_is_meant() {
        let said = |text: &str| match assemble("f.tnasm", text, &Target::host()) {
            Ok(_) => "fine".to_owned(),
            Err((sources, failure)) => failure.render(&sources, false),
        };
        let program = |line: &str| {
            format!(
                "tenon bytecode 6\nentry f = fn0 {{\n    result i64\n}}\nfunction fn0 f() -> (int) {{\n    registers ints 1, floats 0, tensors\n    {line}\n    ret [i0]\n}}\n"
            )
        };
        assert_eq!(said(&program("int.const i0, 5")), "fine");
        insta::assert_snapshot!(
            [
                said(&program("int.cosnt i0, 5")),
                said(&program("int.const f0, 5")),
                said(&program("int.const i0")),
                said(&program("jump.if i0, nowhere")),
                said(&program("int.const i3, 5")),
                said(&program("int.const i0, 5, 6\n    fuell")),
                said("fn f() {}"),
            ]
            .join("\n")
        );
    }
}
