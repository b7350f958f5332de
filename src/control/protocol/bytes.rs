//! Paths in JSON: a string where it is UTF-8, base64 where it is not.

use super::WirePath;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes { base64: std::borrow::Cow<'a, str> },
}

impl Serialize for WirePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Form::Text(text.into()),
            Err(_) => Form::Bytes { base64: STANDARD.encode(&self.0).into() },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WirePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            Form::Bytes { base64 } => {
                STANDARD.decode(base64.as_bytes()).map(Self).map_err(serde::de::Error::custom)
            }
        }
    }
}
