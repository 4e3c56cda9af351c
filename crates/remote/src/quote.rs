//! Words of a shell.

/// `word` as one word of a POSIX shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"._-/=:,+@%".contains(&it);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The shell of this machine reads a quoted word as it was.
        #[test]
        fn a_shell_reads_a_quoted_word_as_it_was(word in "[^\0]{0,20}") {
            let output = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(&word))]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
