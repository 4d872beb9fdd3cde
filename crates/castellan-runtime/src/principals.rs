//! Who callers are on a machine without accounts: whoever the surface says. A claim that would
//! need a proof is refused, since nothing here can check one.

use castellan_core::caller::{Claim, Unidentified};
use castellan_core::{Caller, Principal, Principals};

/// Callers of one OS user.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

impl Principals for Local {
    fn resolve(&self, claim: &Claim) -> Result<Caller, Unidentified> {
        let refused = |reason: &str| Unidentified {
            claimed: claim.principal.to_string(),
            reason: reason.to_owned(),
        };
        match &claim.principal {
            Principal::Agent(_) => Err(refused("no relay is there that could check its token")),
            _ if claim.token.is_some() => {
                Err(refused("no relay is there that could check a token"))
            }
            Principal::Person(_)
            | Principal::Workstream(_)
            | Principal::SubAgent(_)
            | Principal::McpClient(_) => Ok(Caller {
                principal: claim.principal.clone(),
                surface: claim.surface,
                capabilities: Vec::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castellan_core::Surface;

    #[test]
    fn a_claim_that_needs_a_proof_is_refused() {
        let claim = |principal, token| Claim {
            principal,
            surface: Surface::Mcp,
            token,
        };
        let agent = Principal::Agent("w1".into());
        assert!(
            Local
                .resolve(&claim(agent.clone(), Some("t".into())))
                .is_err()
        );
        assert!(Local.resolve(&claim(agent, None)).is_err());
        let client = Local
            .resolve(&claim(Principal::McpClient("x".into()), None))
            .unwrap();
        assert!(client.capabilities.is_empty());
    }
}
