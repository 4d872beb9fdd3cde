//! `[sandbox]`: whether commands are enclosed, and what they may do then.

use std::fmt;
use std::path::{Path, PathBuf};

use castellan_gate::policy::{PROJECT_FOLDER, PROJECT_RULES};
use castellan_host::sandbox::{Mode, Network, Wish};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The entry of `write` that stands for all build caches.
const CACHES: &str = "caches";

/// What is wanted of the sandbox. `sandbox = "require"` is short for a table with that mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SandboxConfig {
    pub(crate) mode: SandboxMode,
    pub(crate) network: SandboxNetwork,
    /// What commands may write beside their workspace and the temporary folder.
    pub(crate) write: Vec<WriteFolder>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            mode: SandboxMode::default(),
            network: SandboxNetwork::default(),
            write: vec![WriteFolder(CACHES.to_owned())],
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxMode {
    /// The best one that works here, or none.
    #[default]
    Auto,
    /// One that works, or nothing runs.
    Require,
    /// None.
    Off,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxNetwork {
    #[default]
    Allow,
    Deny,
}

/// A folder from `/` or `~` on, or `caches`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct WriteFolder(String);

impl TryFrom<String> for WriteFolder {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let in_home = text == "~" || text.starts_with("~/");
        if text == CACHES || in_home || Path::new(&text).is_absolute() {
            return Ok(Self(text));
        }
        let why = if text.starts_with('~') {
            "the home of somebody else; write the whole path"
        } else {
            "relative to nothing in particular; begin it with `/` or `~/`, or write `caches` for \
             the usual build caches"
        };
        Err(format!("`{text}` is {why}"))
    }
}

impl From<WriteFolder> for String {
    fn from(folder: WriteFolder) -> Self {
        folder.0
    }
}

impl<'de> Deserialize<'de> for SandboxConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The long form.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct Table {
            mode: SandboxMode,
            network: SandboxNetwork,
            write: Vec<WriteFolder>,
        }

        impl Default for Table {
            fn default() -> Self {
                let SandboxConfig {
                    mode,
                    network,
                    write,
                } = SandboxConfig::default();
                Self {
                    mode,
                    network,
                    write,
                }
            }
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Table;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, `require`, `off`, or a table with `mode`, `network`, `write`")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Table, E> {
                let mode = SandboxMode::deserialize(serde::de::value::StrDeserializer::new(word))?;
                Ok(Table {
                    mode,
                    ..Table::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map))
            }
        }

        let Table {
            mode,
            network,
            write,
        } = deserializer.deserialize_any(Either)?;
        Ok(Self {
            mode,
            network,
            write,
        })
    }
}

impl SandboxConfig {
    /// The wish this is, for a user with this home. `hidden` and `shown` are castellan's own.
    pub(crate) fn wish(
        &self,
        home: Option<&Path>,
        hidden: Vec<PathBuf>,
        shown: Vec<PathBuf>,
    ) -> Wish {
        let folder = |WriteFolder(text): &WriteFolder| {
            let below_home = text
                .strip_prefix('~')
                .map(|rest| rest.trim_start_matches('/'));
            match (below_home, home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(text),
            }
        };
        let is_caches = |folder: &&WriteFolder| folder.0 == CACHES;
        Wish {
            mode: match self.mode {
                SandboxMode::Auto => Mode::Auto,
                SandboxMode::Require => Mode::Require,
                SandboxMode::Off => Mode::Off,
            },
            network: match self.network {
                SandboxNetwork::Allow => Network::Allow,
                SandboxNetwork::Deny => Network::Deny,
            },
            write: self
                .write
                .iter()
                .filter(|folder| !is_caches(folder))
                .map(folder)
                .collect(),
            caches: self.write.iter().any(|folder| is_caches(&folder)),
            hidden,
            shown,
            kept: vec![PROJECT_FOLDER.into(), PROJECT_RULES.into()],
        }
    }
}
