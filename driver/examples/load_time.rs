//! How long a compiled program takes to load, natives trusted: `cargo run --release -p driver --example load_time`.
//! Each example, and one of them with a gigabyte of constants (`-- MIB` for another size), in a file that is removed.
#![expect(clippy::disallowed_methods, reason = "it measures time and reads files")]

use std::path::Path;
use std::time::{Duration, Instant};

use driver::{Options, kernels, pipeline, stage};
use tensor::{DType, Tensor};
use vm::threads::Pool;
use vm::tnx::{self, Package};

/// The median of several times: mapped and read, verified and linked.
fn measure(path: &Path) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    const ROUNDS: usize = 21;
    let mut times = Vec::new();
    let pool = Pool::new(1);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let package = tnx::open(path)?;
        let read = started.elapsed();
        kernels::load(package, true, pool.clone(), None).map_err(|f| format!("{f:?}"))?;
        times.push((started.elapsed(), read));
    }
    times.sort();
    Ok(times[ROUNDS / 2])
}

fn package(path: &Path) -> Result<Package, Box<dyn std::error::Error>> {
    let mut front = driver::open(path).map_err(|(s, f)| f.render(&s, false))?;
    let entries = stage::everything(&mut front).map_err(|f| f.render(&front.sources, false))?;
    let options = Options { store: driver::cache::user(), ..Options::default() };
    let compilation =
        pipeline::compile(&front, &entries, &options).map_err(|f| f.render(&front.sources, false))?;
    Ok(pipeline::package(&compilation))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mib: i64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1024);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut paths: Vec<_> =
        std::fs::read_dir(&examples)?.map(|f| f.map(|f| f.path())).collect::<Result<_, _>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "tn"));
    paths.sort();
    let folder = std::env::temp_dir().join(format!("tenon-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("a.tnx");
    let say = |name: &str| -> Result<(), Box<dyn std::error::Error>> {
        let (all, read) = measure(&file)?;
        let size = std::fs::metadata(&file)?.len();
        println!(
            "{name:20} {size:>12} bytes   map and read {read:>10.1?}   with verifying and linking {all:>10.1?}"
        );
        Ok(())
    };
    for path in &paths {
        tnx::write(&file, &tnx::encode(&package(path)?)?)?;
        say(&path.file_name().unwrap_or_default().to_string_lossy())?;
    }
    let mut large = package(&examples.join("05_bert.tn"))?;
    // A hundred constants, as a model has.
    let each = Tensor::zeros(DType::F32, &[mib * (1 << 18) / 100])?;
    large.program.constants.extend((0..100).map(|_| vm::Constant::new(&each)));
    drop(each);
    let bytes = tnx::encode(&large)?;
    drop(large);
    tnx::write(&file, &bytes)?;
    drop(bytes);
    let done = say(&format!("05_bert + {mib} MiB"));
    std::fs::remove_dir_all(&folder)?;
    done
}
