//! What clients of the MCP server are shown: `[mcp]` and `[profiles.NAME]`.

use std::collections::BTreeMap;

use castellan_core::nearest::likely;
use castellan_gate::Profile;
use castellan_gate::disclosure::DOMAINS;
use serde::{Deserialize, Serialize};

use crate::error::CommandError;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct McpConfig {
    /// Which profile clients have that name none: team, solo, ci, full, or one under `profiles`.
    pub(crate) profile: String,
}

impl Default for McpConfig {
    fn default() -> Self {
        let profile = Profile::NAMES
            .first()
            .map_or_else(String::new, ToString::to_string);
        Self { profile }
    }
}

/// A profile of the user's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProfileConfig {
    /// The domains it shows.
    pub(crate) domains: Vec<String>,
    /// Tools of these domains that it hides, by name; `*` stands for any run of characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hide: Vec<String>,
}

/// The profile of that name: one of the user's own, else one that is built in.
///
/// # Errors
/// Wrong usage, with the names there are; a profile of the user's that names no known domain.
pub(crate) fn profile(
    name: &str,
    own: &BTreeMap<String, ProfileConfig>,
) -> Result<Profile, CommandError> {
    if let Some(ProfileConfig { domains, hide }) = own.get(name) {
        for domain in domains {
            let known = DOMAINS.map(|(domain, _)| domain);
            if !known.contains(&domain.as_str()) {
                let hint = likely(domain, known)
                    .map_or_else(|| known.join(", "), |near| format!("did you mean {near}?"));
                return Err(CommandError::usage(format!(
                    "profiles.{name}.domains: there is no domain `{domain}`"
                ))
                .hint(hint));
            }
        }
        // Without the meta tools nobody finds the others.
        let mut shown = vec!["meta".to_owned()];
        shown.extend(domains.iter().filter(|domain| *domain != "meta").cloned());
        return Ok(Profile {
            name: name.to_owned(),
            domains: shown,
            hide: hide.clone(),
        });
    }
    Profile::named(name).ok_or_else(|| {
        let names: Vec<&str> = Profile::NAMES
            .into_iter()
            .chain(own.keys().map(String::as_str))
            .collect();
        CommandError::usage(format!("there is no profile `{name}`"))
            .hint(format!("the profiles are {}", names.join(", ")))
    })
}
