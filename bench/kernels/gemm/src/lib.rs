//! One C function around the crate `gemm`, for `bench/kernels`.

/// `c = a * b`: `a` is [m, k] and `c` [m, n], row-major; `row` and `column` are the strides of `b`.
///
/// # Safety
/// The pointers are those of matrices so large.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gemm_peer(
    m: i64,
    n: i64,
    k: i64,
    a: *const f32,
    b: *const f32,
    row: i64,
    column: i64,
    c: *mut f32,
    threads: i32,
) {
    let threads = match threads {
        1 => gemm::Parallelism::None,
        n => gemm::Parallelism::Rayon(n as usize),
    };
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let (row, column) = (row as isize, column as isize);
    // SAFETY: the caller's.
    unsafe {
        gemm::gemm(
            m, n, k, c, 1, n as isize, false, a, 1, k as isize, b, column, row, 0.0, 1.0, false, false, false, threads,
        );
    }
}
