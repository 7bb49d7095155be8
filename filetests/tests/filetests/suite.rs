//! The suite, a test for each folder.

use std::path::Path;

fn folder(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("suite").join(name);
    match filetests::run_folder(&path) {
        Ok(n) => assert!(n > 0, "{} is empty", path.display()),
        Err(text) => panic!("{text}"),
    }
}

macro_rules! folders {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            folder(stringify!($name));
        }
    )*};
}

folders! { parse check wrong plan lower emit run std reference modules config relax libraries }
