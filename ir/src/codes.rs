&[
    Code {
        code: "E0101",
        title: "a character that begins no token",
        cause: r#"The text holds a character the language does not use."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] { x $ x }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] { x + x }"#,
    },
    Code {
        code: "E0102",
        title: "a syntax error",
        cause: r#"The text does not follow the grammar at this place. Parsing goes on at the next definition or statement, so that one run reports every error."#,
        wrong: r#"fn f<n>(x: f32[n] -> f32[n] { x }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] { x }"#,
    },
    Code {
        code: "E0103",
        title: "a number out of range",
        cause: r#"An integer literal must fit in 64 bits with a sign."#,
        wrong: r#"const big = 99999999999999999999"#,
        right: r#"const big = 9999999999999999"#,
    },
    Code {
        code: "E0104",
        title: "a text that is not closed",
        cause: r#"A string must end on the line on which it begins."#,
        wrong: r#"test "never ends {
    assert 1 == 1
}"#,
        right: r#"test "ends" {
    assert 1 == 1
}"#,
    },
    Code {
        code: "E0105",
        title: "nested too deeply",
        cause: r#"An expression or block is nested deeper than the compiler follows. Bind parts of it with `let`."#,
        wrong: r#"fn f(x: f32) -> f32 {
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
    x
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
    ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
}"#,
        right: r#"fn f(x: f32) -> f32 {
    let y = (x + 1.0) * x
    (y + 1.0) * y
}"#,
    },
    Code {
        code: "E0201",
        title: "an unknown name",
        cause: r#"The name is not defined here: not a parameter, a `let`, a dim, a definition of this file or of `std`."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] { rleu(x) }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] { relu(x) }"#,
    },
    Code {
        code: "E0202",
        title: "a name defined twice",
        cause: r#"Two definitions of one file, two parameters or two generics have the same name, or a `use` brings a name that the file has already."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] { x }

fn f<n>(x: f32[n]) -> f32[n] { x + x }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] { x }

fn g<n>(x: f32[n]) -> f32[n] { x + x }"#,
    },
    Code {
        code: "E0203",
        title: "a dim that cannot be inferred",
        cause: r#"A generic dim must be determined by the arguments: it must stand alone, or linearly, in the type of some parameter. Otherwise give it in brackets: `arange[8]()`."#,
        wrong: r#"fn made<n, k>(x: f32[n]) -> f32[k] { zeros[k] }

fn f<n>(x: f32[n]) -> f32[8] { made(x) }"#,
        right: r#"fn made<n, k>(x: f32[n]) -> f32[k] { zeros[k] }

fn f<n>(x: f32[n]) -> f32[8] { made[8](x) }"#,
    },
    Code {
        code: "E0204",
        title: "a generic of the wrong kind",
        cause: r#"A dim stands where an element type is needed, or the other way round. Names of element types begin with a capital letter, dims with a small one, packs of dims with `..`."#,
        wrong: r#"fn f<..s>(x: f32[s]) -> f32[..s] { x }"#,
        right: r#"fn f<..s>(x: f32[..s]) -> f32[..s] { x }"#,
    },
    Code {
        code: "E0210",
        title: "a module that is not found",
        cause: r#"`use a.b` reads `a/b.tn`, and `use a.b.f` takes `f` from it. The path is looked for from the folder of the file that says it, then from the folder of the program's first file."#,
        wrong: r#"use layers.norm

fn f<n>(x: f32[n]) -> f32[n] { norm.half(x) }"#,
        right: r#"use layers.norm

fn f<n>(x: f32[n]) -> f32[n] { norm.half(x) }

// @file layers/norm.tn
fn half<n>(x: f32[n]) -> f32[n] { x / 2.0 }"#,
    },
    Code {
        code: "E0211",
        title: "a schedule that does not fit",
        cause: r#"A schedule names loops of its primitive and verbs of the language: tile, order, unroll, vectorize, parallel, stage. What was cut by `tile i 8` is `i.o` and `i.i` from there on."#,
        wrong: r#"prim twice<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = x[i] + x[i] }
}

schedule twice { vectorize j }"#,
        right: r#"prim twice<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = x[i] + x[i] }
}

schedule twice { vectorize i }"#,
    },
    Code {
        code: "E0301",
        title: "shapes that differ",
        cause: r#"Two shapes must be equal here and are proved to differ. The labels give both shapes, the note the equation that fails and what is known of its dims. Equalities that may hold are no error: they are checked when running, and `tenon check -v` lists them."#,
        wrong: r#"fn f(a: f32[2, 3], b: f32[5, 3]) -> f32[2, 5] { a @ b }"#,
        right: r#"fn f(a: f32[2, 3], b: f32[5, 3]) -> f32[2, 5] { a @ b.T }"#,
    },
    Code {
        code: "E0302",
        title: "ranks that differ",
        cause: r#"The value has another number of axes than the parameter."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n, n] { x @ x }"#,
        right: r#"fn f<n>(x: f32[n, n]) -> f32[n, n] { x @ x }"#,
    },
    Code {
        code: "E0303",
        title: "element types that differ",
        cause: r#"The value has another element type than is needed. Conversions are written: `f32(x)`."#,
        wrong: r#"fn f<n>(x: i64[n]) -> f32[n] { x }"#,
        right: r#"fn f<n>(x: i64[n]) -> f32[n] { f32(x) }"#,
    },
    Code {
        code: "E0304",
        title: "a wrong number of arguments",
        cause: r#"The call gives more or fewer arguments than there are parameters."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] { relu(x, x) }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] { relu(x) }"#,
    },
    Code {
        code: "E0305",
        title: "an unknown argument name",
        cause: r#"The callee has no parameter of that name."#,
        wrong: r#"fn f<n>(x: f32[n, n]) -> f32[n] { sum(x, axes=1) }"#,
        right: r#"fn f<n>(x: f32[n, n]) -> f32[n] { sum(x, axis=1) }"#,
    },
    Code {
        code: "E0306",
        title: "not a type",
        cause: r#"The name stands where a type is needed and is none."#,
        wrong: r#"fn f<n>(x: float[n]) -> f32[n] { x }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] { x }"#,
    },
    Code {
        code: "E0307",
        title: "a value of the wrong kind",
        cause: r#"A tensor, a tuple, a function or a dim stands where something else is needed."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] { x(0) }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32 { x[0] }"#,
    },
    Code {
        code: "E0308",
        title: "a condition that does not hold",
        cause: r#"A `where` of the callee is proved false at this call."#,
        wrong: r#"fn small<n>(x: f32[n]) -> f32[n] where n <= 8 { x }

fn f(x: f32[9]) -> f32[9] { small(x) }"#,
        right: r#"fn small<n>(x: f32[n]) -> f32[n] where n <= 8 { x }

fn f(x: f32[8]) -> f32[8] { small(x) }"#,
    },
    Code {
        code: "E0309",
        title: "branches of different types",
        cause: r#"Both branches of an `if`, and a loop's variable before and after its body, must have one type."#,
        wrong: r#"fn f<n>(x: f32[n], c: bool) -> f32[n] {
    if c { x } else { i64(x) }
}"#,
        right: r#"fn f<n>(x: f32[n], c: bool) -> f32[n] {
    if c { x } else { x * 2.0 }
}"#,
    },
    Code {
        code: "E0310",
        title: "a dim that is not positive or overflows",
        cause: r#"A dim expression is negative for every value of its symbols, overflows 64 bits, or has too many operations to reason about."#,
        wrong: r#"fn f(x: f32[4 - 7]) -> f32[4 - 7] { x }"#,
        right: r#"fn f(x: f32[7 - 4]) -> f32[7 - 4] { x }"#,
    },
    Code {
        code: "E0311",
        title: "no value, or one too many",
        cause: r#"The block ends without an expression though a value is needed; or there is a value that nothing uses: an expression between statements, or at the end of a function that declares no result."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] {
    let y = x + x
}"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] {
    let y = x + x
    y
}"#,
    },
    Code {
        code: "E0312",
        title: "shapes that do not broadcast",
        cause: r#"Element-wise operators broadcast: axes are aligned at the right, and an axis of literal extent 1 stretches."#,
        wrong: r#"fn f(x: f32[4, 3], row: f32[4]) -> f32[4, 3] { x + row }"#,
        right: r#"fn f(x: f32[4, 3], row: f32[4]) -> f32[4, 3] { x + unsqueeze(row, axis=1) }"#,
    },
    Code {
        code: "E0313",
        title: "too many axes",
        cause: r#"A tensor has at most 8 axes."#,
        wrong: r#"fn f<n>(x: f32[n, 1, 1, 1, 1, 1, 1, 1, 1]) -> f32 { sum(x) }"#,
        right: r#"fn f<n>(x: f32[n, 1, 1, 1, 1, 1, 1, 1]) -> f32 { sum(x) }"#,
    },
    Code {
        code: "E0314",
        title: "instances without end",
        cause: r#"A function that calls itself with another attribute, element type or rank each time would need an instance for each, without end. Calls of lambdas, and of functions that take or give functions, are written out where they stand; so deep or so many of them cannot be."#,
        wrong: r#"fn f<n>(x: f32[n], const k: int) -> f32[n] { f(x, k=k + 1) }

fn g<n>(x: f32[n]) -> f32[n] { f(x, k=0) }"#,
        right: r#"fn f<n>(x: f32[n], k: i64) -> f32[n] {
    if k > 8 { x } else { f(x, k + 1) }
}

fn g<n>(x: f32[n]) -> f32[n] { f(x, 0) }"#,
    },
    Code {
        code: "E0315",
        title: "a definition that holds itself",
        cause: r#"A record is as many tensors as it has leaves, so it cannot hold itself; a constant cannot be made of itself."#,
        wrong: r#"record Tree { left: Tree, right: Tree }"#,
        right: r#"record Leaf { value: f32[4] }

record Tree { left: Leaf, right: Leaf }"#,
    },
    Code {
        code: "E0320",
        title: "conditions that exclude one another",
        cause: r#"No dims satisfy all conditions of this `where`, so that the definition could never be called."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] where n < 3, n > 8 { x }"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] where n > 3, n < 8 { x }"#,
    },
    Code {
        code: "E0401",
        title: "an access out of bounds",
        cause: r#"The index is proved to leave the buffer."#,
        wrong: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = x[i + n] }
}"#,
        right: r#"prim f<n>(x: f32[2*n]) -> y: f32[n] {
    for i in n { y[i] = x[i + n] }
}"#,
    },
    Code {
        code: "E0402",
        title: "an output not covered",
        cause: r#"A primitive must write every element of each output, or accumulate into it (`+=`). The checker must see it from the loops: an index each axis, running over the whole extent."#,
        wrong: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n/2 { y[i] = x[i] }
}"#,
        right: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = x[i] }
}"#,
    },
    Code {
        code: "E0403",
        title: "a wrong number of indices",
        cause: r#"A buffer of rank r is read and written with r indices."#,
        wrong: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = x[i, 0] }
}"#,
        right: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = x[i] }
}"#,
    },
    Code {
        code: "E0404",
        title: "not assignable",
        cause: r#"Only outputs, `own` parameters, local buffers and `var`s can be assigned."#,
        wrong: r#"fn f<n>(x: f32[n]) -> f32[n] {
    let y = x
    y = y + x
    y
}"#,
        right: r#"fn f<n>(x: f32[n]) -> f32[n] {
    var y = x
    y = y + x
    y
}"#,
    },
    Code {
        code: "E0405",
        title: "not allowed in a primitive",
        cause: r#"A primitive is made of loops over scalars: it cannot call functions or operators on whole tensors."#,
        wrong: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = softmax(x[i]) }
}"#,
        right: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = exp(x[i]) }
}"#,
    },
    Code {
        code: "E0406",
        title: "an unknown scalar function",
        cause: r#"Primitives know the functions of the table of intrinsics and the reductions sum, prod, min, max, all, any."#,
        wrong: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = expo(x[i]) }
}"#,
        right: r#"prim f<n>(x: f32[n]) -> y: f32[n] {
    for i in n { y[i] = exp(x[i]) }
}"#,
    },
    Code {
        code: "E0407",
        title: "a loop that cannot run so",
        cause: r#"An attribute of a binder says how a loop or reduction of a primitive runs: `#[lanes(16, 4)]` as vectors, `#[stream(16, 4, 16384)]` as vectors that are stored past the caches where they are to 16384 KiB or more, `#[rows(6, 2, 1)]` several rounds at once, `#[unroll]` written out, `#[ahead(8)]` asking for what a later round reads, `#[dot]` as one instruction. This loop cannot: its rounds depend on each other, their number is not known, or it is no sum of narrow products."#,
        wrong: r#"prim total<n>(x: f32[n]) -> y: f32[1] {
    for #[lanes(16, 1)] i in n { y[0] += x[i] }
}"#,
        right: r#"prim total<n>(x: f32[n]) -> y: f32[1] {
    y[0] = sum(#[lanes(16, 1)] i in n) x[i]
}"#,
    },
    Code {
        code: "E0501",
        title: "an owned value used twice",
        cause: r#"A value passed to an `own` parameter is consumed; it cannot be used afterwards, since its memory may have been updated in place."#,
        wrong: r#"fn raised<n>(own c: f32[n]) -> f32[n] { c + 1.0 }

fn f<n>(own c: f32[n]) -> f32[n] {
    let a = raised(c)
    a + c
}"#,
        right: r#"fn raised<n>(own c: f32[n]) -> f32[n] { c + 1.0 }

fn f<n>(own c: f32[n]) -> f32[n] {
    let a = raised(c)
    a + a
}"#,
    },
    Code {
        code: "E0502",
        title: "an owned value that is not owned",
        cause: r#"Only an `own` parameter or a value made in this function can be passed to an `own` parameter."#,
        wrong: r#"fn raised<n>(own c: f32[n]) -> f32[n] { c + 1.0 }

fn f<n>(c: f32[n]) -> f32[n] { raised(c) }"#,
        right: r#"fn raised<n>(own c: f32[n]) -> f32[n] { c + 1.0 }

fn f<n>(own c: f32[n]) -> f32[n] { raised(c) }"#,
    },
    Code {
        code: "E0503",
        title: "a rule whose sides differ",
        cause: r#"Both sides of a rule must have the same type, for every value of its dims that its condition allows. Where they are several values, each has the type of its counterpart."#,
        wrong: r#"rule shorter<n>(x: f32[n, 4]) { relu(x) => sum(x, axis=1) }"#,
        right: r#"rule once<n>(x: f32[n, 4]) { relu(relu(x)) => relu(x) }"#,
    },
    Code {
        code: "E0504",
        title: "a rule that cannot match",
        cause: r#"The left side of a rule must be a call, or several, `(x @ a, x @ b)`, and must name every parameter that the right side uses."#,
        wrong: r#"rule more<n>(x: f32[n], y: f32[n]) { relu(x) => x + y }"#,
        right: r#"rule once<n>(x: f32[n], y: f32[n]) { x + y => y + x }"#,
    },
    Code {
        code: "E0505",
        title: "a C argument",
        cause: r#"The argument of a C function must be a buffer, or a number with its C type: `c_int(n)`, `f32(1)`, `c_long(n)`, `i8(0)`, `c_char("N")`; `c_ptr(f32(1))` is the address of a number. An output may begin as an input whose axes are its last, `-> (y: f32[m, n] = bias)`, and `= f(..) == 0` says that the function gives an int, which is 0 unless it failed."#,
        wrong: r#"extern "libm.so.6" f<n>(x: f32[n]) -> y: f32[n] = cfun(x, n, y)"#,
        right: r#"extern "libm.so.6" f<n>(x: f32[n]) -> y: f32[n] = cfun(x, c_int(n), y)"#,
    },
    Code {
        code: "E0506",
        title: "a pin that names nothing",
        cause: r#"`#[force(..)]` and `#[forbid(..)]` before a function say what its plan uses, as `--force` and `--forbid` do of all functions. They name an implementation (an operator, a library function, a fused kernel as `tenon opt` shows it), a kind of them (`kernel`, `fused`, `library`, `view`) or a rule; `h = fused` is about the values of the name `h` alone, which the function makes: nothing is chosen for a parameter. What has no such name cannot be followed."#,
        wrong: r#"#[forbid(fuse)]
fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) }"#,
        right: r#"#[forbid(fused)]
fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) }"#,
    },
    Code {
        code: "E0507",
        title: "pins that contradict each other",
        cause: r#"`#[force(..)]` and `#[forbid(..)]` before one function ask for what no plan can give: that a name is used and not used for the same values, or that one value is of two kinds (`kernel`, `fused`, `library`, `view`)."#,
        wrong: r#"#[force(fused)]
#[forbid(fused)]
fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) }"#,
        right: r#"#[forbid(fused)]
fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) }"#,
    },
    Code {
        code: "E0508",
        title: "what cannot be invariant",
        cause: r#"`#[invariant]` before a function, or `--invariant`, promises that the bits of a row do not depend on how many rows there are. What calls a library's function by name cannot keep that: a library orders its sums as it likes, by the shape. Nor can a function that is taken apart where it is called, as it has no plan of its own. `#[invariant(p)]` names the primitive whose call, of the choices in the function, serves all dims."#,
        wrong: r#"extern "libopenblas.so.0" sgemm<m, k, n>(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]
    = cblas_sgemm(
        c_int(101), c_int(111), c_int(111), c_int(m), c_int(n), c_int(k), f32(1), a, c_int(k), b, c_int(n),
        f32(0), c, c_int(n),
    )

#[invariant]
fn f<m>(x: f32[m, 8], w: f32[8, 4]) -> f32[m, 4] { sgemm(x, w) }"#,
        right: r#"#[invariant]
fn f<m>(x: f32[m, 8], w: f32[8, 4]) -> f32[m, 4] { x @ w }"#,
    },
    Code {
        code: "E0509",
        title: "a tolerance that is none",
        cause: r#"`#[tolerance(0.01)]` before a rule says by how much what its right side gives may be off, as a part of the size of what it is computed from (of a product the sum of the sizes of its terms); before a function, that rules which are off by no more may fire in its plan, all of them or those of the families that stand behind the number. It is one positive, finite number. A rule that loses something is read from left to right only, and a function that takes or gives functions has no plan of its own that could tolerate anything."#,
        wrong: r#"#[tolerance(-0.01)]
fn f<n, m>(x: f32[n, m], w: f32[m, n]) -> f32[n, n] { x @ w }"#,
        right: r#"#[tolerance(0.01)]
fn f<n, m>(x: f32[n, m], w: f32[m, n]) -> f32[n, n] { x @ w }"#,
    },
    Code {
        code: "E0510",
        title: "a pipeline that cannot be",
        cause: r#"A pipeline says which passes plan a function, in order: `pipeline quick { inline; saturate recognition; fuse }`. Its verbs are `inline`, `outline` and `pass NAME`, which work on functions; `saturate`, `merge` and `load_time`, which work on a graph of equal terms; `fuse`, `library` and `regimes`, which say what may compute these. Each kind is made of the one before it, so none stands behind a later one; `pass NAME` stands before the graph, or at the end. `saturate` and `merge` may name families of rules (`tenon rules` lists them; `own` are those of the program) or single rules, and `saturate` a number of rounds, by itself. `#[pipeline(quick)]` before a function chooses one that its file defines, that a `use` brings, or that the library has."#,
        wrong: r#"pipeline quick { fuse; saturate recognition }

#[pipeline(quick)]
fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) }"#,
        right: r#"pipeline quick { saturate recognition; fuse }

#[pipeline(quick)]
fn f<n>(x: f32[n], y: f32[n]) -> f32[n] { relu(x + y) }"#,
    },
    Code {
        code: "E0511",
        title: "a pass that went wrong",
        cause: r#"A pipeline says `pass NAME`, and whoever embeds the compiler gives no pass of that name (`driver::Options::passes`), or the pass failed, or what it made is no module: the message says what. The `tenon` command has no such passes."#,
        wrong: r#"$ tenon run f.tn -i x=ones[4]
pipeline mine { pass tidy; inline; saturate; fuse }

#[pipeline(mine)]
fn f<n>(x: f32[n]) -> f32[n] { relu(x) }"#,
        right: r#"$ tenon run f.tn -i x=ones[4]
pipeline mine { inline; saturate; fuse }

#[pipeline(mine)]
fn f<n>(x: f32[n]) -> f32[n] { relu(x) }"#,
    },
    Code {
        code: "E0601",
        title: "an argument that does not fit",
        cause: r#"The value given at run time has another rank, element type or shape than the parameter, or does not satisfy the entry's `where`."#,
        wrong: r#"$ tenon run f.tn -i x=ones[5]
fn f<n>(x: f32[n]) -> f32[n] where n <= 4 { x }"#,
        right: r#"$ tenon run f.tn -i x=ones[4]
fn f<n>(x: f32[n]) -> f32[n] where n <= 4 { x }"#,
    },
    Code {
        code: "E0602",
        title: "a check failed at run time",
        cause: r#"Something the checker could not prove was checked while running and does not hold for this data."#,
        wrong: r#"$ tenon run f.tn -i x=ones[4] -i y=ones[5]
fn f<n, m>(x: f32[n], y: f32[m]) -> f32[n] { x + y }"#,
        right: r#"$ tenon run f.tn -i x=ones[4] -i y=ones[4]
fn f<n, m>(x: f32[n], y: f32[m]) -> f32[n] { x + y }"#,
    },
    Code {
        code: "E0603",
        title: "a missing argument",
        cause: r#"The entry needs an argument that was not given."#,
        wrong: r#"$ tenon run f.tn
fn f<n>(x: f32[n]) -> f32[n] { x }"#,
        right: r#"$ tenon run f.tn -i x=ones[4]
fn f<n>(x: f32[n]) -> f32[n] { x }"#,
    },
    Code {
        code: "E0604",
        title: "unreadable data",
        cause: r#"A file given as data cannot be read, or is not what its name says."#,
        wrong: r#"$ tenon run f.tn -i x=missing.npy
fn f<n>(x: f32[n]) -> f32[n] { x }"#,
        right: r#"$ tenon run f.tn -i x=randn[4]@1
fn f<n>(x: f32[n]) -> f32[n] { x }"#,
    },
    Code {
        code: "E0605",
        title: "no such entry",
        cause: r#"The file has no function of that name, or one that cannot be entered: it takes attributes or functions, which only a call gives."#,
        wrong: r#"$ tenon run f.tn -e g -i x=ones[4]
fn f<n>(x: f32[n]) -> f32[n] { x }"#,
        right: r#"$ tenon run f.tn -e f -i x=ones[4]
fn f<n>(x: f32[n]) -> f32[n] { x }"#,
    },
    Code {
        code: "E0606",
        title: "a wrong listing",
        cause: r#"A listing of bytecode, as `tenon dis` writes it and `tenon asm` reads it, has a line that says nothing: an unknown instruction, an operand of another kind, a label that stands nowhere."#,
        wrong: r#"$ tenon asm f.tn -o f.tnx
tenon bytecode 6
entry f = fn0 {
    result i64
}
function fn0 f() -> (int) {
    registers ints 1, floats 0, tensors
    int.cosnt i0, 5
    ret [i0]
}"#,
        right: r#"$ tenon asm f.tn -o f.tnx
tenon bytecode 6
entry f = fn0 {
    result i64
}
function fn0 f() -> (int) {
    registers ints 1, floats 0, tensors
    int.const i0, 5
    ret [i0]
}"#,
    },
    Code {
        code: "E0607",
        title: "a compiled program that is refused",
        cause: r#"Bytecode is verified before it runs: registers are of the right kind and written before they are read, jumps lead to instructions, calls and kernels get what they ask for."#,
        wrong: r#"$ tenon asm f.tn -o f.tnx
tenon bytecode 6
entry f = fn0 {
    result i64
}
function fn0 f() -> (int) {
    registers ints 1, floats 0, tensors
    ret [i0]
}"#,
        right: r#"$ tenon asm f.tn -o f.tnx
tenon bytecode 6
entry f = fn0 {
    result i64
}
function fn0 f() -> (int) {
    registers ints 1, floats 0, tensors
    int.const i0, 5
    ret [i0]
}"#,
    },
    Code {
        code: "E0608",
        title: "engines that disagree",
        cause: r#"`--compare` runs the interpreter, which computes in double, and the compiled program with and without rewrites, and judges each part where it is made: the plan against the program, both in double; each kernel against its loops, both on the arguments that the kernel has. Rounding that the program itself amplifies is therefore none. Shown is the first operator whose value differs, and the rule without which it would not."#,
        wrong: r#"$ tenon run f.tn --compare -i x=ones[3]
rule wrong<n>(x: f32[n]) { exp(x) => x + 1.72 }

fn f<n>(x: f32[n]) -> f32[n] { exp(x) }"#,
        right: r#"$ tenon run f.tn --compare -i x=ones[3]
rule right<n>(x: f32[n]) { exp(x) * exp(x) => exp(x + x) }

fn f<n>(x: f32[n]) -> f32[n] { exp(x) * exp(x) }"#,
    },
    Code {
        code: "E0609",
        title: "a rule that does not hold",
        cause: r#"`tenon rules --check` runs both sides of each rule on awkward dims and values. This one's sides gave different results, or the right one failed where the left did not; the notes tell the case. Either a side is wrong, or a condition (`when`) is missing."#,
        wrong: r#"$ tenon rules f.tn --check
rule once<n>(x: f32[n]) { relu(relu(x)) => abs(x) }

fn f<n>(x: f32[n]) -> f32[n] { relu(relu(x)) }"#,
        right: r#"$ tenon rules f.tn --check
rule once<n>(x: f32[n]) { relu(relu(x)) => relu(x) }

fn f<n>(x: f32[n]) -> f32[n] { relu(relu(x)) }"#,
    },
    Code {
        code: "E0701",
        title: "not supported by this engine",
        cause: r#"The program is right, and the engine asked for cannot run it: a library function that no rule gives a meaning to has none for the interpreter, and the machine has operations that it does not compile yet."#,
        wrong: r#"$ tenon run f.tn -e f -i x=ones[4] --engine interp
extern "libm.so.6" lib<n>(x: f32[n]) -> y: f32[n] = cfun(x, c_int(n), y)

fn f<n>(x: f32[n]) -> f32[n] { lib(x) }"#,
        right: r#"$ tenon run f.tn -e f -i x=ones[4] --engine interp
extern "libm.so.6" lib<n>(x: f32[n]) -> y: f32[n] = cfun(x, c_int(n), y)

rule means<n>(x: f32[n]) { exp(x) => lib(x) }

fn f<n>(x: f32[n]) -> f32[n] { lib(x) }"#,
    },
]
