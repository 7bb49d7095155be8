//! Both sides of an instance of a rule, run in double at cases and compared ([`super::judge`]). Where the left side
//! computes with integers alone, nothing is rounded in it and the right side must not lose anything either: both are
//! run as they are.

use std::collections::BTreeMap;

use interp::Interp;
use ir::graph::{Func, Op, Param, Type};
use ir::loops::Scalar;
use ir::{Module, Rule, RuleId};

use shape::{Expr, Sym};
use tensor::{DType, Tensor};

use super::judge::{Case, Moved, Said, Tolerated};
use super::native::Native;
use super::numbers::Numbers;
use super::values::{self, Values};
use super::{Counter, Trial, dims};
use crate::compare::literal_rounding;
use crate::compare::magnitudes;
use crate::compare::widen;

/// What the cases said.
#[derive(Default)]
pub(super) struct Tried {
    /// How many agreed, up to the first that did not, without those of empty tensors.
    pub(super) agreed: usize,
    /// Whether one of empty tensors did.
    pub(super) empty: bool,
    pub(super) against: Option<Counter>,
    /// One that differs where neither side has a value.
    pub(super) pole: Option<Counter>,
    /// One that differs in what is not finite alone.
    pub(super) beyond: Option<Counter>,
    /// The largest part that was lost in those that agreed.
    pub(super) lost: f64,
    /// Cases that took too long: after [`LONG`] of them no more are tried.
    pub(super) long: usize,
}

/// Cases that take too long, before a rule is given up.
pub(super) const LONG: usize = 2;

impl Tried {
    /// Whether more cases are worth a try.
    pub(super) fn goes_on(&self) -> bool {
        self.against.is_none() && self.long < LONG
    }
}

/// Dims, and how often and of what the arguments' values were drawn.
pub(super) type At = (BTreeMap<Sym, i64>, u64, Values);

/// An instance, with what runs its sides.
pub(super) struct Sides<'a> {
    /// What its sides belong to: the module in double, or as it is.
    module: &'a Module,
    rule: &'a Rule,
    pub(super) numbers: Numbers,
    pub(super) untold: Vec<Sym>,
    /// What runs the right side, where that is not the interpreter.
    pub(super) native: Option<Native>,
    lhs: Func,
    rhs: Func,
    /// The left side in sizes.
    size: Func,
    interp: Interp<'a>,
    measure: Interp<'a>,
}

impl<'a> Sides<'a> {
    /// Of an instance, each run of which takes so many steps at most.
    pub(super) fn new(trial: &'a Trial<'a>, id: RuleId, steps: u64) -> Sides<'a> {
        let rule = trial.module.rule(id);
        let module = if of_integers(trial.module, &rule.lhs) { trial.module } else { trial.doubles };
        let run = module.rule(id);
        let limits = interp::Limits { steps: Some(steps), ..interp::Limits::default() };
        // What the conditions exclude is tried too: a side must not refuse it by itself.
        let untold = untold(rule);
        Sides {
            module,
            rule,
            numbers: Numbers::new(trial.module, rule),
            lhs: telling(&run.lhs, &untold),
            rhs: telling(&run.rhs, &untold),
            size: telling(&trial.sizes.rule(id).lhs, &untold),
            untold,
            native: None,
            interp: Interp::with_limits(module, limits.clone()),
            measure: Interp::with_limits(trial.sizes, limits),
        }
    }

    /// The kinds of values that it is tried at.
    pub(super) fn kinds(&self) -> Vec<Values> {
        values::kinds(&self.argument_types(), &self.numbers, self.rule.tolerance.is_some())
    }

    /// Those where a dim is long.
    pub(super) fn long_kinds(&self, dims: &BTreeMap<Sym, i64>) -> Vec<Values> {
        let row = dims.values().any(|n| *n == dims::ROW);
        values::long(&self.argument_types(), &self.numbers, self.rule.tolerance.is_some(), row)
    }

    /// The one where one is enough.
    pub(super) fn plain(&self) -> Values {
        self.kinds().into_iter().rfind(|k| Values::PLAIN.contains(k)).unwrap_or(Values::Small)
    }

    /// Whether it is over bytes.
    pub(super) fn has_bytes(&self) -> bool {
        self.argument_types().iter().any(|d| d.is_int() && d.size() == 1)
    }

    fn argument_types(&self) -> Vec<DType> {
        self.rule.lhs.body.params.iter().map(|v| self.rule.lhs.ty(*v).dtype).collect()
    }

    /// Runs cases up to the first that speaks against the rule, or until so many steps were taken.
    pub(super) fn compare(&self, cases: Vec<At>, steps: u64, found: &mut Tried) {
        let end = self.interp.steps() + steps;
        for at in cases {
            if !found.goes_on() || self.interp.steps() >= end {
                break;
            }
            // What cannot be run says nothing.
            let _ = self.case(at, found);
        }
    }

    fn case(&self, (dims, round, kind): At, found: &mut Tried) -> Option<()> {
        let rule = self.rule;
        let args = values::arguments(&rule.lhs, &dims, kind, round, &self.numbers)?;
        let wide: Vec<Tensor> = args.iter().map(|a| widen::tensor(&a.1)).collect::<Option<_>>()?;
        let told = self.untold.iter().map(|s| Tensor::zeros(DType::F64, &[dims[s]]).ok());
        let told: Vec<Tensor> = told.collect::<Option<_>>()?;
        let run = |side: &Func, mut args: Vec<Tensor>| {
            args.extend(told.iter().cloned());
            self.interp.run_func(side, args)
        };
        let again = |left: bool, moved| {
            if !left && self.native.is_some() {
                return None;
            }
            let (own, double) = if left { (&rule.lhs, &self.lhs) } else { (&rule.rhs, &self.rhs) };
            match moved {
                Moved::Args(args) => run(double, args).ok(),
                Moved::Literals(seed) => {
                    run(&literal_rounding::of_side(&self.module.prims, own, double, seed)?, wide.clone()).ok()
                }
            }
        };
        let want = match run(&self.lhs, wide.clone()) {
            Ok(want) => want,
            Err(e) => {
                found.long += usize::from(matches!(e, interp::Error::Steps(_)));
                return None;
            }
        };
        let far = matches!(kind, Values::About(_));
        let elements = args.iter().map(|a| a.1.len()).sum();
        let rounded = self.native.as_ref().map(|n| n.part(elements));
        let tolerated = match rounded.map(|part| part + rule.tolerance.unwrap_or(0.0)).or(rule.tolerance) {
            None => None,
            Some(part) => {
                let args = wide.iter().map(magnitudes::tensor).chain(told.iter().cloned());
                let sizes = self.measure.run_func(&self.size, args.collect()).ok()?;
                Some(Tolerated { part, sizes, said: rule.tolerance.is_some() })
            }
        };
        let types: Vec<DType> = rule.lhs.result_types.iter().map(|t| t.dtype).collect();
        let case = Case {
            args: &args,
            types: &types,
            far,
            moves: far || matches!(kind, Values::Special(_)),
            beside: if far { self.numbers.beside.min(1.0) } else { 1.0 },
            tolerated,
        };
        let got = match &self.native {
            Some(native) => {
                let given: Vec<&Tensor> = args.iter().map(|a| &a.1).chain(&told).collect();
                match native.run(&given)? {
                    Ok(got) => Ok(got.iter().map(widen::tensor).collect::<Option<Vec<_>>>()?),
                    Err(e) => Err(fails(&e)),
                }
            }
            None => match run(&self.rhs, wide.clone()) {
                Ok(got) => Ok(got),
                // Too long is not wrong.
                Err(interp::Error::Steps(_)) => {
                    found.long += 1;
                    return None;
                }
                // The checker proved something by a condition that does not hold here.
                Err(interp::Error::Internal { .. }) => {
                    Err("the right side reads what does not exist".to_owned())
                }
                Err(e) => Err(fails(&e)),
            },
        };
        let said = match got {
            Ok(got) => {
                let said = case.judge(&want, &got, &again);
                if let (Said::Agreed, Some(tolerated)) = (&said, &case.tolerated) {
                    found.lost = found.lost.max(tolerated.lost(&want, &got));
                }
                said
            }
            Err(text) => Said::Against(text),
        };
        match said {
            Said::Agreed if dims::says(rule, &|s| dims.get(&s).copied()) => found.agreed += 1,
            Said::Agreed => found.empty = true,
            Said::Pole(text) => {
                found.pole.get_or_insert(Counter { dims, args, text });
            }
            Said::Beyond(text) => {
                found.beyond.get_or_insert(Counter { dims, args, text });
            }
            Said::Against(text) => found.against = Some(Counter { dims, args, text }),
        }
        Some(())
    }
}

/// Whether a side computes with integers alone.
fn of_integers(module: &Module, side: &Func) -> bool {
    let called = module.reached(side.body.calls());
    let mut whole = true;
    for func in called.iter().map(|id| module.func(*id)).chain([side]) {
        whole &= func.vals.iter().all(|v| !v.ty.dtype.is_float());
        func.body.walk(&mut |n| {
            if let Op::Prim(id, _) = n.op {
                let mut look = |e: &Scalar| whole &= !e.dtype.is_float();
                let body = module.prim(id).body.iter();
                body.for_each(|s| s.walk(&mut |s| s.scalars().into_iter().for_each(|e| e.walk(&mut look))));
            }
        });
    }
    whole
}

fn fails(e: &dyn std::fmt::Display) -> String {
    format!("the left side gives a result, the right side fails: {e}")
}

/// The dims of a rule that no argument has, such as the bounds of a slice.
pub(super) fn untold(rule: &Rule) -> Vec<Sym> {
    let types = rule.lhs.body.params.iter().map(|v| rule.lhs.ty(*v));
    let told: Vec<Sym> = types.flat_map(|ty| &ty.shape).flat_map(|e| e.syms()).collect();
    rule.lhs.dims.iter().copied().filter(|d| !told.contains(d)).collect()
}

/// A side that asks for nothing, to which each untold dim is told by an argument of that extent.
pub(super) fn telling(side: &Func, untold: &[Sym]) -> Func {
    let mut side = Func { requires: Vec::new(), ..side.clone() };
    for &dim in untold {
        let val = side.add_val(dim, Type { dtype: DType::F64, shape: vec![Expr::sym(dim)] });
        side.body.params.push(val);
        side.params.push(Param { name: dim, own: false, from: None });
    }
    side
}
