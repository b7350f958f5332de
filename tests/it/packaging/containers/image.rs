//! The recipe of the image. Nothing builds it here, for that needs a registry; what it names is there.

use std::path::Path;

#[test]
fn the_recipe_copies_what_is_there_and_starts_what_it_copied() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(here.join("packaging/Containerfile")).expect("the recipe");
    let mut stages = 0;
    let mut made = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["FROM", ..] => stages += 1,
            ["COPY", "--from=build", sources @ .., to] => {
                made.extend(
                    sources
                        .iter()
                        .map(|source| format!("{to}{}", source.rsplit('/').next().expect("a name"))),
                );
            }
            ["COPY", sources @ .., _to] => {
                for source in sources {
                    assert!(here.join(source).exists(), "{line}");
                }
            }
            ["ENTRYPOINT", program] => {
                let program = program.trim_matches(|c| "[]\"".contains(c));
                assert!(made.iter().any(|made| made == program), "{program} is none of {made:?}");
            }
            _ => {}
        }
    }
    assert_eq!((stages, made.len()), (2, 2));
    // What the build reads of the repository beside the sources.
    let copied = |name: &str| text.lines().any(|line| line.starts_with("COPY ") && line.contains(name));
    for name in ["Cargo.lock", "src", "tools", "packaging/examples"] {
        assert!(copied(name), "{name}");
    }
}
