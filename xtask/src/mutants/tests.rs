//! A whole round on a store of a few lines, in a workspace of its own.

use std::fs;
use std::path::Path;

use super::*;

const STORE: &str = "
    /// Settles a job.
    pub fn settle(fence: u64, newest: u64) -> bool {
        fence == newest
    }
    /// Counts once.
    pub fn count(n: u64) -> u64 {
        n + 1
    }
";

// A module stands in for the clause that the real suite puts before each name.
const CASES: &str = "
    mod fence {
        #[test]
        fn stale_settle_is_refused() {
            assert!(!semel_sqlite::settle(1, 2));
        }
        #[test]
        fn counters_equal_the_history() {
            assert_eq!(semel_sqlite::count(1), 2);
        }
    }
";

fn entry(name: &str, case: &str, find: &str, replace: &str) -> String {
    format!(
        "[[mutant]]\nname = '{name}'\nlesson = 'a story'\nclause = 'fence'\ncase = '{case}'\n\
         file = 'lib.rs'\nfind = '{find}'\nreplace = '{replace}'\n"
    )
}

fn site(dir: &Path, catalogue: &str) -> Site {
    let files = [
        (
            "Cargo.toml",
            "[workspace]\nresolver = '3'\nmembers = ['crates/*']\n[workspace.package]\nedition = '2024'\n",
        ),
        (
            "crates/semel-sqlite/Cargo.toml",
            "[package]\nname = 'semel-sqlite'\nedition.workspace = true\n",
        ),
        ("crates/semel-sqlite/src/lib.rs", STORE),
        ("crates/semel-sqlite/tests/conformance.rs", CASES),
        (
            "crates/semel-sqlite/tests/other.rs",
            "compile_error!(\"not copied\");",
        ),
        ("mutants/mutants.toml", catalogue),
    ];
    for (path, content) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Site {
        root: dir.to_owned(),
        dir: dir.join("target/mutants"),
    }
}

#[test]
fn bugs_are_caught_and_what_is_not_a_proof_is_no_catch() {
    let dir = tempfile::tempdir().unwrap();
    let stale = "fence::stale_settle_is_refused";
    let catalogue = [
        entry("settle_without_fence", stale, "fence == newest", "true"),
        entry("harmless", stale, "n + 1", "1 + n"),
        entry("caught_by_another_case", stale, "n + 1", "n + 2"),
        entry("does_not_build", stale, "n + 1", "m"),
    ];
    let site = site(dir.path(), &catalogue.concat());

    let all = run(&site, None).unwrap();
    assert_eq!(
        all,
        Tally {
            passed: 1,
            failed: 3,
            skipped: 0
        }
    );

    let one = run(&site, Some("settle_without_fence")).unwrap();
    assert_eq!(
        one,
        Tally {
            passed: 1,
            failed: 0,
            skipped: 0
        }
    );
}

#[test]
fn a_case_the_unchanged_store_does_not_pass_proves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let site = site(dir.path(), &entry("renamed_case", "fence::gone", "n + 1", "n"));
    let error = format!("{:#}", run(&site, None).unwrap_err());
    assert!(
        error.contains("the unchanged store must pass fence::gone"),
        "{error}"
    );
}

#[test]
fn all_changes_that_no_longer_apply_are_named_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = [
        entry("first", "fence::x", "never there", ""),
        entry("second", "fence::x", "pub fn", "fn"),
    ];
    let error = format!(
        "{:#}",
        run(&site(dir.path(), &catalogue.concat()), None).unwrap_err()
    );
    assert!(
        error.contains("no longer applies: first") && error.contains("no longer applies: second"),
        "{error}"
    );
}

#[test]
fn the_table_lines_up() {
    let catalogue = entry("a", "fence::case", "x", "y");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mutants.toml");
    fs::write(&path, catalogue).unwrap();
    let mutants = Catalogue::read(&path).unwrap().select(None).unwrap();
    let expected = "mutant  clause  case         caught\na       fence   fence::case  yes\n";
    assert_eq!(table(&[(&mutants[0], Verdict::Failed)]), expected);
}

/// The real list against the real store: cheap, and it speaks up in the run that changed the store.
#[test]
fn every_mutant_of_the_list_still_applies() {
    let real = Site::of_workspace();
    let scratch = tempfile::tempdir().unwrap();
    let mutants = Catalogue::read(&real.catalogue()).unwrap().mutants;
    layout::write(
        &Site {
            root: real.root,
            dir: scratch.path().to_owned(),
        },
        &mutants,
    )
    .unwrap();
}
