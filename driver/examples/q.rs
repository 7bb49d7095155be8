fn main() {
    for p in std::env::args().skip(1) {
        let (s, c) = driver::quick(&p);
        println!("{}", ir::diag::render(&c.diagnostics, &s, false));
        for f in &c.module.funcs {
            println!("fn {} dims {:?}", f.name, f.dims);
            for n in &f.body.nodes {
                println!(
                    "  {:?} = {} {:?}",
                    n.results,
                    match &n.op {
                        ir::graph::Op::Prim(p, d) => format!("{} {d:?}", c.module.prim(*p).name),
                        o => format!("{o:?}").chars().take(150).collect(),
                    },
                    n.args
                );
            }
        }
        for p in &c.module.prims {
            println!(
                "{}: {:?}",
                p.name,
                p.body
                    .iter()
                    .map(|s| {
                        let mut v = vec![];
                        s.walk(&mut |s| {
                            if let ir::loops::Stmt::For { mark, var, .. } = s {
                                v.push((p.var(*var).name, *mark))
                            } else if let ir::loops::Stmt::Store { checked, .. } = s {
                                v.push((
                                    shape::Sym::new(if *checked { "CHECKED" } else { "ok" }),
                                    ir::loops::Mark::Serial,
                                ))
                            }
                        });
                        v
                    })
                    .collect::<Vec<_>>()
            );
        }
    }
}
