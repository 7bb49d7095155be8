//! Files and definitions.

use ir::ast::*;

use super::comments::{Printer, Style};
use super::doc::{Doc, WIDTH, docs, group, layout, nest};
use super::exprs::quoted;
use super::types::name;

/// A piece of a file: a definition or a comment between definitions.
struct Piece {
    text: String,
    is_item: bool,
    /// A person left an empty line before it.
    blank: bool,
}

impl Printer<'_> {
    /// A whole file.
    pub(super) fn file(&mut self, file: &File) -> String {
        let mut pieces: Vec<Piece> = Vec::new();
        if !file.doc.is_empty() {
            let text = file.doc.iter().map(|line| marked("//!", line) + "\n").collect();
            pieces.push(Piece { text, is_item: true, blank: false });
        }
        for item in file.items.iter().map(Some).chain([None]) {
            let start = item.map_or(u32::MAX, start);
            for comment in self.take(start) {
                match pieces.last_mut().filter(|_| !comment.own_line) {
                    Some(last) => {
                        last.text.truncate(last.text.trim_end().len());
                        last.text += &format!(" {}\n", comment.text);
                    }
                    None => pieces.push(Piece {
                        text: format!("{}\n", comment.text),
                        is_item: false,
                        blank: self.blank_before(comment.span.lo),
                    }),
                }
            }
            if let Some(item) = item {
                let blank = self.blank_before(start);
                let text = layout(&self.item(item));
                pieces.push(Piece { text, is_item: true, blank });
            }
        }
        let mut out = String::new();
        for (i, piece) in pieces.iter().enumerate() {
            if let Some(before) = i.checked_sub(1).map(|b| &pieces[b]) {
                let large = |p: &Piece| p.text.trim_end().contains('\n') || p.text.starts_with("//!");
                let apart = before.is_item && (piece.is_item || self.source.is_none());
                if piece.blank || apart && (large(before) || large(piece)) {
                    out.push('\n');
                }
            }
            out += &piece.text;
        }
        out
    }

    /// A definition with its documentation and attributes.
    pub(super) fn item(&mut self, item: &Item) -> Doc {
        let mut parts = Vec::new();
        for line in &item.doc {
            parts.extend([Doc::Text(marked("///", line)), Doc::Hard]);
        }
        parts.push(self.attrs(&item.attrs, &Doc::Hard));
        parts.push(self.item_kind(item));
        Doc::Concat(parts)
    }

    fn item_kind(&mut self, item: &Item) -> Doc {
        // The place of the last `}`.
        let end = item.span.hi.saturating_sub(1);
        match &item.kind {
            ItemKind::Use(path) => docs!["use ", dotted(path)],
            ItemKind::Const(ident, ty, value) => {
                let ty = ty.as_ref().map_or("".into(), |ty| docs![": ", self.ty(ty)]);
                docs!["const ", name(ident), ty, " =", self.value(value)]
            }
            ItemKind::Fn(def) => {
                let ret = |p: &mut Self| def.ret.as_ref().map_or("".into(), |ty| docs![" -> ", p.ty(ty)]);
                let head = self.head("fn ", &def.sig, ret);
                let before_body = self.clause("where", &def.sig.wheres);
                let body = self.block(&def.body);
                docs![head, before_body, group(body)]
            }
            ItemKind::Prim(def) => {
                let head = self.head("prim ", &def.sig, |p| p.outs(&def.outs));
                let before_body = self.clause("where", &def.sig.wheres);
                let body = self.block(&def.body);
                docs![head, before_body, group(body)]
            }
            ItemKind::Extern(def) => {
                let word = docs!["extern ", quoted(&def.library), " "];
                let head = self.head(word, &def.sig, |p| p.outs(&def.outs));
                let wheres = self.conditions("where", &def.sig.wheres);
                let at_symbol = self.line_before("=", def.symbol.span.lo);
                let args =
                    self.list(("(", ")"), &def.args, |e| (e.span.lo, e.span.hi), Style::Fill, Self::expr);
                let success: Doc = match def.success {
                    Some(value) => docs![format!(" == {value}")],
                    None => "".into(),
                };
                docs![
                    head,
                    group(wheres),
                    group(nest(docs![at_symbol, "= ", name(&def.symbol), args, success]))
                ]
            }
            ItemKind::Rule(def) => {
                let head = self.head("rule ", &def.sig, |_| "".into());
                let before_body = self.clause("when", &def.sig.wheres);
                let on_lines = self.begins_line(def.lhs.span.lo);
                let body = self.braces(
                    &[()],
                    end,
                    "",
                    on_lines,
                    |()| def.lhs.span.lo,
                    |()| false,
                    |p, ()| {
                        let arrow = if def.both_ways { "<=> " } else { "=> " };
                        let mut lhs = vec![p.expr(&def.lhs)];
                        let mut rhs = Vec::new();
                        for comment in p.take(def.rhs.span.lo) {
                            if comment.own_line {
                                rhs.extend([Doc::Hard, Doc::Text(comment.text.clone())]);
                            } else {
                                lhs.push(Doc::Suffix(comment.text.clone()));
                            }
                        }
                        rhs.extend([Doc::Line, Doc::Static(arrow), p.expr(&def.rhs)]);
                        lhs.push(nest(Doc::Concat(rhs)));
                        group(Doc::Concat(lhs))
                    },
                );
                docs![head, before_body, group(body)]
            }
            ItemKind::Schedule(def) => {
                let target = match def.target.as_slice() {
                    [] => "".into(),
                    path => docs![" for ", dotted(path)],
                };
                let on_lines = def.steps.first().is_some_and(|s| self.begins_line(s.verb.span.lo));
                let at = |s: &Directive| s.verb.span.lo;
                let steps = self.braces(&def.steps, end, ";", on_lines, at, |_| false, |_, s| directive(s));
                docs!["schedule ", name(&def.prim), target, " ", group(steps)]
            }
            ItemKind::Pipeline(def) => {
                let on_lines = def.steps.first().is_some_and(|s| self.begins_line(s.verb.span.lo));
                let at = |s: &Directive| s.verb.span.lo;
                let steps = self.braces(&def.steps, end, ";", on_lines, at, |_| false, |_, s| directive(s));
                docs!["pipeline ", name(&def.name), " ", group(steps)]
            }
            ItemKind::Encoding(def) => self.encoding(def, end),
            ItemKind::Config(fields) => {
                let at = |f: &ConfigField| match f {
                    ConfigField::Declare(names, ty, _) => names.first().map_or(ty.span.lo, |n| n.span.lo),
                    ConfigField::Define(ident, _) => ident.span.lo,
                    ConfigField::Assert(e) => e.span.lo,
                };
                let on_lines = match self.source {
                    Some(_) => fields.first().is_some_and(|f| self.begins_line(at(f))),
                    None => fields.len() > 1,
                };
                let fields = self.braces(
                    fields,
                    end,
                    ";",
                    on_lines,
                    at,
                    |_| false,
                    |p, field| match field {
                        ConfigField::Declare(names, ty, from) => {
                            let names = p.series(names, |n| n.span.lo, |_, n| name(n));
                            docs![names, ": ", p.ty(ty), p.origin(from, 1)]
                        }
                        ConfigField::Assert(e) => docs!["assert ", p.expr(e)],
                        ConfigField::Define(ident, value) => docs![name(ident), " =", p.value(value)],
                    },
                );
                docs!["config ", group(fields)]
            }
            ItemKind::Record(def) => self.record(def, end),
            ItemKind::Test(def) => {
                let body = self.block(&def.body);
                docs!["test ", quoted(&def.name), " ", group(body)]
            }
        }
    }

    /// `fn name<..>(..) -> T`. Where it does not fit on a line the parameters are the first to break.
    fn head(&mut self, word: impl Into<Doc>, sig: &Signature, result: impl FnOnce(&mut Self) -> Doc) -> Doc {
        let start = docs![word.into(), name(&sig.name), self.generics(&sig.generics)];
        let mut params = self.params(&sig.params);
        let result = result(self);
        let brace = if sig.wheres.is_empty() { 2 } else { 0 };
        let width = start.flat_width() + params.flat_width() + result.flat_width() + brace;
        if let Doc::Group(_, broken) = &mut params {
            *broken |= width > WIDTH;
        }
        docs![start, params, result]
    }

    /// ` -> y: T` or ` -> (y: T, z: U)`
    fn outs(&mut self, outs: &[Param]) -> Doc {
        match outs {
            [one] if one.default.is_none() => docs![" -> ", self.param(one)],
            _ => docs![" -> ", self.params(outs)],
        }
    }

    /// ` where a, b ` up to the brace: on the line if it fits there, else on a line of its own with
    /// the brace below it.
    fn clause(&mut self, word: &'static str, conditions: &[Expr]) -> Doc {
        match conditions {
            [] => " ".into(),
            _ => group(docs![self.conditions(word, conditions), Doc::Line]),
        }
    }

    /// ` where a, b`, not yet a group.
    fn conditions(&mut self, word: &'static str, conditions: &[Expr]) -> Doc {
        let Some(first) = conditions.first() else { return "".into() };
        let mut parts = Vec::new();
        for comment in self.take(first.span.lo) {
            parts.push(match comment.own_line {
                true => docs![Doc::Hard, comment.text.clone()],
                false => Doc::Suffix(comment.text.clone()),
            });
        }
        parts.extend([self.line_before(word, first.span.lo), Doc::Static(word), Doc::Static(" ")]);
        parts.push(self.series(conditions, |e| e.span.lo, Self::expr));
        Doc::Concat(parts)
    }

    /// The line before a word that stands before a place: one that breaks if a person broke it there.
    fn line_before(&self, word: &str, at: u32) -> Doc {
        let before =
            self.source.and_then(|s| s.get(..at as usize)).and_then(|s| s.trim_end().strip_suffix(word));
        match before.is_some_and(|b| self.begins_line(b.len() as u32)) {
            true => Doc::Hard,
            false => Doc::Line,
        }
    }

    fn encoding(&mut self, def: &EncodingDef, end: u32) -> Doc {
        // The block and its decoder are two elements of one pair of braces.
        let places = [def.block.span.lo, def.decode.0.span.lo];
        let on_lines = match self.source {
            Some(source) => {
                let before = source.get(def.name.span.hi as usize..def.block.span.lo as usize);
                before.is_some_and(|b| b.contains('\n'))
            }
            None => true,
        };
        let body = self.braces(
            &[0, 1],
            end,
            "",
            on_lines,
            |&i: &usize| places[i],
            |_| false,
            |p, &i| match i {
                0 => {
                    let size = p.expr(&def.block);
                    let fields = &def.fields;
                    let on_lines = fields.first().is_some_and(|f| p.begins_line(f.span.lo));
                    let end = p.closer_of_fields(fields, places[1]);
                    let fields = p.braces(fields, end, ",", on_lines, |f| f.span.lo, |_| false, Self::param);
                    docs!["block ", size, " ", group(fields)]
                }
                _ => {
                    let head = docs!["decode(", name(&def.decode.0), ", ", name(&def.decode.1), ") ="];
                    docs![head, p.value(&def.value)]
                }
            },
        );
        let generics = self.generics(&def.generics);
        docs!["encoding ", name(&def.name), generics, " ", group(body)]
    }

    fn record(&mut self, def: &RecordDef, end: u32) -> Doc {
        let generics = self.generics(&def.generics);
        let documented = def.fields.iter().any(|f| !f.doc.is_empty());
        let on_lines = documented
            || match self.source {
                Some(_) => def.fields.first().is_some_and(|f| self.begins_line(f.name.span.lo)),
                None => def.fields.len() > 1,
            };
        // On lines of their own, the paths stand in a column.
        let mut plain = Printer::new(self.source, &[]);
        let widths: Vec<usize> = def.fields.iter().map(|f| plain.field_head(f).flat_width()).collect();
        let column = if on_lines { widths.iter().copied().max().unwrap_or(0).min(48) } else { 0 };
        let mut next = widths.iter();
        let fields = self.braces(
            &def.fields,
            end,
            ",",
            on_lines,
            |f| f.name.span.lo,
            |_| false,
            |p, f| {
                let width = next.next().copied().unwrap_or(0);
                let mut parts = Vec::new();
                for line in &f.doc {
                    parts.extend([Doc::Text(marked("///", line)), Doc::Hard]);
                }
                parts.push(p.field_head(f));
                parts.push(p.origin(&f.from, column.saturating_sub(width) + 1));
                if let Some(kept) = &f.kept {
                    parts.extend([Doc::Static(" by "), name(&kept.by)]);
                    if let Some(e) = &kept.within {
                        parts.extend([Doc::Static(" within "), p.expr(e)]);
                    }
                }
                Doc::Concat(parts)
            },
        );
        let word = if def.state { "state " } else { "record " };
        docs![word, name(&def.name), generics, " ", group(fields)]
    }

    /// ` from "a" | verb("b") = default`, behind so many blanks.
    fn origin(&mut self, source: &Source, blanks: usize) -> Doc {
        let mut parts = Vec::new();
        for (i, e) in source.tried.iter().enumerate() {
            let before = if i == 0 {
                Doc::Text(format!("{}from ", " ".repeat(blanks)))
            } else {
                nest(docs![" |", Doc::Line])
            };
            parts.extend([before, self.expr(e)]);
        }
        if let Some(e) = &source.default {
            parts.extend([Doc::Static(" ="), self.value(e)]);
        }
        group(Doc::Concat(parts))
    }

    fn field_head(&mut self, field: &RecordField) -> Doc {
        docs![name(&field.name), ": ", self.ty(&field.ty)]
    }
}

/// Where a definition begins, attributes included.
fn start(item: &Item) -> u32 {
    item.attrs.first().map_or(item.span.lo, |a| a.name.span.lo.saturating_sub(2))
}

/// A line of documentation.
fn marked(mark: &str, line: &str) -> String {
    if line.is_empty() { mark.to_string() } else { format!("{mark} {line}") }
}

fn dotted(path: &[Ident]) -> Doc {
    let names: Vec<&str> = path.iter().map(|i| i.name.name()).collect();
    Doc::Text(names.join("."))
}

fn directive(step: &Directive) -> Doc {
    let mut parts = vec![name(&step.verb)];
    for (i, (path, number)) in step.args.iter().enumerate() {
        parts.extend([Doc::Static(if i == 0 { " " } else { ", " }), dotted(path)]);
        if let Some(number) = number {
            let blank = if path.is_empty() { "" } else { " " };
            parts.push(Doc::Text(format!("{blank}{number}")));
        }
    }
    Doc::Concat(parts)
}
