//! Pictures of every page, to be looked at: `SEMEL_PICTURES=DIR cargo test -p semel-server --test browser pictures`.
//!
//! Without a directory two pages are taken, so that this way stays open.

use std::path::Path;

use crate::chromium::browse;
use crate::stage::Stage;
use crate::world;

#[tokio::test]
async fn pictures_of_every_page() {
    let stage = Stage::new().await;
    let paths = world::shop(&stage).await;
    let scratch = tempfile::tempdir().unwrap();
    let wanted = std::env::var_os("SEMEL_PICTURES");
    let dir = wanted.as_deref().map_or(scratch.path(), Path::new);
    std::fs::create_dir_all(dir).unwrap();
    let paths = if wanted.is_some() { &paths[..] } else { &paths[..2] };
    browse(&stage, async |tab| {
        for (n, path) in paths.iter().enumerate() {
            for (size, width, height) in [("desktop", 1_280, 900), ("phone", 390, 844)] {
                for (colour, dark) in [("light", false), ("dark", true)] {
                    tab.look(width, height, dark).await;
                    tab.go(path).await;
                    let tall = tab
                        .eval("document.documentElement.scrollHeight")
                        .await
                        .as_u64()
                        .unwrap();
                    tab.look(width, u32::try_from(tall).unwrap().clamp(height, 4_000), dark)
                        .await;
                    let picture = tab.picture().await;
                    assert!(picture.starts_with(b"\x89PNG"));
                    let word = path.split('/').nth(1).unwrap().replace('?', "-");
                    let name = format!("{n:02}-{word}-{size}-{colour}.png");
                    std::fs::write(dir.join(name), picture).unwrap();
                }
            }
        }
    })
    .await;
}
