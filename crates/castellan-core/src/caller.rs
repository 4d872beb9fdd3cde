//! Who makes a call, from where, and what they may do.
//!
//! Every call carries a [`Caller`]. Describe, policy and audit all speak of that one value, which
//! [`Principals`] resolves before anything else happens.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SessionId;

/// Where a call comes from, and where a tool may appear.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// A session a person talks to.
    Interactive,
    /// A session that directs other sessions.
    Coordinator,
    /// A sub-agent of a session.
    TaskAgent,
    /// A client of the MCP server.
    Mcp,
    /// An unattended run.
    Episode,
}

impl Surface {
    /// Every surface, in the order of the docs.
    pub const ALL: [Self; 5] = [
        Self::Interactive,
        Self::Coordinator,
        Self::TaskAgent,
        Self::Mcp,
        Self::Episode,
    ];

    /// The word used on the wire and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Coordinator => "coordinator",
            Self::TaskAgent => "task_agent",
            Self::Mcp => "mcp",
            Self::Episode => "episode",
        }
    }

    /// Whether somebody is there who can be asked. A client of the MCP server may have a way to ask
    /// its person; that is known call by call.
    #[must_use]
    pub const fn has_person(self) -> bool {
        match self {
            Self::Interactive | Self::Coordinator | Self::TaskAgent => true,
            Self::Mcp | Self::Episode => false,
        }
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Surface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|surface| surface.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("`{text}` is not a surface; the surfaces are {known}")
            })
    }
}

/// Who stands behind a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "id", rename_all = "snake_case")]
pub enum Principal {
    /// The person at the terminal, by the name of the OS user.
    Person(String),
    /// The model of a stored session.
    Workstream(SessionId),
    /// The model of a sub-agent, by its parent session.
    SubAgent(SessionId),
    /// A client of the MCP server, by the name it gave itself, which proves nothing.
    McpClient(String),
    /// A relay agent, by the name its token proves.
    Agent(String),
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Workstream(id) => write!(f, "workstream:{id}"),
            Self::SubAgent(id) => write!(f, "sub_agent:{id}"),
            Self::McpClient(name) => write!(f, "mcp_client:{name}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
        }
    }
}

/// Something a caller may do beyond calling ordinary tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// May confirm high-impact calls.
    Admin,
}

/// The resolved origin of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    /// Who it is.
    pub principal: Principal,
    /// Where the call comes from.
    pub surface: Surface,
    /// What this caller may do beyond the ordinary.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
}

/// What a call says of its origin before anyone has checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who it says it is.
    pub principal: Principal,
    /// The surface it arrived on, which the surface itself states.
    pub surface: Surface,
    /// A token that proves the principal, where one was sent.
    pub token: Option<String>,
}

/// A claim that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the caller `{claimed}` is not accepted: {reason}")]
pub struct Unidentified {
    /// Who the call said it was.
    pub claimed: String,
    /// Why that was not accepted.
    pub reason: String,
}

/// Turns claims into callers. The gate asks it before anything else.
pub trait Principals: Send + Sync {
    /// The caller behind `claim`.
    ///
    /// # Errors
    /// [`Unidentified`] where the claim needs a proof that is missing or wrong.
    fn resolve(&self, claim: &Claim) -> Result<Caller, Unidentified>;
}
