//! The wire formats of Android's context managers, release by release (`wire_formats.toml`).

use std::fmt::Write;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer};

use super::abi;
use super::cache::{CacheProfile, HEADER_BYTES};
use super::parcel::{Object, Parcel, Reader};
use brisk_base::toml_text;

/// The interface of every context manager.
pub const DESCRIPTOR: &str = "android.os.IServiceManager";
/// `DUMP_FLAG_PRIORITY_ALL`.
const DUMP_PRIORITY_ALL: i32 = 15;
/// `DUMP_FLAG_PRIORITY_DEFAULT`.
const DUMP_PRIORITY_DEFAULT: i32 = 8;

/// How one release's context manager encodes requests and answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireFormat {
    /// Its name in brisk: `android-11`.
    pub name: String,
    /// The releases that use it.
    pub releases: String,
    /// The bytes that begin a request and are not part of the question.
    #[serde(deserialize_with = "hexadecimal")]
    pub volatile: Vec<u8>,
    /// The bytes that follow them.
    #[serde(deserialize_with = "hexadecimal")]
    pub marker: Vec<u8>,
    /// The codes that look up a service; the last one does not wait for it.
    pub lookup: Vec<u32>,
    /// The codes that look up a service and answer with a union.
    #[serde(default)]
    pub lookup_union: Vec<u32>,
    /// What that union may hold; the lab's context manager answers with the first.
    #[serde(default)]
    pub unions: Vec<ServiceUnion>,
    /// The code that registers a service.
    pub add: u32,
    /// What follows the binder in a registration.
    pub add_tail: Vec<AddTail>,
    /// The code that lists services.
    pub list: u32,
    /// How it lists them.
    pub list_style: ListStyle,
    /// The codes by which a service requests notifications about its clients.
    pub clients: Vec<u32>,
    /// The codes that change no registration.
    pub readonly: Vec<u32>,
    /// Answers begin with an exception code.
    pub status: bool,
    /// What may follow a binder; empty where nothing does.
    #[serde(deserialize_with = "hexadecimals")]
    pub stability: Vec<Vec<u8>>,
    /// What follows a binder that brisk sends.
    #[serde(default, deserialize_with = "hexadecimal")]
    pub system: Vec<u8>,
}

/// A union `Service` that holds a service, not an accessor, which makes connections to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceUnion {
    /// The binder alone.
    Binder,
    /// The binder and whether it is a lazy service.
    Metadata,
}

impl ServiceUnion {
    /// Bytes of the metadata: this number, the binder, its stability, whether the service is lazy.
    const METADATA_BYTES: i32 = 36;

    /// The numbers before the binder: the union is not null and its first member is set; the metadata is not null, its length.
    fn head(self) -> &'static [i32] {
        match self {
            Self::Binder => &[1, 0],
            Self::Metadata => &[1, 0, 1, Self::METADATA_BYTES],
        }
    }

    /// The numbers after the binder: the service is not lazy.
    fn tail(self) -> &'static [i32] {
        match self {
            Self::Binder => &[],
            Self::Metadata => &[0],
        }
    }
}

/// A number after the binder in a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddTail {
    /// Whether isolated processes may look it up.
    AllowIsolated,
    /// Its dump priority.
    DumpPriority,
}

/// How services are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListStyle {
    /// One per call, by its index.
    Index,
    /// One per call, by its index and for a dump priority.
    IndexAndPriority,
    /// All at once, for a dump priority.
    Array,
}

/// A client's request to a context manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagerRequest {
    /// Looks up a service.
    Lookup {
        /// Its name in UTF-16.
        name: Vec<u16>,
    },
    /// Registers a service.
    Add {
        /// Its name in UTF-16.
        name: Vec<u16>,
        /// The service's object.
        object: Object,
        /// Whether isolated processes may look it up.
        allow_isolated: bool,
    },
    /// Lists all services, or the one at this index.
    List {
        /// The index, where each call lists one.
        index: Option<usize>,
    },
}

fn hexadecimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    bytes_of(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not pairs of hexadecimal digits")))
}

fn hexadecimals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let bytes = texts.iter().map(|text| bytes_of(text)).collect::<Option<_>>();
    bytes.ok_or_else(|| serde::de::Error::custom("a word is not pairs of hexadecimal digits"))
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

/// The binder in `union`, after the exception code.
fn read_union(union: ServiceUnion, mut reader: Reader<'_>) -> Option<Object> {
    union.head().iter().all(|&number| reader.i32() == Some(number)).then(|| reader.object())?
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl WireFormat {
    /// All formats, oldest first.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<WireFormat>> = OnceLock::new();
        #[derive(Deserialize)]
        struct File {
            format: Vec<WireFormat>,
        }
        ALL.get_or_init(|| {
            let text = include_str!("../wire_formats.toml");
            let file: File = toml_text::from_str(text).expect("a test parses this very text");
            file.format
        })
    }

    /// The format called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|format| format.name == name)
    }

    /// All codes that look up a service.
    pub fn lookup_codes(&self) -> Vec<u32> {
        [&self.lookup[..], &self.lookup_union].concat()
    }

    /// The code that looks up a service without waiting for it.
    pub fn check_code(&self) -> u32 {
        self.lookup.last().copied().unwrap_or_default()
    }

    /// The request to look up the service `name`.
    pub fn lookup_request(&self, name: &str) -> Parcel {
        let mut parcel = self.request();
        parcel.put_string16(name);
        parcel
    }

    /// The request to register this process's object `pointer` as `name`, for all users.
    pub fn add_request(&self, name: &str, pointer: u64) -> Parcel {
        let mut parcel = self.request();
        parcel.put_string16(name);
        parcel.put_own_object(pointer);
        parcel.put_bytes(&self.system);
        for tail in &self.add_tail {
            parcel.put_i32(match tail {
                AddTail::AllowIsolated => 1,
                AddTail::DumpPriority => DUMP_PRIORITY_DEFAULT,
            });
        }
        parcel
    }

    /// The request for the names of services: for the one at `index`, or for all where one call lists them.
    pub fn list_request(&self, index: i32) -> Parcel {
        let mut parcel = self.request();
        if self.list_style != ListStyle::Array {
            parcel.put_i32(index);
        }
        if self.list_style != ListStyle::Index {
            parcel.put_i32(DUMP_PRIORITY_ALL);
        }
        parcel
    }

    /// The names in an answer to [`WireFormat::list_request`].
    pub fn read_names(&self, answer: &[u8]) -> Option<Vec<String>> {
        let mut reader = self.answer_reader(answer)?;
        let count = if self.list_style == ListStyle::Array { reader.i32()?.max(0) } else { 1 };
        (0..count).map(|_| String::from_utf16(&reader.string16()?).ok()).collect()
    }

    /// The service in the answer to a lookup; `None` when the answer is not of this format.
    pub fn read_service(&self, answer: &[u8]) -> Option<Object> {
        let mut reader = self.answer_reader(answer)?;
        // Before 11, an answer without a binder is a number.
        if !self.status && reader.rest().len() < abi::OBJECT_BYTES {
            return Some(Object::Null);
        }
        reader.object().or_else(|| self.unions.iter().find_map(|union| read_union(*union, reader.clone())))
    }

    /// The question in a call of `code` with this data; `None` for other functions, and for data of another format.
    pub fn parse_manager_request(&self, code: u32, data: &[u8]) -> Option<ManagerRequest> {
        let mut reader = Reader::new(data);
        reader.bytes(self.volatile.len())?;
        let header = self.header();
        (reader.bytes(header.len())? == header).then_some(())?;
        if self.lookup.contains(&code) || self.lookup_union.contains(&code) {
            return Some(ManagerRequest::Lookup { name: reader.string16()? });
        }
        if code == self.list {
            let index = if self.list_style == ListStyle::Array { None } else { Some(reader.i32()?.max(0) as usize) };
            return Some(ManagerRequest::List { index });
        }
        if code != self.add {
            return None;
        }
        let (name, object) = (reader.string16()?, reader.object()?);
        reader.bytes(self.system.len())?;
        let allow_isolated = reader.i32()? != 0;
        Some(ManagerRequest::Add { name, object, allow_isolated })
    }

    /// The answer to a lookup by `code`: the service `handle`, or none.
    pub fn lookup_answer(&self, code: u32, handle: Option<u32>) -> Parcel {
        let mut parcel = self.answer();
        let union = self.unions.first().filter(|_| self.lookup_union.contains(&code));
        parcel.put_numbers(union.map_or(&[][..], |union| union.head()));
        match handle {
            Some(handle) => {
                parcel.put_handle(handle);
                parcel.put_bytes(&self.system);
            }
            None if self.status => {
                parcel.put_null();
                parcel.put_bytes(self.stability.first().map_or(&[], Vec::as_slice));
            }
            None => parcel.put_i32(0),
        }
        parcel.put_numbers(union.map_or(&[][..], |union| union.tail()));
        parcel
    }

    /// The answer of a function that succeeded.
    pub fn success_answer(&self) -> Parcel {
        let mut parcel = Parcel::default();
        parcel.put_i32(0);
        parcel
    }

    /// The answer that lists these names.
    pub fn names_answer(&self, names: &[String]) -> Parcel {
        let mut parcel = self.answer();
        if self.list_style == ListStyle::Array {
            parcel.put_i32(names.len() as i32);
        }
        names.iter().for_each(|name| parcel.put_string16(name));
        parcel
    }

    /// The key under which the driver caches an answer: the part of a lookup's request that is the question.
    pub fn cache_key(&self, name: &str) -> Vec<u8> {
        let mut parcel = Parcel::default();
        parcel.put_string16(name);
        parcel.data
    }

    /// The profile with which the driver's cache understands this format without the manager's help.
    pub fn transparent_profile(&self) -> String {
        let codes = |codes: &[u32]| codes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut readonly = self.readonly.clone();
        readonly.extend([abi::PING, abi::DUMP, abi::INTERFACE]);
        let mut text = format!(
            "lookup={} readonly={} volatile={} header={}",
            codes(&self.lookup_codes()),
            codes(&readonly),
            self.volatile.len(),
            hex(&self.header())
        );
        if !self.clients.is_empty() {
            let _ = write!(text, " clients={}", codes(&self.clients));
        }
        text += &self.answer_pattern(&[], &[]);
        self.unions.iter().for_each(|union| text += &self.answer_pattern(union.head(), union.tail()));
        text
    }

    /// The bytes around the binder of an answer, in the terms of the driver's cache.
    fn answer_pattern(&self, head: &[i32], tail: &[i32]) -> String {
        let (mut before, mut behind) = (self.answer(), Parcel::default());
        before.put_numbers(head);
        behind.put_numbers(tail);
        let reply = if before.data.is_empty() { String::new() } else { format!(" reply={}", hex(&before.data)) };
        let tails: Vec<String> = self.stability.iter().map(|level| hex(level) + &hex(&behind.data)).collect();
        if tails.is_empty() { reply } else { format!("{reply} tail={}", tails.join(",")) }
    }

    /// The profile with which a manager of this format lets the driver cache marked answers. Android's isolated users get none.
    pub fn cooperative_profile(&self) -> CacheProfile {
        let header = self.header();
        let mut bytes = [0; HEADER_BYTES];
        bytes[..header.len()].copy_from_slice(&header);
        CacheProfile {
            lookup_codes: self.lookup_codes().iter().fold(0, |codes, code| codes | 1 << code),
            volatile_size: self.volatile.len() as u32,
            header_size: header.len() as u32,
            uid_span: 100_000,
            isolated_first: 90_000,
            isolated_last: 99_999,
            reserved: 0,
            header: bytes,
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut parcel = Parcel::default();
        parcel.put_bytes(&self.marker);
        parcel.put_string16(DESCRIPTOR);
        parcel.data
    }

    /// The bytes that begin every request.
    pub fn request(&self) -> Parcel {
        let mut parcel = Parcel::default();
        parcel.put_bytes(&self.volatile);
        parcel.put_bytes(&self.header());
        parcel
    }

    fn answer(&self) -> Parcel {
        let mut parcel = Parcel::default();
        if self.status {
            parcel.put_i32(0);
        }
        parcel
    }

    /// Reads after the exception code; `None` when there is an exception.
    fn answer_reader<'a>(&self, answer: &'a [u8]) -> Option<Reader<'a>> {
        let mut reader = Reader::new(answer);
        if self.status && reader.i32()? != 0 {
            return None;
        }
        Some(reader)
    }
}

#[cfg(test)]
mod tests;
