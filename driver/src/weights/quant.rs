//! Matrices in another way than the checkpoint stores them: floats encoded by the quantizers of the library
//! (`std/quantizers.tn`), blocks decoded, floats converted.
//!
//! What runs is a program like any other, on all cores, over so many rows at once that memory stays bounded. Of an
//! encoding all fields of a tensor's blocks are made at once, a place of the arrays after the other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use half::bf16;
use ir::origin::{Origin, Term};
use ir::source::SourceMap;
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::{Context, Limits};

use super::verbs::{self, Raw};
use super::{Fault, Made, Names, Place, Weights, convert, counts, holes, wrong};
use crate::data::{self, Wanted};
use crate::progress::Watch;
use crate::{Failure, Options, engine, kernels, pipeline};

/// Elements that are taken at once, but for rows that are longer.
const AT_ONCE: usize = 1 << 22;

/// What encodes, decodes and converts, to one way of storage.
pub(crate) struct Coder {
    pub(super) to: String,
    options: Options,
    threads: Option<usize>,
    /// Programs by what they are made from, compiled when they are first needed.
    programs: RefCell<BTreeMap<String, Program>>,
}

/// A program, ready to run.
struct Program {
    context: Context,
    wanted: Vec<Wanted>,
}

/// The arguments of a program, for what it asks.
type Arguments<'a> = dyn Fn(&[Wanted]) -> Result<Vec<Tensor>, tensor::Error> + 'a;

/// A field of a tensor's blocks, as an origin says it.
struct Field {
    whole: Term,
    /// Where its bytes begin in a block.
    begin: usize,
    /// Of all the term but the tensor.
    args: Vec<ir::origin::Value>,
    extents: Vec<i64>,
}

/// Which matrices become what, and which stay as they are.
#[derive(Default)]
pub(crate) struct Storage {
    /// The element types or encodings, by path.
    pub(crate) kinds: BTreeMap<String, String>,
    /// Matrices whose rows are no whole blocks.
    pub(crate) stays: Vec<String>,
}

impl Coder {
    pub(crate) fn new(to: &str, options: &Options, threads: Option<usize>) -> Result<Coder, Failure> {
        let known = is_float(to) || import::layout(to).is_some_and(|l| l.elements > 1);
        if !known {
            return Err(Failure::data(format!("no matrix is stored as {to}")));
        }
        let options = Options { watch: Watch::default(), ..options.clone() };
        Ok(Coder { to: to.to_owned(), options, threads, programs: RefCell::default() })
    }

    /// Elements of a block; 1 of floats.
    pub(super) fn block(&self) -> i64 {
        import::layout(&self.to).map_or(1, |l| l.elements as i64)
    }

    /// What the program of a text makes of arguments.
    fn run(&self, text: &str, args: &Arguments<'_>) -> Result<Vec<Tensor>, String> {
        let mut programs = self.programs.borrow_mut();
        if !programs.contains_key(text) {
            let made = self.compiled(text).map_err(|f| f.render(&SourceMap::default(), false))?;
            programs.insert(text.to_owned(), made);
        }
        let Some(program) = programs.get_mut(text) else { return Ok(Vec::new()) };
        let args = args(&program.wanted).map_err(|e| e.to_string())?;
        let args: Vec<&Tensor> = args.iter().collect();
        program.context.run("f", &args, &Limits::default()).map_err(|e| e.to_string())
    }

    fn compiled(&self, text: &str) -> Result<Program, Failure> {
        let mut sources = pipeline::sources();
        let id = sources.add("a quantizer", text);
        let mut front = pipeline::front(sources, &[id]).map_err(|(sources, f)| {
            let text = format!("{}there is no way to {} here", f.render(&sources, false), self.to);
            Failure::data(text)
        })?;
        let entry = pipeline::entry(&mut front, Some("f"))?;
        let wanted = data::wanted(front.module.func(entry));
        let compilation = pipeline::compile(&front, &[entry], &self.options)?;
        let threads = self.threads.map_or_else(kernels::threads, |n| Ok(Pool::new(n.max(1))))?;
        Ok(Program { context: Context::new(engine::load(&compilation, threads)?), wanted })
    }

    /// Encodes floats into the fields of blocks.
    ///
    /// A field is told by where its bytes begin in a block.
    fn encode(&self, raw: &Raw<'_>, out: &mut [(usize, &mut [u8])]) -> Result<(), String> {
        let mut at = vec![0; out.len()];
        by_rows(raw, &mut |part, rows, width| {
            let mut begin = 0;
            for t in &self.quantized(part, rows, width)? {
                for ((_, to), at) in out.iter_mut().zip(&mut at).filter(|((b, _), _)| *b == begin) {
                    to[*at..*at + t.bytes().len()].copy_from_slice(t.bytes());
                    *at += t.bytes().len();
                }
                begin += field_bytes(t);
            }
            Ok(())
        })
    }

    /// The fields of the blocks of some rows of floats, in their order.
    fn quantized(&self, part: &Raw<'_>, rows: i64, width: i64) -> Result<Vec<Tensor>, String> {
        let text = format!("fn f<n, k>(x: f32[n, k]) -> {0}[n, k] {{ quantize_{0}(x) }}", self.to);
        let mut x = Tensor::zeros(DType::F32, &[rows, width]).map_err(|e| e.to_string())?;
        convert::into(part, DType::F32, x.bytes_mut())?;
        self.run(&text, &|_| Ok(vec![x.clone()]))
    }

    /// The blocks of floats, each with all its fields, as files have them.
    pub(super) fn blocks(&self, raw: &Raw<'_>) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        by_rows(raw, &mut |part, rows, width| {
            let fields = self.quantized(part, rows, width)?;
            for b in 0..(rows * width / self.block()) as usize {
                for t in &fields {
                    let size = field_bytes(t);
                    out.extend_from_slice(&t.bytes()[b * size..(b + 1) * size]);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Floats or blocks as this way of storage has them.
    pub(super) fn coded(&self, raw: &Raw<'_>) -> Result<Vec<u8>, String> {
        let Some(to) = convert::dtype(&self.to) else { return self.blocks(raw) };
        let count = raw.shape.iter().product::<i64>() as usize;
        let mut out = vec![0; count * to.size()];
        self.convert(raw, to, &mut out)?;
        Ok(out)
    }

    /// Writes a tensor's elements as another type of floats, in which they may lose digits.
    fn convert(&self, raw: &Raw<'_>, to: DType, out: &mut [u8]) -> Result<(), String> {
        let plain = convert::dtype(&raw.kind);
        if plain.is_some_and(|from| !is_float(from.name())) || (plain.is_none() && raw.layout.elements == 1) {
            return convert::into(raw, to, out);
        }
        let mut at = 0;
        by_rows(raw, &mut |part, rows, width| {
            let x = match plain {
                Some(_) => {
                    let mut x = Tensor::zeros(DType::F32, &[rows, width]).map_err(|e| e.to_string())?;
                    convert::into(part, DType::F32, x.bytes_mut())?;
                    x
                }
                None => self.decoded(part, rows, width)?,
            };
            let numbers = x.as_f32().unwrap_or(&[]);
            let bytes: Vec<u8> = match to {
                DType::Bf16 => numbers.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
                _ => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            out[at..at + bytes.len()].copy_from_slice(&bytes);
            at += bytes.len();
            Ok(())
        })
    }

    /// The elements of blocks.
    fn decoded(&self, raw: &Raw<'_>, rows: i64, width: i64) -> Result<Tensor, String> {
        let text = format!("fn f<n, k>(x: {}[n, k]) -> f32[n, k] {{ decode(x) }}", raw.kind);
        let blocks = width / raw.layout.elements as i64;
        let fields = |wanted: &[Wanted]| {
            let mut from = 0;
            let field = |w: &Wanted| {
                let own: Vec<i64> = w.ty.shape[2..].iter().filter_map(shape::Expr::as_int).collect();
                let size = own.iter().product::<i64>() as usize * w.ty.dtype.size();
                let shape: Vec<i64> = [rows, blocks].into_iter().chain(own).collect();
                let each = raw.bytes.chunks_exact(raw.layout.bytes);
                let bytes: Vec<u8> = each.flat_map(|b| b[from..from + size].iter().copied()).collect();
                from += size;
                Tensor::from_bytes(w.ty.dtype, &shape, &bytes)
            };
            wanted.iter().map(field).collect()
        };
        let made = self.run(&text, &fields)?;
        made.into_iter().next().ok_or_else(|| format!("{} is not decoded", raw.kind))
    }
}

/// The bytes that a field has of each block.
fn field_bytes(field: &Tensor) -> usize {
    field.shape()[2..].iter().product::<i64>() as usize * field.dtype().size()
}

/// What is done with some rows: they, how many, and how long each is.
type Rows<'r> = dyn FnMut(&Raw<'_>, i64, i64) -> Result<(), String> + 'r;

/// Takes a tensor as a matrix, some rows at once, and lets go of each part before the next.
fn by_rows(raw: &Raw<'_>, each: &mut Rows<'_>) -> Result<(), String> {
    let width = raw.shape.last().copied().unwrap_or(1).max(1);
    let rows = raw.shape.iter().product::<i64>() / width;
    let bytes = raw.bytes.len() / rows.max(1) as usize;
    let at_once = (AT_ONCE as i64 / width).max(1);
    let mut from = 0;
    while from < rows {
        let count = at_once.min(rows - from);
        let part = &raw.bytes[from as usize * bytes..(from + count) as usize * bytes];
        let part = Raw {
            of: raw.of,
            kind: raw.kind.clone(),
            layout: raw.layout,
            shape: vec![count, width],
            turned: false,
            bytes: part.into(),
            field: raw.field,
        };
        each(&part, count, width)?;
        raw.of.forget_part(&part.bytes);
        from += count;
    }
    Ok(())
}

pub(super) fn is_float(kind: &str) -> bool {
    matches!(kind, "f32" | "f16" | "bf16")
}

impl<'c> Weights<'c> {
    /// The same, where it is known which parts are stored in another way.
    pub(crate) fn converting(self, paths: &BTreeSet<String>) -> Weights<'c> {
        Weights { converted: RefCell::new(paths.clone()), ..self }
    }

    /// The paths of the parts that are stored in another way.
    pub(crate) fn those_converted(&self) -> BTreeSet<String> {
        self.converted.borrow().clone()
    }

    /// How parts of the record `name` are stored, where those of `any` element type become what was asked for.
    pub(crate) fn storage(
        &self,
        name: &str,
        parts: &[&Wanted],
        any: &BTreeSet<String>,
    ) -> Result<Storage, Failure> {
        let mut out = Storage { kinds: self.kinds(name, parts), stays: Vec::new() };
        let Some(coder) = &self.coder else { return Ok(out) };
        let dims = BTreeMap::new();
        let names = Names { values: self.values, dims: &dims };
        for w in parts.iter().filter(|w| any.contains(&w.name)) {
            let Ok(origin) = self.origin(name, w) else { continue };
            let Some((term, kinds)) =
                origin.tried.iter().find_map(|t| Some((t, self.stored_kinds(t, w, &names)?)))
            else {
                continue;
            };
            let is_matrix = w.ty.shape.len() >= holes(term) + 2;
            if !is_matrix || kinds.iter().all(|(k, _)| *k == coder.to) {
                continue;
            }
            let encoded = |k: &str| import::layout(k).is_some_and(|l| l.elements > 1);
            if kinds.iter().any(|(k, _)| !is_float(k) && !encoded(k)) {
                continue;
            }
            let other = kinds.iter().find(|(k, _)| encoded(k) && *k != coder.to);
            if let (Some((kind, _)), false) = (other, is_float(&coder.to)) {
                let path = self.checkpoint.path().display();
                let text = format!(
                    "{path}: {} is stored as {kind}, and is not encoded again as {}: f32 and bf16 decode it",
                    w.name, coder.to
                );
                return Err(Failure::data(text));
            }
            let width = w.extents.last().and_then(|d| names.extent(d));
            if width.is_none_or(|n| n % coder.block() != 0) {
                out.stays.push(w.name.clone());
                continue;
            }
            out.kinds.insert(w.name.clone(), coder.to.clone());
            self.converted.borrow_mut().insert(w.name.clone());
        }
        Ok(out)
    }

    /// Writes the elements of a part, if it is one that is converted; none if it is another.
    pub(super) fn converted(&self, w: &Wanted, raw: &Raw<'_>, out: &mut [u8]) -> Option<Result<(), String>> {
        let coder = self.coder.as_ref()?;
        let is = is_float(&coder.to) && self.converted.borrow().contains(&w.name);
        is.then(|| coder.convert(raw, w.ty.dtype, out))
    }

    /// The parts that are the fields of one tensor, from the first on, where the tensor is to be encoded.
    pub(super) fn group<'p>(&self, record: &str, parts: &'p [&'p Wanted]) -> &'p [&'p Wanted] {
        let of = |w: &Wanted| -> Option<Vec<String>> {
            let coder = self.coder.as_ref()?;
            let fields = self.origin(record, w).ok()?;
            let fields: Vec<String> = fields
                .tried
                .iter()
                .filter_map(|t| field(t, &coder.to))
                .map(|f| f.whole.to_string())
                .collect();
            (!fields.is_empty()).then_some(fields)
        };
        let Some(first) = parts.first().and_then(|w| of(w)) else { return &[] };
        let count = parts.iter().take_while(|w| of(w).as_ref() == Some(&first)).count();
        &parts[..count]
    }

    /// The fields of a tensor that is encoded; none where the checkpoint has it so already.
    pub(super) fn encoded(
        &self,
        record: &str,
        group: &[&Wanted],
        names: &Names<'_>,
    ) -> Made<Option<Vec<Tensor>>> {
        let Some(coder) = &self.coder else { return Ok(None) };
        let origin = |w: &&Wanted| self.origin(record, w).map_err(Fault::Wrong);
        let origins = group.iter().map(origin).collect::<Made<Vec<Origin>>>()?;
        let fields =
            |o: &Origin| -> Vec<Field> { o.tried.iter().filter_map(|t| field(t, &coder.to)).collect() };
        let fields: Vec<Vec<Field>> = origins.iter().map(fields).collect();
        for i in 0..fields.iter().map(Vec::len).min().unwrap_or(0) {
            let these: Vec<&Field> = fields.iter().map(|f| &f[i]).collect();
            let whole = &these[0].whole;
            let kind = |at: &[i64]| self.stored_as(whole, at, names);
            let counts = counts(group[0], holes(whole), names, &|at| kind(at).is_ok());
            let Ok(places) = self.those_there(whole, &counts, names) else { continue };
            if places.is_empty() {
                continue;
            }
            if places.iter().all(|at| kind(at).is_ok_and(|k| k == coder.to)) {
                return Ok(None);
            }
            return self.encoded_places(coder, group, &these, (&counts, &places), names).map(Some);
        }
        Ok(None)
    }

    fn encoded_places(
        &self,
        coder: &Coder,
        group: &[&Wanted],
        fields: &[&Field],
        (counts, places): (&[i64], &[Vec<i64>]),
        names: &Names<'_>,
    ) -> Made<Vec<Tensor>> {
        let mut out: Vec<Tensor> = Vec::new();
        let mut first: Vec<i64> = Vec::new();
        for (k, at) in places.iter().enumerate() {
            let raw = self.raw(&fields[0].whole, &mut Place { at, names })?;
            if k > 0 && raw.shape != first {
                return wrong(format!(
                    "`{}` is {}{:?}, and others are {first:?}",
                    raw.name(),
                    raw.kind,
                    raw.shape
                ));
            }
            if k == 0 {
                first.clone_from(&raw.shape);
                for (w, f) in group.iter().zip(fields) {
                    let inner = f.shape(&raw, coder.block());
                    let asked = &w.extents[counts.len()..];
                    let fits = inner.len() == asked.len()
                        && inner
                            .iter()
                            .zip(asked)
                            .all(|(n, d)| names.extent(d).is_none_or(|want| want == *n));
                    if !fits {
                        let text = format!(
                            "{}: {} is needed, and `{}` is {:?}",
                            w.name,
                            w.ty,
                            raw.name(),
                            raw.shape
                        );
                        return wrong(text);
                    }
                    let shape: Vec<i64> = counts.iter().copied().chain(inner).collect();
                    let made = Tensor::zeros(w.ty.dtype, &shape);
                    out.push(made.map_err(|e| Fault::Wrong(format!("{}: {e}", w.name)))?);
                }
            }
            let mut slices: Vec<(usize, &mut [u8])> = Vec::new();
            for (t, f) in out.iter_mut().zip(fields) {
                let each = t.bytes().len() / places.len();
                slices.push((f.begin, &mut t.bytes_mut()[each * k..each * (k + 1)]));
            }
            let size: usize = slices.iter().map(|(_, s)| s.len()).sum();
            if raw.kind == coder.to {
                for (f, (_, to)) in fields.iter().zip(&mut slices) {
                    let again = self.raw(&f.whole, &mut Place { at, names })?;
                    to.copy_from_slice(&verbs::apply("field", again, &f.args)?.gathered().bytes);
                }
            } else if let Err(why) = coder.encode(&raw, &mut slices) {
                return wrong(format!("`{}` is not encoded as {}: {why}", raw.name(), coder.to));
            }
            self.count(self.made.get().0 + size as u64);
            raw.of.forget();
        }
        Ok(out)
    }
}

impl Field {
    /// The shape of the field, of a tensor that is encoded.
    fn shape(&self, raw: &Raw<'_>, block: i64) -> Vec<i64> {
        let mut shape = raw.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last /= block;
        }
        shape.extend(&self.extents);
        shape
    }
}

/// A field of blocks of a kind, if a term is one.
fn field(term: &Term, kind: &str) -> Option<Field> {
    let Term::Call(verb, args) = term else { return None };
    let [whole, Term::Text(of), numbers @ ..] = args.as_slice() else { return None };
    let number = |t: &Term| if let Term::Int(n) = t { Some(*n) } else { None };
    let numbers: Vec<i64> = numbers.iter().filter_map(number).collect();
    let [begin, _, _, extents @ ..] = numbers.as_slice() else { return None };
    let begin = usize::try_from(*begin).ok()?;
    let mut args = vec![ir::origin::Value::Text(of.clone())];
    args.extend(numbers.iter().map(|n| ir::origin::Value::Int(*n)));
    (verb == "field" && of == kind).then(|| Field {
        whole: whole.clone(),
        begin,
        args,
        extents: extents.to_vec(),
    })
}
