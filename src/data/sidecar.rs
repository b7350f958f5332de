//! What a staged file says of itself, so that its bytes can be taken over without the catalog.
//!
//! # Disk format
//! `<stage key>.json`, one JSON object, keys as in [`Sidecar`]. A path that is not UTF-8 is
//! written as `{"base64": "…"}` instead of a string. Unknown keys are ignored, so later versions
//! may add some; `v` changes when an older reader would misunderstand.

use crate::error::{Error, Kind, Result};
use crate::types::{Generation, Ino, Key, Seq, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const VERSION: u32 = 1;

/// Whether the staged bytes were closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SidecarState {
    /// Open for writing and never closed.
    Writing,
    /// Closed at least once.
    Closed,
}

/// What a staged file says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sidecar {
    /// Path in the mount when it was last written.
    #[serde(with = "path")]
    pub path: Key,
    /// Inode in the catalog that made it.
    pub ino: Ino,
    /// Which content of the inode it is.
    pub generation: Generation,
    /// Place in the order of closes, once closed.
    pub seq: Option<Seq>,
    /// The twelve permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time, ns since the epoch.
    pub mtime_ns: i64,
    /// Bytes.
    pub size: u64,
    /// Location of the home tier.
    pub home: String,
    /// The version at home that these bytes are to replace, as far as it was known; none if they are new there.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "base")]
    pub base: Option<Version>,
    /// Whether it was closed.
    pub state: SidecarState,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    sidecar: T,
}

impl Sidecar {
    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        let mut json = serde_json::to_vec(&Versioned { v: VERSION, sidecar: self })
            .map_err(|error| Error::new(Kind::Corrupt, "write a sidecar").with_source(error))?;
        json.push(b'\n');
        Ok(json)
    }

    pub(super) fn from_json(json: &[u8]) -> Result<Self> {
        let corrupt = |error| Error::new(Kind::Corrupt, "not a sidecar").with_source(error);
        let versioned: Versioned<serde_json::Value> = serde_json::from_slice(json).map_err(corrupt)?;
        if versioned.v != VERSION {
            let text = format!("sidecar of version {}; this program reads {VERSION}", versioned.v);
            return Err(Error::new(Kind::Unsupported, text));
        }
        serde_json::from_value(versioned.sidecar).map_err(corrupt)
    }
}

mod base {
    use super::*;

    pub fn serialize<S: Serializer>(base: &Option<Version>, serializer: S) -> Result<S::Ok, S::Error> {
        base.as_ref().map(|version| STANDARD.encode(&version.0)).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Version>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let bytes = text.map(|text| STANDARD.decode(text)).transpose().map_err(D::Error::custom)?;
        Ok(bytes.map(Version::new))
    }
}

mod path {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Text {
        Utf8(String),
        Bytes { base64: String },
    }

    pub fn serialize<S: Serializer>(path: &Key, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match std::str::from_utf8(path.as_bytes()) {
            Ok(text) => Text::Utf8(text.to_owned()),
            Err(_) => Text::Bytes { base64: STANDARD.encode(path.as_bytes()) },
        };
        text.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        let bytes = match Text::deserialize(deserializer)? {
            Text::Utf8(text) => text.into_bytes(),
            Text::Bytes { base64 } => STANDARD.decode(base64).map_err(D::Error::custom)?,
        };
        Key::parse(bytes).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(path: &[u8]) -> Sidecar {
        Sidecar {
            path: Key::parse(path).unwrap(),
            ino: Ino(7),
            generation: Generation(3),
            seq: Some(Seq(12)),
            mode: 0o640,
            uid: 1000,
            gid: 100,
            mtime_ns: -5,
            size: 1 << 40,
            home: "az://training/prefix".into(),
            base: None,
            state: SidecarState::Closed,
        }
    }

    #[test]
    fn the_disk_format_is_this() {
        let json = String::from_utf8(sidecar(b"run/a.pt").to_json().unwrap()).unwrap();
        assert_eq!(
            json,
            "{\"v\":1,\"path\":\"run/a.pt\",\"ino\":7,\"generation\":3,\"seq\":12,\"mode\":416,\"uid\":1000,\
             \"gid\":100,\"mtime_ns\":-5,\"size\":1099511627776,\"home\":\"az://training/prefix\",\
             \"state\":\"closed\"}\n"
        );
    }

    #[test]
    fn any_path_round_trips() {
        for path in [&b"a/b"[..], b"caf\xc3\xa9 \"x\"", b"\xff\xfe/z", b""] {
            let json = sidecar(path).to_json().unwrap();
            assert_eq!(Sidecar::from_json(&json).unwrap(), sidecar(path));
        }
    }

    #[test]
    fn the_version_to_replace_is_kept() {
        let over = Sidecar { base: Some(Version::new(b"\"0x8\xff\"")), ..sidecar(b"a") };
        assert_eq!(Sidecar::from_json(&over.to_json().unwrap()).unwrap(), over);
    }

    #[test]
    fn nonsense_is_refused() {
        let good = String::from_utf8(sidecar(b"a").to_json().unwrap()).unwrap();
        for bad in ["", "{}", "[1]", &good[..good.len() / 2], &good.replace("\"a\"", "\"../a\"")] {
            assert_eq!(Sidecar::from_json(bad.as_bytes()).unwrap_err().kind(), Kind::Corrupt, "{bad}");
        }
        let newer = good.replace("\"v\":1", "\"v\":2");
        assert_eq!(Sidecar::from_json(newer.as_bytes()).unwrap_err().kind(), Kind::Unsupported);
    }
}
