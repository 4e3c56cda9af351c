//! Reads TOML into types and reports the position of an error.
//!
//! The crate toml parses. Its own deserializer asks each type whether it is a date or wants its position, so the binary holds
//! three readers of each type. This one has no dates and needs one reader, which makes a device's binary 112 KiB smaller.

use std::fmt;
use std::ops::Range;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

/// An error and its position. It is one pointer, because the readers of all types copy it at each `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Fault>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    message: String,
    span: Option<Range<usize>>,
    line: usize,
    column: usize,
}

impl Error {
    /// What is wrong and what is expected.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Its line and column, both from 1, the column in characters.
    pub fn position(&self) -> (usize, usize) {
        (self.0.line, self.0.column)
    }

    fn at(mut self, span: &Range<usize>) -> Self {
        self.0.span.get_or_insert_with(|| span.clone());
        self
    }

    fn in_text(mut self, text: &str) -> Self {
        let start = self.0.span.as_ref().map_or(0, |span| span.start);
        (self.0.line, self.0.column) = position(text.as_bytes(), start);
        self
    }
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Box::new(Fault { message: message.to_string(), span: None, line: 1, column: 1 }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.0.line, self.0.column, self.0.message)
    }
}

impl std::error::Error for Error {}

/// Reads `text`.
///
/// # Errors
/// The first text that is not TOML, or that the type does not accept.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let read = DeTable::parse(text).map_err(|error| {
        let mut refused = Error::custom(error.message());
        refused.0.span = error.span();
        refused
    });
    let read = read.and_then(|table| {
        let span = table.span();
        T::deserialize(Node { value: DeValue::Table(table.into_inner()), span })
    });
    read.map_err(|error| error.in_text(text))
}

/// Line and column, as of [`position`], of the value with the dotted `name` in the TOML `text`.
pub fn position_of(text: &str, name: &str) -> Option<(usize, usize)> {
    let table = DeTable::parse(text).ok()?.into_inner();
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let mut value = table.get(first)?;
    for key in rest.into_iter().flat_map(|rest| rest.split('.')) {
        let DeValue::Table(section) = value.get_ref() else { return None };
        value = section.get(key)?;
    }
    Some(position(text.as_bytes(), value.span().start))
}

/// Line and column of the byte `offset`, both from 1, the column in characters.
pub fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let column = 1 + String::from_utf8_lossy(&before[line_start..]).chars().count();
    (line, column)
}

/// A value with its position, for errors that are found after everything is read. Only [`from_str`] supports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    /// Its first byte in the text.
    pub offset: usize,
}

/// The name by which [`Located`] requests a position.
const LOCATED: &str = "brisk located";

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WithOffset<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for WithOffset<T> {
            type Value = Located<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its position")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Located<T>, A::Error> {
                let missing = || A::Error::custom("a value has no position");
                let offset = elements.next_element()?.ok_or_else(missing)?;
                Ok(Located { offset, value: elements.next_element()?.ok_or_else(missing)? })
            }
        }

        deserializer.deserialize_newtype_struct(LOCATED, WithOffset(std::marker::PhantomData))
    }
}

/// A value of the text.
struct Node<'de> {
    value: DeValue<'de>,
    span: Range<usize>,
}

impl Node<'_> {
    fn unexpected(&self, expected: &dyn Expected) -> Error {
        let found = match &self.value {
            DeValue::String(text) => Unexpected::Str(text),
            DeValue::Boolean(value) => Unexpected::Bool(*value),
            other => Unexpected::Other(other.type_str()),
        };
        Error::invalid_type(found, expected).at(&self.span)
    }
}

impl<'de> From<Spanned<DeValue<'de>>> for Node<'de> {
    fn from(value: Spanned<DeValue<'de>>) -> Self {
        Self { span: value.span(), value: value.into_inner() }
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let span = self.span;
        let value = match self.value {
            DeValue::String(text) => visitor.visit_str(&text),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                match (i64::from_str_radix(digits, radix), u64::from_str_radix(digits, radix)) {
                    (Ok(number), _) => visitor.visit_i64(number),
                    (_, Ok(number)) => visitor.visit_u64(number),
                    _ => Err(Error::custom("this integer has more than 64 bits")),
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(Error::custom("this is not a number")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(value),
            DeValue::Datetime(_) => Err(Error::custom("no key takes a date or a time")),
            DeValue::Array(array) => visitor.visit_seq(Elements(array.into_iter())),
            DeValue::Table(table) => visitor.visit_map(Entries::of(table)),
        };
        value.map_err(|error| error.at(&span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == LOCATED {
            visitor.visit_seq(OffsetAndValue { offset: Some(self.span.start), value: Some(self) })
        } else {
            visitor.visit_newtype_struct(self)
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let span = self.span;
        let value = match self.value {
            DeValue::String(text) => visitor.visit_enum(StrDeserializer::<Error>::new(&text)),
            DeValue::Table(table) if table.len() == 1 => visitor.visit_enum(Entries::of(table)),
            _ => Err(Error::custom("this must be a string, or a table with one key")),
        };
        value.map_err(|error| error.at(&span))
    }

    /// Fields have names: no type is read from an array of its field values.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let DeValue::Table(table) = self.value else {
            return Err(self.unexpected(&visitor));
        };
        visitor.visit_map(Entries::of(table)).map_err(|error| error.at(&self.span))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let DeValue::Array(array) = self.value else {
            return Err(self.unexpected(&visitor));
        };
        visitor.visit_seq(Elements(array.into_iter())).map_err(|error| error.at(&self.span))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 char str string bytes byte_buf unit ignored_any unit_struct tuple_struct
        identifier
    }
}

struct Elements<'de>(<DeArray<'de> as IntoIterator>::IntoIter);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.next().map(|element| seed.deserialize(Node::from(element))).transpose()
    }
}

struct OffsetAndValue<'de> {
    offset: Option<usize>,
    value: Option<Node<'de>>,
}

impl<'de> SeqAccess<'de> for OffsetAndValue<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.offset.take() {
            Some(offset) => seed.deserialize(offset.into_deserializer()).map(Some),
            None => self.value.take().map(|value| seed.deserialize(value)).transpose(),
        }
    }
}

/// The keys and values of a table; for an enum variant, the one key is its name.
struct Entries<'de> {
    rest: <DeTable<'de> as IntoIterator>::IntoIter,
    value: Option<Node<'de>>,
}

impl<'de> Entries<'de> {
    fn of(table: DeTable<'de>) -> Self {
        Self { rest: table.into_iter(), value: None }
    }

    fn key(&mut self) -> Option<Spanned<DeString<'de>>> {
        let (key, value) = self.rest.next()?;
        self.value = Some(Node::from(value));
        Some(key)
    }

    fn value(&mut self) -> Result<Node<'de>, Error> {
        self.value.take().ok_or_else(|| Error::custom("a value is requested before its key"))
    }
}

fn read_key<'de, S: DeserializeSeed<'de>>(seed: S, key: &Spanned<DeString<'de>>) -> Result<S::Value, Error> {
    seed.deserialize(StrDeserializer::<Error>::new(key.get_ref())).map_err(|error| error.at(&key.span()))
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.key().map(|key| read_key(seed, &key)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.value()?;
        let span = value.span.clone();
        seed.deserialize(value).map_err(|error| error.at(&span))
    }
}

impl<'de> EnumAccess<'de> for Entries<'de> {
    type Error = Error;
    type Variant = Node<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<(S::Value, Node<'de>), Error> {
        let key = self.key().ok_or_else(|| Error::custom("this must be a table with one key"))?;
        Ok((read_key(seed, &key)?, self.value()?))
    }
}

impl<'de> VariantAccess<'de> for Node<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match &self.value {
            DeValue::Table(table) if table.is_empty() => Ok(()),
            _ => Err(Error::custom("this name takes no value").at(&self.span)),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use toml::{Table, Value};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Plain,
        Number(u64),
        Pair(i8, i8),
        Named { on: bool },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Name(String);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        name: Name,
        kind: Kind,
        shares: Option<[f64; 2]>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Whole {
        title: Option<String>,
        #[serde(default)]
        sizes: BTreeMap<String, u64>,
        #[serde(default)]
        part: Vec<Part>,
    }

    const WHOLE: &str = r#"
title = "ü"
sizes = { a = 0xff, "b c" = 18_446_744_073_709_551_615 }

[[part]]
name = 'x'
kind = "plain"
shares = [0.5, 1e3]

[[part]]
name = "y"
kind.pair = [-1, 1]

[[part]]
name = "z"
kind = { number = 7 }

[[part]]
name = ""
[part.kind.named]
on = true
"#;

    #[test]
    fn types_are_read_as_tomls_own_deserializer_reads_them() {
        for text in ["", "sizes = {}", WHOLE] {
            assert_eq!(from_str::<Whole>(text).unwrap(), toml::from_str(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn errors_are_reported_with_their_position() {
        for (text, position, message) in [
            ("title = 1", (1, 9), "invalid type: integer `1`, expected a string"),
            ("title = \"a\"\n\nother = 1", (3, 1), "unknown field `other`, expected one of `title`, `sizes`, `part`"),
            ("[[part]]\nname = \"a\"\n", (1, 1), "missing field `kind`"),
            ("[[part]]\nname = \"a\"\nkind = \"none\"", (3, 8), "unknown variant `none`"),
            ("[[part]]\nname = \"a\"\nkind = 3", (3, 8), "this must be a string, or a table with one key"),
            ("[[part]]\nname = \"a\"\nkind = { plain = 1, number = 2 }", (3, 8), "this must be a string"),
            ("[[part]]\nname = \"a\"\nkind = { number = \"ü\" }", (3, 19), "invalid type: string \"ü\""),
            ("[[part]]\nname = \"ü\"; kind = 3", (2, 11), "unexpected key or value"),
            ("part = 1", (1, 8), "invalid type: integer, expected a sequence"),
            ("part = [7]", (1, 9), "invalid type: integer, expected struct Part"),
            ("part = [[\"a\", \"plain\"]]", (1, 9), "invalid type: array, expected struct Part"),
            ("title = 2026-01-01", (1, 9), "no key takes a date or a time"),
            ("sizes = { a = 99999999999999999999 }", (1, 15), "this integer has more than 64 bits"),
            ("sizes = { a = -1 }", (1, 15), "invalid value: integer `-1`, expected u64"),
            ("title = \"a\"\ntitle = \"b\"", (2, 1), "duplicate key"),
            ("title = \"a", (1, 11), "invalid basic string"),
        ] {
            let error = from_str::<Whole>(text).unwrap_err();
            assert!(error.message().contains(message), "{text}: {error}");
            assert_eq!(error.position(), position, "{text}: {error}");
        }
    }

    #[test]
    fn a_located_value_has_its_offset() {
        let found: BTreeMap<String, Located<Option<u8>>> = from_str("a = 1\nb   = 22").unwrap();
        assert_eq!(found["a"], Located { value: Some(1), offset: 4 });
        assert_eq!(found["b"], Located { value: Some(22), offset: 12 });
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a\nüb\n\nc".as_bytes();
        for (offset, expected) in
            [(0, (1, 1)), (1, (1, 2)), (2, (2, 1)), (4, (2, 2)), (6, (3, 1)), (7, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(position(text, offset), expected, "{offset}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("equal to itself", |number| !number.is_nan()).prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|entries| Value::Table(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_document_is_read_as_it_was_written(entries in prop::collection::btree_map(any::<String>(), value(), 0..4)) {
            let table: Table = entries.into_iter().collect();
            let text = table.to_string();
            prop_assert_eq!(from_str::<Table>(&text).unwrap(), table, "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]a-c.=\"'{}0-9 \n_-]{0,40}") {
            prop_assert_eq!(from_str::<Table>(&text).ok(), toml::from_str(&text).ok());
        }
    }
}
