//! ARCHITECTURE.md is held against the truth: its crate map against `cargo metadata`. The form of documents, and the
//! paths in them, are `documents.rs`'s to hold.

#![expect(clippy::disallowed_methods, reason = "the test reads the document")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn document() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there")
}

/// The crate that every other may depend on: it holds no code.
const FEATURES: &str = "workspace-hack";

/// The rows of the crate map: each crate with those it may depend on, "all of the above" spelled out.
fn crate_map() -> Vec<(String, BTreeSet<String>)> {
    let text = document();
    let section = text.split("## Crate map").nth(1).expect("there is a crate map");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut map: Vec<(String, BTreeSet<String>)> = Vec::new();
    for line in section.lines().filter(|l| l.starts_with("| `")).take_while(|l| l.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let allowed = match cells[2] {
            "all of the above" => map.iter().map(|row| row.0.clone()).collect(),
            list => list.split(',').map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect(),
        };
        map.push((cells[1].trim_matches('`').to_owned(), allowed));
    }
    map
}

#[test]
fn the_crate_map_is_what_cargo_sees() {
    let metadata =
        MetadataCommand::new().current_dir(root()).no_deps().other_options(["--offline".to_owned()]).exec();
    let metadata = metadata.expect("cargo metadata answers");
    let members: BTreeSet<String> = metadata.packages.iter().map(|p| p.name.to_string()).collect();
    let map: BTreeMap<String, BTreeSet<String>> = crate_map().into_iter().collect();
    let named: BTreeSet<String> = map.keys().cloned().collect();
    assert_eq!(named, members, "the crate map names the members of the workspace");
    for p in &metadata.packages {
        // What only tests use may cross the order.
        let normal = p.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
        let used: BTreeSet<String> = normal.map(|d| d.name.clone()).filter(|n| members.contains(n)).collect();
        let allowed = &map[p.name.as_str()];
        let extra: Vec<&String> = used.difference(allowed).filter(|c| *c != FEATURES).collect();
        assert!(extra.is_empty(), "{} depends on {extra:?}, which its row does not name", p.name);
    }
}

#[test]
fn the_order_has_no_cycle() {
    let map = crate_map();
    for (i, (name, allowed)) in map.iter().enumerate() {
        for dep in allowed {
            let before = map[..i].iter().any(|row| row.0 == *dep);
            assert!(before, "{name} may depend on {dep}, which does not stand above it");
        }
    }
}

#[test]
fn only_codegen_names_llvm_and_vm_knows_no_compiler() {
    let metadata =
        MetadataCommand::new().current_dir(root()).no_deps().other_options(["--offline".to_owned()]).exec();
    for p in metadata.expect("cargo metadata answers").packages {
        for d in &p.dependencies {
            let llvm = matches!(d.name.as_str(), "inkwell" | "llvm-sys");
            assert!(!llvm || p.name.as_str() == "codegen", "{} names {}", p.name, d.name);
        }
    }
}

/// What `cargo tree` says of a selection of packages: each dependency with its features.
fn features(selection: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p} {f}"];
    let kinds = ["--edges", "normal,build,dev"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    let out = command.current_dir(root()).args(tree).args(kinds).args(selection).output();
    let out = out.expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("names are text");
    text.lines().map(|l| l.trim_end_matches(" (*)").to_owned()).collect()
}

/// A crate asked for by itself has the dependencies that the workspace has, and not others with fewer features.
#[test]
fn each_dependency_is_built_once() {
    let all = features(&["--workspace"]);
    for (name, _) in crate_map().into_iter().filter(|row| row.0 != FEATURES) {
        let own = features(&["-p", &name]);
        let others: Vec<&String> = own.difference(&all).collect();
        assert!(
            others.is_empty(),
            "built again for {name}, for other features: {others:?}; see workspace-hack"
        );
    }
}
