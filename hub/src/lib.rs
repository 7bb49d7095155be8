//! Checkpoints of the Hugging Face Hub, downloaded into a folder.
//!
//! Files are written beside the folder's, in `.pull`. When all are there they are renamed into the folder: what has a
//! file's name is complete, and no mixture of two commits looks like a checkpoint. What a call that was cut off left in
//! `.pull` is continued. `.pull/record.json` says which contents files have, so those that the Hub has not changed are
//! kept.
//!
//! A large file has the contents whose hash the Hub says, or else it is not kept.
//!
//! All files are of one commit: that which the revision is when the call begins. A token goes to the endpoint's host,
//! and to no other.
#![expect(clippy::disallowed_methods, reason = "downloads ask the environment, and write files")]

mod choice;
mod client;
mod fetch;
mod record;

use std::path::{Path, PathBuf};

use import::Shown;
use serde::Deserialize;

use self::client::Client;
use self::record::Record;

/// Where the Hub is if the environment does not say.
const ENDPOINT: &str = "https://huggingface.co";

/// The folder of what is not complete, in the folder that is filled.
const PLACE: &str = ".pull";

/// Why a checkpoint cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Hub does not give what is asked for, or it is not what is wanted.
    #[error("{repo}: {what}")]
    Hub {
        /// The repository.
        repo: String,
        /// What is wrong.
        what: String,
    },
    /// A file or folder of this machine is at fault.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// How far a download is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// The file that is on its way.
    pub file: &'a str,
    /// The bytes of it that are here. All, for a file that was here before.
    pub done: u64,
    /// All bytes of it.
    pub total: u64,
    /// Which file it is, the first being 1.
    pub number: usize,
    /// How many files are known to be wanted. The shards that an index names are known when it is here.
    pub files: usize,
}

/// A hub, and who asks it.
#[derive(Clone)]
pub struct Hub {
    endpoint: String,
    token: Option<String>,
}

impl Hub {
    /// The hub at `HF_ENDPOINT`, asked with the token `HF_TOKEN`; without these Hugging Face's own, and no token.
    pub fn from_env() -> Hub {
        let said = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        Hub::at(said("HF_ENDPOINT").as_deref().unwrap_or(ENDPOINT), said("HF_TOKEN").as_deref())
    }

    /// The hub at an address such as `https://huggingface.co`, asked with a token if there is one.
    pub fn at(endpoint: &str, token: Option<&str>) -> Hub {
        let endpoint = endpoint.trim().trim_end_matches('/').to_owned();
        Hub { endpoint, token: token.map(|t| t.trim().to_owned()) }
    }

    /// Downloads a checkpoint, `ORG/NAME`, into a folder that is made if need be; the paths of its files.
    ///
    /// Those are the configs, also of modules in folders (`1_Pooling/config.json`), the tokenizer's files, and the
    /// weights: the shards that the index names, else `model*.safetensors`, else every `.safetensors` file, else the
    /// one `.gguf`. Where there are several of these, a `pattern` with `*` and `?` names which, by their paths in the
    /// repository: `*Q4_K_M*`. It may name `.safetensors` files too. The revision is a branch, a tag or a commit;
    /// without one it is `main`.
    ///
    /// Files of the folder that are not of this repository are never replaced: that is an error. Those that an earlier
    /// call brought are taken away if the repository has them no longer, or has other contents.
    pub fn pull(
        &self,
        repo: &str,
        revision: Option<&str>,
        pattern: Option<&str>,
        into: &Path,
        progress: &dyn Fn(Progress<'_>),
    ) -> Result<Vec<PathBuf>, Error> {
        let wrong = |what: String| Error::Hub { repo: repo.to_owned(), what };
        let revision = revision.unwrap_or("main");
        if !is_repository(repo) {
            return Err(wrong(NO_REPOSITORY.into()));
        }
        if !is_path(revision) {
            return Err(wrong(format!("`{}` is no branch, tag or commit", Shown(revision))));
        }
        let place = into.join(PLACE);
        std::fs::create_dir_all(&place).map_err(|e| at(&place, e))?;
        let mut record = Record::open(&place, repo)?;
        let client = Client::new(&self.endpoint, self.token.as_deref());
        // A `/` of a branch's name does not begin a folder.
        let url = format!(
            "{}/api/models/{repo}/revision/{}?blobs=true",
            self.endpoint,
            revision.replace('/', "%2F")
        );
        let answer = client.text(&url).map_err(|e| wrong(said(&e, revision)))?;
        let listing = serde_json::from_slice::<Listing>(&answer);
        let listing = listing.map_err(|e| wrong(format!("its list of files is not understood: {e}")))?;
        if !is_plain(&listing.sha) {
            return Err(wrong(format!("`{}` is no commit", Shown(&listing.sha))));
        }
        if let Some(blob) = listing.siblings.iter().filter_map(|s| s.blob.as_ref()).find(|b| !is_plain(b)) {
            return Err(wrong(format!("`{}` is no name of contents", Shown(blob))));
        }
        let mut wanted = choice::small(&listing.siblings);
        let weights = choice::weights(&listing.siblings, pattern).map_err(&wrong)?;
        wanted.extend(weights.files());
        let ready = place.join(fetch::READY);
        std::fs::create_dir_all(&ready).map_err(|e| at(&ready, e))?;
        let from = format!("{}/{repo}/resolve/{}", self.endpoint, listing.sha);
        let fetch =
            fetch::Fetch { client: &client, from: &from, name: repo, into, commit: &listing.sha, progress };
        let mut out = Vec::new();
        let mut next = 0;
        while let Some(file) = wanted.get(next) {
            let fetched = fetch.file(&mut record, file, (next + 1, wanted.len()))?;
            if weights.is_index(file) {
                let folder = fetched.now().parent().unwrap_or(into);
                let names = import::shards(folder).map_err(|e| wrong(e.to_string()))?;
                wanted.extend(choice::shards(&listing.siblings, names).map_err(&wrong)?);
            }
            out.push(fetched);
            next += 1;
        }
        let current = |name: &str, contents: &str| {
            let named = |s: &&Sibling| choice::name(s) == name;
            listing.siblings.iter().filter(named).any(|s| s.contents(&listing.sha) == contents)
        };
        fetch::settle(&mut record, into, &out, &current)?;
        record::tidy(&place);
        Ok(fetch::paths(out))
    }
}

/// The Hub's answer about a repository.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Sibling>,
}

/// A file of a repository.
#[derive(Deserialize)]
struct Sibling {
    /// Its path in the repository.
    #[serde(rename = "rfilename")]
    path: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob: Option<String>,
    /// Of a large file.
    lfs: Option<Large>,
}

/// What the Hub says of a file that is kept beside its repository.
#[derive(Deserialize)]
struct Large {
    #[serde(alias = "oid")]
    sha256: Option<String>,
}

impl Sibling {
    /// The hash of its contents, if the list says it.
    fn sha256(&self) -> Option<&str> {
        self.lfs.as_ref()?.sha256.as_deref().map(|s| s.trim_start_matches("sha256:"))
    }

    /// What its contents are called: in a list that names none they are new with each commit.
    fn contents<'a>(&'a self, commit: &'a str) -> &'a str {
        self.blob.as_deref().unwrap_or(commit)
    }
}

/// The error of a file or folder.
fn at(path: &Path, e: impl std::fmt::Display) -> Error {
    Error::File { path: path.to_owned(), what: e.to_string() }
}

/// What the Hub says, with what can be done about it.
fn said(text: &str, revision: &str) -> String {
    let advice = match text.split(' ').next() {
        Some("401" | "403") => {
            "; it is not there, or not for everyone: HF_TOKEN may hold a token that may read it"
        }
        Some("404") => &format!("; there is no such repository, or it has no `{revision}`"),
        _ => "",
    };
    format!("{text}{advice}")
}

/// Whether a text is a path of names within a folder.
fn is_path(text: &str) -> bool {
    text.split('/').all(is_plain)
}

/// Whether a text is safe in an address and as a file's name: it leads nowhere else.
fn is_plain(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    !text.is_empty() && text.len() <= 200 && !text.starts_with('.') && text.bytes().all(fits)
}

/// What a text is that is no name of a repository.
pub const NO_REPOSITORY: &str = "is no name of a repository; those are ORG/NAME";

/// Whether a text may be the name of a repository.
pub fn is_repository(text: &str) -> bool {
    text.split('/').count() <= 2 && is_path(text)
}
