//! Variants of a rule, what else a rule that is tried as it is may stand for: other ranks of its packs, other
//! attributes.
//!
//! One rank and one choice of attributes are tried in the interpreter; a proof is to be of more than these. In goes a
//! rule with a choice that the checker takes, out come choices with each rank up to [`RANK`] and each attribute that
//! names axes of such a rank: all that differ, not those that say the same (`axis=-1` is `axis=1`).

use ir::ast::{GenericKind, Mode, Param, RuleDef, TypeKind};
use shape::{Expr as Dim, Sym};

use crate::Checker;
use crate::env::{Const, Env};
use crate::rule_matches::attributes;

/// The largest rank of a pack.
const RANK: usize = 3;
/// The most choices of a rule.
const MOST: usize = 300;

impl<'a> Checker<'a> {
    /// The choices, without the one given.
    pub(crate) fn more(&self, def: &'a RuleDef, tried: &Env) -> Vec<Env> {
        let packs: Vec<Sym> =
            def.sig.generics.iter().filter(|g| g.kind == GenericKind::Pack).map(|g| g.name.name).collect();
        let mut all = vec![tried.clone()];
        for pack in &packs {
            let ranked = |env: &Env| {
                (0..=RANK)
                    .map(|rank| {
                        let mut env = env.clone();
                        env.packs.insert(*pack, vec![Dim::int(1); rank]);
                        env
                    })
                    .collect::<Vec<_>>()
            };
            all = all.iter().flat_map(ranked).collect();
        }
        let rank = |env: &Env| {
            let ranks = def.sig.params.iter().filter(|p| p.mode != Mode::Const || !is_attribute(def, p));
            let one = |p: &Param| match p.ty.as_ref().map(|t| &t.kind) {
                Some(TypeKind::Named { dims: Some(dims), .. }) => dims.len(),
                _ => 0,
            };
            let axes = ranks.map(one).max().unwrap_or(0);
            let spread: Vec<usize> = packs.iter().filter_map(|p| env.packs.get(p)).map(Vec::len).collect();
            // A pack stands in the list of dims as one of them.
            (axes + spread.iter().max().unwrap_or(&0)).saturating_sub(usize::from(!spread.is_empty()))
        };
        for p in attributes(&def.sig) {
            let declared = match p.ty.as_ref().map(|t| &t.kind) {
                Some(TypeKind::Named { name, .. }) => name.name.name(),
                _ => "",
            };
            let mut next = Vec::new();
            for env in &all {
                for value in values(declared, rank(env).min(RANK)) {
                    let mut env = env.clone();
                    env.consts.insert(p.name.name, value);
                    next.push(env);
                }
                // What is no axis stays as it was tried.
                if values(declared, 1).is_empty() {
                    next.push(env.clone());
                }
            }
            all = next;
        }
        let same = |env: &Env| {
            let ranks = |e: &Env| packs.iter().map(|p| e.packs.get(p).map(Vec::len)).collect::<Vec<_>>();
            ranks(env) == ranks(tried) && env.consts == tried.consts
        };
        all.retain(|env| !same(env));
        all.truncate(MOST);
        all
    }
}

fn is_attribute(def: &RuleDef, p: &Param) -> bool {
    attributes(&def.sig).iter().any(|a| a.name.name == p.name.name)
}

/// The attributes of a kind that name axes of a tensor of a rank.
fn values(declared: &str, rank: usize) -> Vec<Const> {
    let axes = 0..rank as i64;
    match declared {
        "bool" => [true, false].map(Const::Bool).to_vec(),
        "int" => axes.map(Const::Int).collect(),
        "ints" => {
            let mut lists: Vec<Vec<i64>> = vec![Vec::new()];
            let mut all = Vec::new();
            for _ in 0..rank {
                let longer = |l: &Vec<i64>| {
                    let l = l.clone();
                    axes.clone()
                        .filter(|a| !l.contains(a))
                        .map(|a| [&l[..], &[a]].concat())
                        .collect::<Vec<_>>()
                };
                lists = lists.iter().flat_map(longer).collect();
                all.extend(lists.iter().cloned().map(Const::Ints));
            }
            all
        }
        _ => Vec::new(),
    }
}
