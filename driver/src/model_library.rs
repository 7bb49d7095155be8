//! The library of models: `models/*.tn` and their parts, inside the binary. A new file there is a new model.
//!
//! A program uses its parts (`use parts.rotary`) as if they lay beside it, where no file of its own has that name.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use ir::text::stable_hash;

use crate::modules::Found;

static TEXTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../models");

/// The folder that files of the library are shown in.
pub const FOLDER: &str = "models";

/// The models, each with its name. Parts are none.
pub fn models() -> impl Iterator<Item = (PathBuf, &'static str)> {
    let models = TEXTS.files().filter(|f| f.path().extension().is_some_and(|e| e == "tn"));
    models.filter_map(|f| Some((Path::new(FOLDER).join(f.path()), f.contents_utf8()?)))
}

/// Reads a file of the library by its name.
pub fn read(path: &Path) -> Option<Found> {
    let inside = path.strip_prefix(FOLDER).ok()?;
    let text = TEXTS.get_file(inside)?.contents_utf8()?.to_owned();
    Some(Found { key: PathBuf::from(path), text: Ok(text) })
}

/// All files, models and parts, by their places in the folder.
fn all() -> Vec<(&'static Path, &'static str)> {
    let mut texts = Vec::new();
    let mut folders = vec![&TEXTS];
    while let Some(folder) = folders.pop() {
        texts.extend(folder.files().filter_map(|f| Some((f.path(), f.contents_utf8()?))));
        folders.extend(folder.dirs());
    }
    texts.sort_unstable();
    texts
}

/// The modules that a program may use, as it writes them: `parts.rotary`.
pub(crate) fn modules() -> impl Iterator<Item = String> {
    let inner = |p: &Path| p.parent().is_some_and(|folder| folder != Path::new(""));
    let parts = all().into_iter().filter(move |(p, _)| inner(p));
    parts.map(|(p, _)| p.with_extension("").display().to_string().replace('/', "."))
}

/// What all of it is known by.
pub fn identity() -> u64 {
    static ALL: LazyLock<u64> = LazyLock::new(|| stable_hash(&format!("{:?}", all())));
    *ALL
}
