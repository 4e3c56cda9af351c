//! Names of a phone's services: what is looked up where a device has no lookups of its own.

/// About a hundred names of services of Android phones.
const NAMES: &str = include_str!("services.txt");

/// `count` names: those of phones, then numbered ones.
pub fn names(count: usize) -> Vec<String> {
    let numbered = (1..).map(|number| format!("vendor.service.{number}"));
    NAMES.lines().map(str::to_owned).chain(numbered).take(count).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_all_different() {
        for count in [0, 1, 100, 250] {
            assert_eq!(names(count).into_iter().collect::<BTreeSet<_>>().len(), count);
        }
        assert!(names(100).iter().all(|name| name.is_ascii() && !name.contains(' ')));
    }
}
