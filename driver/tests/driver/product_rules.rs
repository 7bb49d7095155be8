//! Rules that the compiler makes of a program's own loops.

use driver::admit::{self, Status};
use driver::pipeline;

const TEXT: &str = "
prim product<m, k, n>(x: f32[m, k], w: f32[k, n]) -> y: f32[m, n] {
    for i in m, j in n {
        y[i, j] = sum(l in k) x[i, l] * w[l, j]
    }
}
prim other<m, k, n>(x: f32[m, k], w: f32[k, n]) -> y: f32[m, n] {
    for i in m, j in n {
        y[i, j] = 2.0 * (sum(l in k) x[i, l] * w[l, j])
    }
}
fn main(x: f32[4, 5], w: f32[5, 6]) -> f32[4, 6] { product(x, w) + other(x, w) }
";

#[test]
fn a_wrong_one_is_told_from_what_someone_wrote() {
    let mut sources = pipeline::sources();
    let id = sources.add("products.tn", TEXT);
    let mut front =
        pipeline::front(sources, &[id]).unwrap_or_else(|(s, f)| panic!("{}", f.render(&s, false)));
    admit::every_rule(&mut front);
    let of = |name: &str| front.module.rules.iter().position(|r| r.name.name() == name).expect("it is made");
    let (product, other) = (of("product_is_product"), of("other_is_product"));
    front.module.rules[product].rhs = front.module.rules[other].rhs.clone();
    let refused = |name: &str| {
        let verdicts = admit::verdicts(&front.module);
        let found = verdicts.into_iter().find(|v| front.module.rule(v.rule).name.name() == name)?;
        let Status::Refused(_) = found.status else { return None };
        admit::refusal(&front.sources, front.module.rule(found.rule), &found.status)
    };
    let said = refused("product_is_product").expect("it is wrong");
    assert!(said.notes.iter().any(|n| n.contains("bug of tenon's")), "{said:?}");
    assert_eq!(said.help.as_deref(), Some("`--forbid product_is_product` leaves it out"));
    assert!(refused("other_is_product").is_none());
}
