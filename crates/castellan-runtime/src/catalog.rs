//! The catalog of this process, built from the tools of all rooms.

use castellan_gate::Catalog;
use castellan_tools::Needs;

/// The one catalog.
///
/// # Errors
/// What [`Catalog::new`] says of a tool whose spec breaks a rule.
pub fn build(needs: Needs) -> Result<Catalog, castellan_gate::Error> {
    Catalog::new(castellan_tools::all(needs))
}
