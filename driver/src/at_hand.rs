//! The machine that plans are for, where nobody says which: the one at hand, by a table of what processors do.
#![allow(clippy::disallowed_methods, reason = "the environment may say which machine")]

use std::path::{Path, PathBuf};

use codegen::Target;
use rewrites::Machine;

use crate::{Failure, data};

/// The machine of a file, or of none: what `TENON_MACHINE` names, or else the one that has the target's instructions
/// and as many cores as there are here. `reference` is the one that tests use.
pub fn machine(file: Option<&Path>, target: &Target) -> Result<Machine, Failure> {
    let from_env = || std::env::var_os("TENON_MACHINE").filter(|v| !v.is_empty()).map(PathBuf::from);
    let Some(path) = file.map(Path::to_owned).or_else(from_env) else {
        let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        return Ok(Machine::of_processor(&|feature| target.has(feature), cores));
    };
    if path.as_os_str() == "reference" {
        return Ok(Machine::reference());
    }
    let name = path.display().to_string();
    Machine::parse(&data::text(&name)?).map_err(|e| Failure::data(format!("{name}: {e}")))
}
