//! "Did you mean …?" by edit distance.

/// The option nearest to `word`, if one is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, options: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let word = plain(word);
    let tolerance = (word.chars().count() / 3).max(1);
    let distances = options.into_iter().map(|option| (distance(&word, &plain(option)), option));
    distances
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|best| best.1)
}

fn distance(word: &str, option: &str) -> usize {
    // Plural and singular are one edit however short the word is.
    strsim::damerau_levenshtein(word, option)
}

/// "; did you mean `x`?", or nothing.
pub(crate) fn did_you_mean<'a>(word: &str, options: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, options).map_or_else(String::new, |option| format!("; did you mean `{option}`?"))
}

/// `"a", "b" or "c"`, as values are written.
pub(super) fn either<'a>(options: impl IntoIterator<Item = &'a str>) -> String {
    either_of(options.into_iter().map(|option| format!("\"{option}\"")))
}

/// `a, b or c`.
pub(super) fn either_of(options: impl IntoIterator<Item = impl Into<String>>) -> String {
    let options: Vec<String> = options.into_iter().map(Into::into).collect();
    match options.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => options.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let options = ["azure-files", "lustre", "local", "blob"];
        for (word, meant) in [
            ("azurefiles", "azure-files"),
            ("Lustre", "lustre"),
            ("lsutre", "lustre"),
            ("azure_files", "azure-files"),
        ] {
            assert_eq!(nearest(word, options), Some(meant));
        }
        assert_eq!(nearest("postgres", options), None);
    }

    #[test]
    fn lists_read_well() {
        assert_eq!(either(["a", "b", "c"]), "\"a\", \"b\" or \"c\"");
        assert_eq!(either(["a"]), "\"a\"");
    }
}
