//! A file of Android's system properties as its init writes it (bionic's `prop_area`): a trie of the parts of names, whose
//! siblings are binary trees.

/// The size of an area, most of which is empty.
const AREA_BYTES: usize = 128 * 1024;
const HEADER_BYTES: usize = 128;
/// The bytes of a value with the zero that ends it.
pub const VALUE_BYTES: usize = 92;
/// name length, property, left, right, children.
const NODE_BYTES: usize = 20;
const PROPERTY: usize = 4;
const LEFT: usize = 8;
const RIGHT: usize = 12;
const CHILDREN: usize = 16;

/// An area; offsets are relative to the end of its header.
#[derive(Debug, Clone)]
pub struct PropertyArea {
    data: Vec<u8>,
    serial: u32,
}

impl Default for PropertyArea {
    fn default() -> Self {
        Self::new()
    }
}

impl PropertyArea {
    /// Contains only the root of the trie, and the space that keeps a value while it is changed.
    pub fn new() -> Self {
        Self { data: vec![0; NODE_BYTES + VALUE_BYTES], serial: 0 }
    }

    /// Adds a new property. Returns the offset of its value in the file.
    ///
    /// # Panics
    /// When it exists already, or `value` has no place.
    pub fn add(&mut self, name: &str, value: &str) -> usize {
        assert!(value.len() < VALUE_BYTES);
        let node = name.split('.').fold(0, |parent, part| self.child(parent, part));
        assert_eq!(self.word(node + PROPERTY), 0, "{name} exists already");
        let property = self.allocate(4 + VALUE_BYTES + name.len() + 1);
        self.set_word(property, (value.len() as u32) << 24);
        self.data[property + 4..][..value.len()].copy_from_slice(value.as_bytes());
        self.data[property + 4 + VALUE_BYTES..][..name.len()].copy_from_slice(name.as_bytes());
        self.set_word(node + PROPERTY, property as u32);
        self.serial += 1;
        HEADER_BYTES + property + 4
    }

    /// The whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [self.data.len() as u32, self.serial].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(*b"PROP");
        bytes.extend(0xfc6e_d0ab_u32.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(&self.data);
        bytes.resize(AREA_BYTES, 0);
        bytes
    }

    /// The node of `part` below `parent`, which is created if it is missing. Shorter names sort first.
    fn child(&mut self, parent: usize, part: &str) -> usize {
        let mut link = parent + CHILDREN;
        loop {
            let node = self.word(link) as usize;
            if node == 0 {
                let made = self.allocate(NODE_BYTES + part.len() + 1);
                self.set_word(made, part.len() as u32);
                self.data[made + NODE_BYTES..][..part.len()].copy_from_slice(part.as_bytes());
                self.set_word(link, made as u32);
                return made;
            }
            let length = self.word(node) as usize;
            let there = &self.data[node + NODE_BYTES..][..length];
            link = match (part.len(), part.as_bytes()).cmp(&(length, there)) {
                std::cmp::Ordering::Equal => return node,
                std::cmp::Ordering::Less => node + LEFT,
                std::cmp::Ordering::Greater => node + RIGHT,
            };
        }
    }

    fn allocate(&mut self, bytes: usize) -> usize {
        let place = self.data.len();
        self.data.resize(place + bytes.next_multiple_of(4), 0);
        place
    }

    fn word(&self, place: usize) -> u32 {
        u32::from_le_bytes(self.data[place..][..4].try_into().unwrap())
    }

    fn set_word(&mut self, place: usize, word: u32) {
        self.data[place..][..4].copy_from_slice(&word.to_le_bytes());
    }
}
