//! The items of a listing that take lines of their own: entries, kernels and functions.

use tensor::abi;

use super::parts::{buffer, count, extents, from, registers, ty, types};
use super::read::Reader;
use super::token::{Result, Token};
use super::{code, steps};
use crate::program::{
    Entry, EntryDim, EntryExtent, EntryParam, EntryResult, Function, Kernel, LoadCall, Param, Work,
};

impl Reader<'_, '_> {
    pub(super) fn entry(&mut self, start: usize) -> Result {
        let name = self.c.name("the name of an entry")?;
        self.c.expect("=")?;
        let function = self.c.numbered("fn", "a function (`fn0`)")?;
        let place = start..self.c.before().end;
        let mut entry = Entry { name, function, ..Entry::default() };
        self.block(&["dim", "param", "result", "load", "step"], |c, word| {
            match word {
                "dim" => {
                    let name = c.name("the name of a dim")?;
                    c.expect("=")?;
                    entry.dims.push(EntryDim { name, steps: steps::read(c, "#")? });
                }
                "param" => {
                    let own = c.is("own") && c.ahead(1).is_none_or(|t| t.text != ":");
                    if own {
                        c.next();
                    }
                    let name = c.name("the name of a parameter")?;
                    c.expect(":")?;
                    let dtype = code::dtype(c)?;
                    let shape = extents(c, |c| {
                        let text = c.text("an extent in quotes")?;
                        c.expect("=")?;
                        Ok(EntryExtent { text, steps: steps::read(c, "#")? })
                    })?;
                    entry.params.push(EntryParam { name, dtype, shape, own, from: from(c)? });
                }
                "load" => {
                    let number = c.numbered("entry", "an entry (`entry1`)")?;
                    let args = types(c, |c| c.numbered("", "the place of a parameter"))?;
                    let kept = entry.load_split.get_or_insert_default();
                    kept.loads.push(LoadCall { entry: number, args });
                }
                "step" => {
                    let number = c.numbered("entry", "an entry (`entry1`)")?;
                    let takes = types(c, |c| c.numbered("", "the place of a parameter"))?;
                    let kept = entry.load_split.get_or_insert_default();
                    (kept.step, kept.takes) = (number, takes);
                }
                _ => {
                    let named = c.ahead(1).is_some_and(|t| t.text == ":");
                    let name = if named { Some(c.name("the name of a result")?) } else { None };
                    if named {
                        c.expect(":")?;
                    }
                    let dtype = code::dtype(c)?;
                    let shape = extents(c, |c| c.text("an extent in quotes"))?;
                    entry.results.push(EntryResult { name, dtype, shape });
                }
            }
            Ok(())
        })?;
        self.out.package.program.entries.push(entry);
        self.out.places.entries.push(place);
        Ok(())
    }

    pub(super) fn kernel(&mut self, start: usize) -> Result {
        count(self.c, "k", self.out.package.program.kernels.len())?;
        let name = self.c.name("the name of a kernel")?;
        self.c.expect("(")?;
        let ints = self.c.number("how many ints it has")?;
        self.c.expect("ints")?;
        let (mut bufs, mut shapes) = (Vec::new(), Vec::new());
        while self.c.eat(",") {
            let (buf, shape) = buffer(self.c)?;
            bufs.push(buf);
            shapes.push(shape);
        }
        self.c.expect(")")?;
        let place = start..self.c.before().end;
        let mut kernel = Kernel {
            name,
            abi: abi::Kernel {
                symbol: String::new(),
                bufs,
                ints,
                grid: Vec::new(),
                stops: Vec::new(),
                shared: Vec::new(),
                scratch: Vec::new(),
                checks: Vec::new(),
                libraries: Vec::new(),
            },
            floats: Vec::new(),
            shapes,
            places: Vec::new(),
            work: None,
        };
        let words = ["symbol", "grid", "stop", "shared", "scratch", "floats", "library", "check", "work"];
        self.block(&words, |c, word| {
            match word {
                "symbol" => kernel.abi.symbol = c.text("a symbol in quotes")?,
                "grid" => kernel.abi.grid = steps::read(c, "#")?,
                "stop" => kernel.abi.stops.push(steps::read(c, "#")?),
                "shared" => kernel.abi.shared = steps::read(c, "#")?,
                "scratch" => kernel.abi.scratch = steps::read(c, "#")?,
                "floats" => {
                    while !c.at_line_end() {
                        kernel.floats.push(c.number("the number of an int that is a float")?);
                    }
                }
                "library" => kernel.abi.libraries.push(c.text("a library in quotes")?),
                "check" => {
                    kernel.abi.checks.push(c.text("a message in quotes")?);
                    kernel.places.extend(code::source_location(c, 0)?);
                }
                _ => {
                    c.expect("flops")?;
                    let flops = steps::read(c, "#")?;
                    c.expect(",")?;
                    c.expect("bytes")?;
                    let bytes = steps::read(c, "#")?;
                    let guessed = c.eat(",");
                    if guessed {
                        c.expect("guessed")?;
                    }
                    kernel.work = Some(Work { flops, bytes, guessed });
                }
            }
            Ok(())
        })?;
        self.out.package.program.kernels.push(kernel);
        self.out.places.kernels.push(place);
        Ok(())
    }

    pub(super) fn function(&mut self, start: usize) -> Result {
        count(self.c, "fn", self.out.package.program.functions.len())?;
        let mut f = Function { name: self.c.name("the name of a function")?, ..Function::default() };
        f.params = types(self.c, |c| {
            let own = c.eat("own");
            Ok(Param { ty: ty(c)?, own })
        })?;
        if self.c.take(Token::Arrow, "`->`").is_ok() {
            f.results = types(self.c, ty)?;
        } else {
            return Err(self.c.fault("`->`"));
        }
        let place = start..self.c.before().end;
        self.c.expect("{")?;
        self.c.line_end()?;
        self.c.skip_blank();
        while self.c.is("registers") || self.c.is("region") {
            if let Err(fault) = registers(self.c, &mut f).and_then(|()| self.c.line_end()) {
                self.faults.push(fault);
                self.c.skip_line();
            }
            self.c.skip_blank();
        }
        let body = code::read(self.c, self.faults);
        self.c.expect("}")?;
        self.c.line_end()?;
        self.out.package.program.functions.push(Function {
            code: body.code,
            pool: body.pool,
            places: body.places,
            ..f
        });
        self.out.places.functions.push((place, body.spans));
        Ok(())
    }
}
