//! Sorts short lists with little code: each use of the standard library's sorts adds some 2.5 KiB to a device's binary.

/// Sorts `items` so that none `is_after` the next one; equal items keep their order. For lists of up to some hundreds: the time
/// grows with the square of their length.
pub fn insertion_sort<T>(items: &mut [T], is_after: impl Fn(&T, &T) -> bool) {
    for last in 1..items.len() {
        let mut place = last;
        while place > 0 && is_after(&items[place - 1], &items[place]) {
            items.swap(place - 1, place);
            place -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(items in proptest::collection::vec((0u8..9, any::<u8>()), 0..60)) {
            let (mut sorted, mut expected) = (items.clone(), items);
            insertion_sort(&mut sorted, |one, next| one.0 > next.0);
            expected.sort_by_key(|item| item.0);
            prop_assert_eq!(sorted, expected);
        }
    }
}
