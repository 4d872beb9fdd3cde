//! Ids as data: each kind is a type of its own, all are time-ordered UUIDs (version 7, RFC 9562).
//!
//! Ids are minted only through [`Ids`], so that tests can hand out known ones.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The source of new ids. Implemented over the system's randomness by `castellan-host` and with a
/// fixed sequence by the test kit.
pub trait Ids: Send + Sync {
    /// A new UUID, later ones sorting after earlier ones.
    fn next(&self) -> Uuid;
}

/// Text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind} (expected `{prefix}` and 32 hexadecimal digits)")]
pub struct InvalidId {
    /// What stood there.
    pub text: String,
    /// Which id was expected, for people.
    pub kind: &'static str,
    /// The prefix such an id starts with.
    pub prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(into = "String", try_from = "String")]
        #[schemars(with = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// What every id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// The next id of this kind.
            pub fn mint(ids: &dyn Ids) -> Self {
                Self(ids.next())
            }

            /// The UUID without its prefix.
            #[must_use]
            pub const fn uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix)
                    .filter(|hex| hex.len() == 32)
                    .and_then(|hex| Uuid::try_parse(hex).ok())
                    .map(Self)
                    .ok_or_else(|| InvalidId { text: text.to_owned(), kind: $kind, prefix: $prefix })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

id!(
    /// A stored session (a *workstream*).
    SessionId, "ws_", "session id"
);
id!(
    /// One tool call. Minted here, never the provider's: providers reuse theirs.
    CallId, "call_", "call id"
);
id!(
    /// One round of asking a person. An answer names the cycle it answers.
    CycleId, "ask_", "approval cycle id"
);
id!(
    /// One row of the audit chain.
    AuditId, "aud_", "audit id"
);
id!(
    /// One stored permission.
    GrantId, "grant_", "grant id"
);
id!(
    /// One proposal to change the part of the harness that may evolve.
    ProposalId, "mut_", "proposal id"
);
id!(
    /// One episode.
    EpisodeId, "ep_", "episode id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = SessionId(Uuid::from_u128(7));
        assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
    }

    #[test]
    fn an_id_of_another_kind_or_shape_is_refused() {
        let call = CallId(Uuid::from_u128(7)).to_string();
        for text in [
            "",
            "ws_",
            "ws_7",
            call.as_str(),
            "ws_0000000000000000000000000000000g",
        ] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
