//! The text of what packing makes.
//!
//! A panel is 32 columns of a matrix. A block of it is cut into spans, these into runs, one run behind the other in
//! `span = runs * run`. Runs share bytes: a plane of 4 bits holds two runs in the halves of its bytes, one of 1 bit
//! eight. Bytes that lie side by side are four neighbours of a column, as integer products want them, or for decoded
//! products the columns of the panel.

use std::fmt::Write as _;

use ir::ast::{BinaryOp, Expr, ExprKind, IndexArg, StmtKind, UnaryOp};
use tensor::DType;

use super::Encoding;
use super::affine::{Parts, Term};

/// How a block is cut.
struct Cut {
    block: i64,
    group: i64,
    /// Elements of a row that are rounded with one scale.
    rounded: i64,
    run: i64,
    runs: i64,
    planes: Vec<Plane>,
}

/// Some bits of all numbers.
struct Plane {
    bits: i64,
    /// The first of them.
    first: i64,
}

impl Plane {
    /// How many runs share a byte.
    fn sharing(&self) -> i64 {
        8 / self.bits
    }
}

impl Cut {
    fn new(block: i64, group: i64, bits: u32) -> Option<Cut> {
        let mut planes = Vec::new();
        if bits == 8 {
            planes.push(Plane { bits: 8, first: 0 });
        } else {
            let mut first = 0;
            for bits in [4, 2, 1].into_iter().filter(|b| i64::from(bits) & b != 0) {
                planes.push(Plane { bits, first });
                first += bits;
            }
        }
        let rounded = [32, 16, 8, 4].into_iter().find(|n| block % n == 0)?;
        let sharing = planes.iter().map(Plane::sharing).max()?;
        let sizes = [32, 16, 8, 4].into_iter().filter(|r| *r <= group);
        let mut cuts = sizes.flat_map(|run| [1, 2, 4, 8].map(|more| (run, more * sharing)));
        let fits = |(run, runs): &(i64, i64)| run * runs % rounded == 0 && block % (run * runs) == 0;
        let (run, runs) = cuts.find(fits)?;
        Some(Cut { block, group, rounded, run, runs, planes })
    }

    fn span(&self) -> i64 {
        self.run * self.runs
    }

    fn spans(&self) -> i64 {
        self.block / self.span()
    }

    /// So many for each span, which `s` counts where there are several.
    fn spanning(&self, by: i64) -> (i64, &'static str) {
        (if self.spans() == 1 { 0 } else { by }, "s")
    }
}

/// What is made of weights by itself: a definition.
struct Laid {
    name: String,
    dtype: DType,
    /// The axes behind those of panels and blocks.
    axes: String,
    /// The loops over those.
    loops: String,
    index: String,
    value: String,
}

struct Writer<'a> {
    encoding: &'a Encoding<'a>,
    parts: &'a Parts<'a>,
    cut: Cut,
    /// What scales and offsets are made of.
    shared: Vec<Laid>,
}

pub(super) fn written(encoding: &Encoding<'_>, parts: &Parts<'_>) -> Option<String> {
    let cut = Cut::new(encoding.block, parts.group, parts.bits)?;
    let mut w = Writer { encoding, parts, cut, shared: Vec::new() };
    let mut out = String::new();
    let integers = w.integers()?;
    let decoded = w.decoded()?;
    let (quads, rows) = (w.planes(true)?, w.planes(false)?);
    let [integer_parts, decoded_parts] =
        [&quads, &rows].map(|planes| w.shared.iter().chain(planes).collect::<Vec<_>>());
    // Rules of what products take come behind those that make the products.
    w.product(&integers, true, &integer_parts, &mut out);
    w.product(&decoded, false, &decoded_parts, &mut out);
    for laid in w.shared.iter().chain(&quads).chain(&rows) {
        w.definition(laid, &mut out);
    }
    Some(out)
}

impl Writer<'_> {
    fn name(&self) -> &'static str {
        self.encoding.name.name()
    }

    /// The sum over a block in integers, for a row and a column.
    fn integers(&mut self) -> Option<String> {
        let Cut { block, group, rounded, run, .. } = self.cut;
        let (span, runs) = (self.cut.span(), self.cut.runs);
        let mut blocks = Vec::new();
        for a in 0..span / rounded {
            let row = linear(&[(block / rounded, "b"), self.cut.spanning(span / rounded)], a);
            let mut groups = Vec::new();
            for g in a * rounded / group..(a + 1) * rounded / group {
                let here = linear(&[self.cut.spanning(span / group)], g);
                let z = format!(
                    "z[{}, ..i]",
                    linear(&[(block / group, "b"), self.cut.spanning(span / group)], g)
                );
                let mut dots = Vec::new();
                for u in (0..runs).filter(|u| u * run / group == g) {
                    let number = self.number(u, "q", true);
                    let first = u * run % rounded;
                    dots.push(match run {
                        4 => format!(
                            "(sum(t in 4) i32(x[{row}, ..i, {}]) * i32({number}))",
                            linear(&[(1, "t")], first)
                        ),
                        _ => format!(
                            "(sum(q in {}, t in 4) i32(x[{row}, ..i, {}]) * i32({number}))",
                            run / 4,
                            linear(&[(4, "q"), (1, "t")], first)
                        ),
                    });
                }
                let mut sum = dots.join(" + ");
                if self.parts.plus != 0 {
                    write!(sum, " - {} * {z}", self.parts.plus).ok()?;
                }
                groups.push(self.scaled(&format!("f32({sum})"), &format!("f32({z})"), &here)?);
            }
            blocks.push(format!("scale[{row}, ..i] * ({})", groups.join(" + ")));
        }
        Some(blocks.join(" + "))
    }

    /// The sum over a block of what it decodes to.
    fn decoded(&mut self) -> Option<String> {
        let Cut { block, group, run, runs, .. } = self.cut;
        let span = self.cut.span();
        let mut groups = Vec::new();
        for g in 0..span / group {
            let here = linear(&[self.cut.spanning(span / group)], g);
            let z =
                format!("z[{}, ..i]", linear(&[(block / group, "b"), self.cut.spanning(span / group)], g));
            let mut sums = Vec::new();
            for u in (0..runs).filter(|u| u * run / group == g) {
                let number = self.number(u, "l", false);
                let x = linear(&[(block, "b"), self.cut.spanning(span), (1, "l")], run * u);
                let less =
                    if self.parts.plus == 0 { String::new() } else { format!(" - {}", self.parts.plus) };
                sums.push(format!("(sum(l in {run}) x[..i, {x}] * f32(i32({number}){less}))"));
            }
            groups.push(self.scaled(&format!("({})", sums.join(" + ")), &z, &here)?);
        }
        Some(groups.join(" + "))
    }

    /// `scale * sum + offset * z`, of a group.
    fn scaled(&mut self, sum: &str, z: &str, group: &str) -> Option<String> {
        let parts = self.parts;
        let scale = self.factors(&parts.scale, group)?;
        let mut out = format!("{}{scale}{sum}", if parts.negative { "-" } else { "" });
        for Term { factors, negative } in &parts.offset {
            let sign = if *negative { "-" } else { "+" };
            write!(out, " {sign} {}{z}", self.factors(factors, group)?).ok()?;
        }
        Some(out)
    }

    /// Factors as what is laid out of them, each with a sign of multiplication behind it.
    fn factors(&mut self, factors: &[&Expr], group: &str) -> Option<String> {
        let each = factors.iter().map(|e| Some(format!("{} * ", self.factor(e, group)?)));
        each.collect::<Option<Vec<_>>>().map(|all| all.concat())
    }

    fn factor(&mut self, e: &Expr, group: &str) -> Option<String> {
        if let Some(text) = self.arithmetic(e, group) {
            return Some(text);
        }
        // What is more work than that is done once.
        self.laid(e, DType::F32, group)
    }

    /// Products and sums of what is converted; none for what has more in it.
    fn arithmetic(&mut self, e: &Expr, group: &str) -> Option<String> {
        match &e.kind {
            ExprKind::Paren(e) => self.arithmetic(e, group),
            ExprKind::Float(_, text) => Some(text.clone()),
            ExprKind::Unary(UnaryOp::Neg, e) => Some(format!("(-{})", self.arithmetic(e, group)?)),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => Some(format!(
                "({} {} {})",
                self.arithmetic(a, group)?,
                op.token(),
                self.arithmetic(b, group)?
            )),
            ExprKind::Field(..) if self.dtype(e) == Some(DType::F32) => self.laid(e, DType::F32, group),
            ExprKind::Call(f, args) if matches!(f.kind, ExprKind::Name(n) if n.name() == "f32") => {
                let [arg] = &args[..] else { return None };
                let dtype = self.dtype(&arg.value)?;
                let dtype = if dtype.is_int() { self.narrowest(&arg.value)? } else { dtype };
                let plain = dtype.is_int() || matches!(arg.value.kind, ExprKind::Field(..));
                Some(format!("f32({})", plain.then(|| self.laid(&arg.value, dtype, group))??))
            }
            _ => None,
        }
    }

    fn dtype(&self, e: &Expr) -> Option<DType> {
        self.encoding.dtype(&self.encoding.at(e, 0)?)
    }

    /// The narrowest type that holds an integer.
    fn narrowest(&self, e: &Expr) -> Option<DType> {
        let ranges = (0..self.encoding.block).map(|i| self.encoding.range(&self.encoding.at(e, i)?));
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        let (least, most) = (ranges.iter().map(|r| r.0).min()?, ranges.iter().map(|r| r.1).max()?);
        Some(match (least, most) {
            (0.., ..=255) => DType::U8,
            (-128.., ..=127) => DType::I8,
            _ => DType::I32,
        })
    }

    /// An access to what is laid out of an expression that a group shares.
    fn laid(&mut self, e: &Expr, dtype: DType, group: &str) -> Option<String> {
        let whole = (1..self.encoding.block).all(|i| self.encoding.at(e, i) == self.encoding.at(e, 0));
        let written = self.written(e, &format!("{} * g", self.cut.group))?;
        let value = format!("{dtype}({written})");
        let (axes, loops, index) = match whole {
            true => (String::new(), String::new(), String::new()),
            false => {
                let groups = self.cut.block / self.cut.group;
                (format!("{groups}, "), format!("g in {groups}, "), "g, ".to_owned())
            }
        };
        let known = self.shared.iter().find(|l| l.value == value);
        let name = match known {
            Some(l) => l.name.clone(),
            None => {
                let name = match &e.kind {
                    ExprKind::Field(_, f) => format!("{}_{}", self.name(), f.name),
                    _ => format!("{}_part{}", self.name(), self.shared.len()),
                };
                let (loops, axes) = (format!("{loops}j in 32"), format!("{axes}32"));
                self.shared.push(Laid {
                    name: name.clone(),
                    dtype,
                    axes,
                    loops,
                    index: format!("{index}j"),
                    value,
                });
                name
            }
        };
        let group = if whole { String::new() } else { format!("{group}, ") };
        Some(format!("{name}[c, b, {group}j]"))
    }

    /// The number of run `u`, put together from its planes.
    fn number(&self, u: i64, place: &str, quads: bool) -> String {
        let runs = self.cut.runs;
        let mut out = String::new();
        for p in &self.cut.planes {
            let (sharing, size) = (p.sharing(), if quads { self.cut.run / 4 } else { self.cut.run });
            let place = if size == 1 { (0, place) } else { (1, place) };
            let at = linear(&[self.cut.spanning(runs / sharing * size), place], u / sharing * size);
            let (name, part) = if quads { ("plane", ", t") } else { ("rows", "") };
            let byte = format!("{}_{name}{}[c, b, {at}, j{part}]", self.name(), p.bits);
            let bits = self.bits(p, u, byte);
            out = if out.is_empty() { bits } else { format!("bit_or({out}, {bits})") };
        }
        out
    }

    /// Those of a byte that are of run `u`, where the number has them.
    fn bits(&self, p: &Plane, u: i64, byte: String) -> String {
        let (has, wants) = (p.bits * (u % p.sharing()), p.first);
        let shifted = match has - wants {
            0 => byte,
            by @ 1.. => format!("shr({byte}, {by})"),
            by => format!("shl({byte}, {})", -by),
        };
        let mask = ((1 << p.bits) - 1) << wants;
        // What a shift has left needs no mask.
        if p.bits == 8 || wants == 0 && has + p.bits == 8 {
            shifted
        } else {
            format!("bit_and({shifted}, {mask})")
        }
    }

    /// The planes, with bytes side by side or columns.
    fn planes(&self, quads: bool) -> Option<Vec<Laid>> {
        let Cut { block, run, runs, .. } = self.cut;
        let one = |p: &Plane| {
            let sharing = p.sharing();
            let (size, inner) = if quads { (run / 4, "4 * q + t") } else { (run, "q") };
            // Byte `m` of a span holds runs `sharing * m` and those behind, one above the other.
            let runs_before = [(self.cut.span(), "e"), (run * sharing, "m"), (run, "h")];
            let number =
                self.written(self.parts.number, &format!("{} + {inner}", linear(&runs_before, 0)))?;
            let digits = match self.parts.plus {
                0 => format!("i32({number})"),
                plus => format!("i32({number}) + {plus}"),
            };
            let value = format!(
                "u8(sum(h in {sharing}) shl(bit_and(shr({digits}, {}), {}), {} * i32(h)))",
                p.first,
                (1 << p.bits) - 1,
                p.bits
            );
            let bytes = block * p.bits / 8;
            let place = linear(&[(runs / sharing * size, "e"), (size, "m"), (1, "q")], 0);
            let loops = format!("e in {}, m in {}, q in {size}", self.cut.spans(), runs / sharing);
            Some(match quads {
                true => Laid {
                    name: format!("{}_plane{}", self.name(), p.bits),
                    dtype: DType::U8,
                    axes: format!("{}, 32, 4", bytes / 4),
                    loops: format!("{loops}, j in 32, t in 4"),
                    index: format!("{place}, j, t"),
                    value,
                },
                false => Laid {
                    name: format!("{}_rows{}", self.name(), p.bits),
                    dtype: DType::U8,
                    axes: format!("{bytes}, 32"),
                    loops: format!("{loops}, j in 32"),
                    index: format!("{place}, j"),
                    value,
                },
            })
        };
        self.cut.planes.iter().map(one).collect()
    }

    /// An expression of `decode` at a place of a block of `w`.
    fn written(&self, e: &Expr, place: &str) -> Option<String> {
        let decode = &self.encoding.def.decode;
        let all = |es: &[&Expr]| es.iter().map(|e| self.written(e, place)).collect::<Option<Vec<_>>>();
        Some(match &e.kind {
            ExprKind::Int(n) => n.to_string(),
            ExprKind::Float(_, text) => text.clone(),
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Name(n) if *n == decode.1.name => format!("({place})"),
            ExprKind::Paren(e) => format!("({})", self.written(e, place)?),
            ExprKind::Field(base, f) if matches!(base.kind, ExprKind::Name(n) if n == decode.0.name) => {
                format!("w.block[..i, 32 * c + j, b].{}", f.name)
            }
            ExprKind::Index(base, args) => {
                let index =
                    |a: &IndexArg| if let IndexArg::Expr(e) = a { self.written(e, place) } else { None };
                let index = args.iter().map(index).collect::<Option<Vec<_>>>()?;
                format!("{}[{}]", self.written(base, place)?, index.join(", "))
            }
            ExprKind::Call(f, args) => {
                let ExprKind::Name(name) = f.kind else { return None };
                let args: Vec<&Expr> = args.iter().map(|a| &a.value).collect();
                format!("{name}({})", all(&args)?.join(", "))
            }
            ExprKind::Unary(UnaryOp::Neg, e) => format!("(-{})", self.written(e, place)?),
            ExprKind::Binary(op, a, b) => {
                format!("({} {} {})", self.written(a, place)?, op.token(), self.written(b, place)?)
            }
            ExprKind::If(cond, yes, Some(no)) => {
                let arm = |block: &ir::ast::Block| match &block.stmts[..] {
                    [ir::ast::Stmt { kind: StmtKind::Expr(e), .. }] => self.written(e, place),
                    _ => None,
                };
                format!("(if {} {{ {} }} else {{ {} }})", self.written(cond, place)?, arm(yes)?, arm(no)?)
            }
            _ => return None,
        })
    }

    /// A primitive that lays something out, and the rule that does so for all layers at once.
    fn definition(&self, laid: &Laid, out: &mut String) {
        let Laid { name, dtype, axes, loops, index, value } = laid;
        let (encoding, block) = (self.name(), self.cut.block);
        let _ = write!(
            out,
            "prim {name}<..s, n, k>(w: {encoding}[..s, n, k]) -> p: {dtype}[..s, n / 32, k / {block}, {axes}]
where n % 32 == 0
{{
    for ..i in ..s, c in n / 32, b in k / {block}, {loops} {{ p[..i, c, b, {index}] = {value} }}
}}

rule {name}_of_layer<l, ..s, b, n, at>(const w: {encoding}[l, ..s, n, {block} * b]) {{
    {name}(w[at]) => {name}(w)[at]
}}

",
        );
    }

    /// A product, and the rule that makes one.
    fn product(&self, sum: &str, integers: bool, laid: &[&Laid], out: &mut String) {
        let Cut { block, group, rounded, .. } = self.cut;
        let encoding = self.name();
        let spans = self.cut.spans();
        let over = if spans == 1 { "b in k".to_owned() } else { format!("b in k, s in {spans}") };
        let with_sums = integers || !self.parts.offset.is_empty();
        let mut params = match integers {
            true => vec![
                format!("x: i8[{} * k, ..s, {rounded}]", block / rounded),
                format!("scale: f32[{} * k, ..s]", block / rounded),
            ],
            false => vec![format!("x: f32[..s, {block} * k]")],
        };
        if with_sums {
            params.push(format!("z: {}[{} * k, ..s]", if integers { "i32" } else { "f32" }, block / group));
        }
        params.extend(laid.iter().map(|l| format!("{}: {}[n, k, {}]", l.name, l.dtype, l.axes)));
        let how = if integers { "integers" } else { "decoded" };
        let made: Vec<String> = laid.iter().map(|l| format!("{}(w)", l.name)).collect();
        let made = made.join(", ");
        let right = match (integers, with_sums) {
            (true, _) => format!(
                "{{
            let (q, d, z) = quantized_rows(x, {rounded}, {group})
            matmul_{encoding}_integers(q, d, z, {made})
        }}"
            ),
            (false, true) => format!("matmul_{encoding}_decoded(x, group_sums(x, {group}), {made})"),
            (false, false) => format!("matmul_{encoding}_decoded(x, {made})"),
        };
        let tolerance = if integers { "#[tolerance(0.02)]\n" } else { "" };
        let _ = write!(
            out,
            "prim matmul_{encoding}_{how}<..s, n, k>({}) -> y: f32[..s, 32 * n] {{
    for c in n, ..i in ..s, j in 32 {{ y[..i, 32 * c + j] = sum({over}) ({sum}) }}
}}

{tolerance}rule {how}_of_{encoding}<..s, b, n>(x: f32[..s, {block} * b], const w: {encoding}[n, {block} * b])
when n % 32 == 0
{{
    x @ w.T => {right}
}}

",
            params.join(", ")
        );
        if integers {
            let _ = write!(
                out,
                "#[tolerance(0.0002)]
rule fine_integers_of_{encoding}<t, b, n>(x: f32[t, {block} * b], const w: {encoding}[n, {block} * b])
when n % 32 == 0
{{
    x @ w.T => {{
        let (q, d, z) = quantized_rows_and_rest(x, {rounded}, {group})
        both_halves(matmul_{encoding}_integers(q, d, z, {made}))
    }}
}}

"
            );
        }
    }
}

/// `4 * b + 2 * s + 1`
fn linear(terms: &[(i64, &str)], more: i64) -> String {
    let mut out: Vec<String> = Vec::new();
    for (by, name) in terms.iter().filter(|t| t.0 != 0) {
        out.push(if *by == 1 { (*name).to_owned() } else { format!("{by} * {name}") });
    }
    if more != 0 || out.is_empty() {
        out.push(more.to_string());
    }
    out.join(" + ")
}
