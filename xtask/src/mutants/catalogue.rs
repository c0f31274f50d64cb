//! The list of mutants, and the one change each of them makes.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::CONTROL;

/// All mutants of `mutants/mutants.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    #[serde(default, rename = "mutant")]
    pub mutants: Vec<Mutant>,
}

/// A bug, put back by replacing one piece of one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Short name, also that of its directory.
    pub name: String,
    /// The bug as it happened elsewhere.
    pub lesson: String,
    /// The clause of docs/contract.md that the change breaks.
    pub clause: String,
    /// The conformance case that must fail, as the suite lists it; it cites the clause.
    pub case: String,
    /// The file to change, relative to the store's `src`.
    pub file: String,
    /// The text to replace; it must occur exactly once.
    pub find: String,
    /// What to put in its place.
    pub replace: String,
    /// The bug may show as a case that never ends. Without this, a hang is no catch: it could be anything.
    #[serde(default)]
    pub may_hang: bool,
}

impl Catalogue {
    /// Reads and checks the list.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read the list of mutants, {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let catalogue: Self = toml::from_str(text)?;
        let mut seen = BTreeSet::new();
        for mutant in &catalogue.mutants {
            mutant
                .check()
                .with_context(|| format!("mutant {:?}", mutant.name))?;
            ensure!(
                seen.insert(&mutant.name),
                "two mutants are named {:?}",
                mutant.name
            );
        }
        Ok(catalogue)
    }

    /// All mutants, or the one of that name.
    pub fn select(self, only: Option<&str>) -> Result<Vec<Mutant>> {
        // Nothing tried must not look like nothing survived.
        ensure!(
            !self.mutants.is_empty(),
            "the list of mutants is empty\nhint: CONTRIBUTING.md says how to add one"
        );
        let Some(name) = only else { return Ok(self.mutants) };
        let names: Vec<&str> = self.mutants.iter().map(|mutant| mutant.name.as_str()).collect();
        match self.mutants.iter().find(|mutant| mutant.name == name) {
            Some(mutant) => Ok(vec![mutant.clone()]),
            None => bail!(
                "there is no mutant {name:?}\nhint: there are {}",
                names.join(", ")
            ),
        }
    }
}

impl Mutant {
    /// The file with the bug in it.
    pub fn apply(&self, text: &str) -> Result<String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            found => bail!(
                "mutant no longer applies: {} has its `find` text {found} times, not once, in {}",
                self.name,
                self.file,
            ),
        }
    }

    fn check(&self) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        ensure!(
            !self.name.is_empty() && self.name.chars().all(is_plain),
            "a name is made of a-z, 0-9, _ and -, since it becomes a package name",
        );
        ensure!(self.name != CONTROL, "this name is taken by the unchanged copy");
        for (field, value) in [
            ("lesson", &self.lesson),
            ("clause", &self.clause),
            ("case", &self.case),
        ] {
            ensure!(!value.trim().is_empty(), "`{field}` is empty");
        }
        // Caught only by another clause's case would mean that the broken clause itself is not tested.
        let cited = self.case.split("::").next();
        ensure!(
            cited == Some(&self.clause),
            "the case {:?} does not cite clause {}",
            self.case,
            self.clause
        );
        ensure!(
            !self.find.is_empty() && self.find != self.replace,
            "`find` and `replace` change nothing"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"
        [[mutant]]
        name = "settle_without_fence"
        lesson = "a worker back from the dead is believed"
        clause = "1.5"
        case = "1.5::stale_settle_is_refused"
        file = "settle.rs"
        find = '''if fence < newest { return refused }
'''
        replace = ""
    "#;

    fn mutant() -> Mutant {
        Catalogue::parse(ENTRY).unwrap().select(None).unwrap().remove(0)
    }

    #[test]
    fn the_one_occurrence_is_replaced() {
        let text = "a\nif fence < newest { return refused }\nb\n";
        assert_eq!(mutant().apply(text).unwrap(), "a\nb\n");
    }

    #[test]
    fn a_change_that_fits_nowhere_or_twice_is_refused() {
        let once = mutant().find;
        for text in ["something else".to_owned(), format!("{once}{once}")] {
            let error = mutant().apply(&text).unwrap_err().to_string();
            assert!(
                error.starts_with("mutant no longer applies: settle_without_fence"),
                "{error}"
            );
        }
    }

    #[test]
    fn entries_that_cannot_work_are_refused_with_the_reason() {
        let cases = [
            (ENTRY.replace("settle_without_fence", "Settle!"), "a-z"),
            (ENTRY.replace("settle_without_fence", CONTROL), "taken"),
            (ENTRY.replace("\"1.5\"", "\" \""), "`clause` is empty"),
            (ENTRY.replace("\"1.5\"", "\"2.10\""), "does not cite clause 2.10"),
            (ENTRY.replace("replace", "replacement"), "unknown field"),
            (format!("{ENTRY}{ENTRY}"), "two mutants"),
        ];
        for (text, reason) in cases {
            let error = format!("{:#}", Catalogue::parse(&text).unwrap_err());
            assert!(error.contains(reason), "{error} does not say {reason}");
        }
    }

    #[test]
    fn an_empty_list_and_an_unknown_name_are_errors() {
        assert!(Catalogue::parse("").unwrap().select(None).is_err());
        let error = Catalogue::parse(ENTRY)
            .unwrap()
            .select(Some("other"))
            .unwrap_err();
        assert!(error.to_string().contains("settle_without_fence"), "{error}");
    }
}
