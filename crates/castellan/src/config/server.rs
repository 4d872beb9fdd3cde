//! `[server]`: where `castellan serve` listens, and who may come in.

use std::fmt;

use castellan_server::Address;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerConfig {
    /// Where it listens.
    pub(crate) listen: Listen,
    /// Names, with or without a port, under which others reach it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    /// Pages that may call it, such as `https://app.example.com`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) origins: Vec<String>,
    /// The variable that holds the secret clients must bring; needed beyond this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret_env: Option<String>,
}

/// An address as it is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Listen(pub(crate) Address);

impl TryFrom<String> for Listen {
    type Error = castellan_server::Unusable;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}
