//! Manifests for the generated workspace.
//!
//! A mutant keeps the library name of the store, so that its conformance test compiles unchanged, but needs a
//! package name of its own. Inherited fields stay inherited: the generated root repeats what they refer to.
//! Many copies are built and each runs one case, so the workspace's own crates are built for a quick build.

use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

/// The test every mutant is judged by.
pub const SUITE: &str = "conformance";

/// The root manifest: the settings of the real one, other members. `store` is the manifest of the store.
pub fn workspace(real: &str, store: &str, root: &Path, members: &[String]) -> Result<String> {
    let store: Table = store.parse().context("could not read the store's Cargo.toml")?;
    let mut real: Table = real
        .parse()
        .context("could not read the workspace's Cargo.toml")?;
    let mut workspace = match real.remove("workspace") {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    };
    for key in ["default-members", "exclude", "lints"] {
        workspace.remove(key);
    }
    workspace.insert("members".into(), Value::from(members.to_vec()));
    if let Some(dependencies) = workspace.get_mut("dependencies") {
        make_paths_absolute(dependencies, root);
    }
    let own = own_crates(&workspace, &store);
    let mut generated = Table::from_iter([("workspace".to_owned(), Value::Table(workspace))]);
    for key in ["profile", "patch"] {
        if let Some(mut value) = real.remove(key) {
            make_paths_absolute(&mut value, root);
            generated.insert(key.to_owned(), value);
        }
    }
    hasten_build(&mut generated, &own);
    Ok(toml::to_string(&generated)?)
}

/// What the store depends on in its own workspace. Cargo complains about settings for packages nobody uses.
fn own_crates(workspace: &Table, store: &Table) -> Vec<String> {
    let lies_here = |name: &str| {
        let dependency = workspace.get("dependencies").and_then(|table| table.get(name));
        dependency.is_some_and(|dependency| dependency.get("path").is_some())
    };
    let used = store.iter().filter(|(key, _)| key.ends_with("dependencies"));
    let names = used
        .filter_map(|(_, table)| table.as_table())
        .flat_map(Table::keys);
    names.filter(|name| lies_here(name)).cloned().collect()
}

/// Neither the mutants nor the suite are optimised, and nobody debugs them; what they depend on stays as it is.
fn hasten_build(generated: &mut Table, own: &[String]) {
    let dev = table_in(table_in(generated, "profile"), "dev");
    dev.insert("opt-level".into(), Value::from(0));
    dev.insert("debug".into(), Value::from(false));
    let packages = table_in(dev, "package");
    for name in own {
        table_in(packages, name).insert("opt-level".into(), Value::from(0));
    }
}

/// The table of that name, made if it is missing.
fn table_in<'t>(table: &'t mut Table, key: &str) -> &'t mut Table {
    let value = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
    value.as_table_mut().expect("a table by the rules of cargo")
}

/// A mutant's manifest: the store's, under another package name, with the conformance test alone.
pub fn package(real: &str, dir: &Path, name: &str) -> Result<String> {
    let mut manifest: Table = real.parse().context("could not read the store's Cargo.toml")?;
    let package = manifest
        .get_mut("package")
        .and_then(Value::as_table_mut)
        .context("the store has no [package]")?;
    let old = package.insert("name".into(), Value::from(name));
    let old = old
        .as_ref()
        .and_then(Value::as_str)
        .context("the store's package has no name")?;
    name_library(&mut manifest, &old.replace('-', "_"));
    // A broken store may have unused variables, and files that were not copied cannot be targets.
    for key in ["lints", "example", "bench"] {
        manifest.remove(key);
    }
    if let Some(Value::Array(tests)) = manifest.get_mut("test") {
        tests.retain(|test| test.get("name").and_then(Value::as_str) == Some(SUITE));
    }
    for (key, value) in manifest.iter_mut() {
        if key.ends_with("dependencies") || key == "target" {
            make_paths_absolute(value, dir);
        }
    }
    Ok(toml::to_string(&manifest)?)
}

fn name_library(manifest: &mut Table, name: &str) {
    let library = manifest
        .entry("lib")
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(library) = library {
        library.entry("name").or_insert_with(|| Value::from(name));
    }
}

fn make_paths_absolute(value: &mut Value, base: &Path) {
    let Value::Table(table) = value else { return };
    for (key, value) in table.iter_mut() {
        match value {
            Value::String(path) if key == "path" => *path = base.join(&*path).to_string_lossy().into_owned(),
            nested => make_paths_absolute(nested, base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: Result<String>) -> Table {
        text.unwrap().parse().unwrap()
    }

    #[test]
    fn the_generated_root_keeps_settings_and_points_back() {
        let real = r#"
            [workspace]
            resolver = "3"
            members = ["crates/*"]
            default-members = ["crates/*"]
            [workspace.package]
            edition = "2024"
            [workspace.dependencies]
            semel-core = { path = "crates/semel-core" }
            semel-bench = { path = "crates/semel-bench" }
            serde = { version = "1", features = ["derive"] }
            [workspace.lints.rust]
            missing_docs = "warn"
            [profile.dev]
            debug = "line-tables-only"
            [profile.dev.package."*"]
            opt-level = 2
        "#;
        let store = "[dependencies]\nsemel-core.workspace = true\nserde.workspace = true\n";
        let root = parsed(workspace(
            real,
            store,
            Path::new("/home"),
            &["control".into(), "one".into()],
        ));
        let expected = r#"
            [workspace]
            resolver = "3"
            members = ["control", "one"]
            [workspace.package]
            edition = "2024"
            [workspace.dependencies]
            semel-core = { path = "/home/crates/semel-core" }
            semel-bench = { path = "/home/crates/semel-bench" }
            serde = { version = "1", features = ["derive"] }
            [profile.dev]
            opt-level = 0
            debug = false
            [profile.dev.package."*"]
            opt-level = 2
            [profile.dev.package.semel-core]
            opt-level = 0
        "#;
        assert_eq!(root, expected.parse().unwrap());
    }

    #[test]
    fn a_mutant_has_its_own_package_name_and_the_stores_library_name() {
        let real = r#"
            [package]
            name = "semel-sqlite"
            edition.workspace = true
            [lints]
            workspace = true
            [dependencies]
            semel-core.workspace = true
            near = { path = "../near" }
            [[test]]
            name = "conformance"
            harness = false
            [[test]]
            name = "power_cut"
            [[example]]
            name = "faults"
        "#;
        let mutant = parsed(package(real, Path::new("/home/store"), "semel-sqlite-mutant-one"));
        let expected = r#"
            [package]
            name = "semel-sqlite-mutant-one"
            edition.workspace = true
            [lib]
            name = "semel_sqlite"
            [dependencies]
            semel-core.workspace = true
            near = { path = "/home/store/../near" }
            [[test]]
            name = "conformance"
            harness = false
        "#;
        assert_eq!(mutant, expected.parse().unwrap());
    }

    #[test]
    fn a_library_that_names_itself_keeps_its_name() {
        let real = "[package]\nname = \"a\"\n[lib]\nname = \"b\"\npath = \"src/b.rs\"\n";
        let mutant = parsed(package(real, Path::new("/home"), "c"));
        assert_eq!(
            mutant["lib"],
            Value::Table("name = \"b\"\npath = \"src/b.rs\"".parse().unwrap())
        );
    }
}
