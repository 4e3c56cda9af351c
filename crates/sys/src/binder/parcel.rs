//! Parcels: the data of calls and answers, as libbinder lays them out.

use super::abi;

/// A parcel that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parcel {
    pub data: Vec<u8>,
    /// The offsets of its objects.
    pub offsets: Vec<u64>,
}

impl Parcel {
    /// Appends a 32-bit number.
    pub fn put_i32(&mut self, value: i32) {
        self.data.extend(value.to_ne_bytes());
    }

    /// Appends 32-bit numbers.
    pub fn put_numbers(&mut self, values: &[i32]) {
        values.iter().for_each(|&value| self.put_i32(value));
    }

    /// Appends bytes as they are; their number must be a multiple of four.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len().is_multiple_of(4));
        self.data.extend_from_slice(bytes);
    }

    /// Appends a String16: the number of UTF-16 units, the units, a zero, and zeros up to four bytes.
    pub fn put_string16(&mut self, text: &str) {
        let at = self.data.len();
        self.put_i32(0);
        let mut units = 0i32;
        for unit in text.encode_utf16() {
            self.data.extend(unit.to_ne_bytes());
            units += 1;
        }
        self.data[at..at + 4].copy_from_slice(&units.to_ne_bytes());
        self.data.extend([0; 2]);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
    }

    /// Appends an object of this process, named `pointer`, which must not be zero.
    pub fn put_own_object(&mut self, pointer: u64) {
        self.put_object(abi::TYPE_BINDER, pointer);
    }

    /// Appends an object of another process, by its handle.
    pub fn put_handle(&mut self, handle: u32) {
        self.put_object(abi::TYPE_HANDLE, u64::from(handle));
    }

    /// Appends a null object.
    pub fn put_null(&mut self) {
        self.put_object(abi::TYPE_BINDER, 0);
    }

    fn put_object(&mut self, kind: u32, name: u64) {
        // The offsets list objects only; a null binder is not one.
        if name != 0 || kind == abi::TYPE_HANDLE {
            self.offsets.push(self.data.len() as u64);
        }
        self.data.extend(kind.to_ne_bytes());
        self.data.extend(abi::OBJECT_FLAGS.to_ne_bytes());
        self.data.extend(name.to_ne_bytes());
        self.data.extend(0u64.to_ne_bytes());
    }
}

/// An object in a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// The null object.
    Null,
    /// An object of this process, by the name under which it was sent.
    Own(u64),
    /// An object of another process, by its handle.
    Handle(u32),
}

/// Reads a parcel from its start.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { data }
    }

    /// The unread rest.
    pub fn rest(&self) -> &'a [u8] {
        self.data
    }

    /// A 32-bit number; `None` at the end.
    pub fn i32(&mut self) -> Option<i32> {
        let (chunk, rest) = self.data.split_first_chunk()?;
        self.data = rest;
        Some(i32::from_ne_bytes(*chunk))
    }

    /// The next `count` bytes; `None` when there are fewer.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.data.split_at_checked(count)?;
        self.data = rest;
        Some(bytes)
    }

    /// The UTF-16 units of a String16; `None` when it is null, truncated, or not terminated by zero.
    pub fn string16(&mut self) -> Option<Vec<u16>> {
        let mut reader = self.clone();
        let units = usize::try_from(reader.i32()?).ok()?;
        let bytes = units.checked_add(1)?.checked_mul(2)?;
        let all = reader.bytes(bytes.next_multiple_of(4))?;
        let mut text: Vec<u16> =
            all[..bytes].chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect();
        if text.pop() != Some(0) {
            return None;
        }
        *self = reader;
        Some(text)
    }

    /// An object; `None` when there is none, or its kind is unknown here.
    pub fn object(&mut self) -> Option<Object> {
        let (object, rest) = self.data.split_at_checked(abi::OBJECT_BYTES)?;
        let kind = u32::from_ne_bytes(*object.first_chunk()?);
        let name = u64::from_ne_bytes(*object.get(8..)?.first_chunk()?);
        let object = match kind {
            abi::TYPE_BINDER if name == 0 => Object::Null,
            abi::TYPE_BINDER => Object::Own(name),
            // The handle is the lower half of the union; not every kernel sets the upper half.
            abi::TYPE_HANDLE => Object::Handle(name as u32),
            _ => return None,
        };
        self.data = rest;
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_string16_has_a_length_an_end_and_padding() {
        for (text, bytes) in [
            ("", &[0, 0, 0, 0, 0, 0, 0, 0][..]),
            ("a", &[1, 0, 0, 0, b'a', 0, 0, 0]),
            ("ab", &[2, 0, 0, 0, b'a', 0, b'b', 0, 0, 0, 0, 0]),
        ] {
            let mut parcel = Parcel::default();
            parcel.put_string16(text);
            assert_eq!(parcel.data, bytes, "{text:?}");
        }
    }

    #[test]
    fn written_values_are_read_back() {
        let mut parcel = Parcel::default();
        parcel.put_i32(-7);
        parcel.put_string16("service ü𝄞");
        parcel.put_own_object(9);
        parcel.put_handle(4);
        parcel.put_null();
        assert_eq!(parcel.offsets.len(), 2);
        let mut reader = Reader::new(&parcel.data);
        assert_eq!(reader.i32(), Some(-7));
        assert_eq!(String::from_utf16(&reader.string16().unwrap()).unwrap(), "service ü𝄞");
        assert_eq!([(); 3].map(|()| reader.object()), [Object::Own(9), Object::Handle(4), Object::Null].map(Some));
        assert_eq!((reader.i32(), reader.object(), reader.string16()), (None, None, None));
    }

    #[test]
    fn strings_that_lie_about_their_length_are_refused() {
        for bytes in [
            &[5, 0, 0, 0, b'a', 0, 0, 0][..],
            &[255, 255, 255, 255],
            &[255, 255, 255, 127, 0, 0],
            &[1, 0, 0, 0, 65, 0, 66, 0],
        ] {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.string16(), None);
            assert_eq!(reader.rest(), bytes, "a failed read consumes nothing");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives_a_round_trip(text in ".{0,60}") {
            let mut parcel = Parcel::default();
            parcel.put_string16(&text);
            prop_assert_eq!(parcel.data.len() % 4, 0);
            let mut reader = Reader::new(&parcel.data);
            prop_assert_eq!(String::from_utf16(&reader.string16().unwrap()).unwrap(), text);
            prop_assert!(reader.rest().is_empty());
        }
    }
}
