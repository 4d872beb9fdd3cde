//! What a command of root keeps of root's powers inside a sandbox.
//!
//! Root owns the files of a container and of many a build, so what concerns files and users stays.
//! What would open the sandbox from inside goes: mounting, devices, kernel modules, tracing, and
//! opening files by handle, past all folders that are closed.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

/// What is kept, by the names bubblewrap takes.
pub(super) const KEPT: &[(&str, CapabilitySet)] = &[
    ("CAP_CHOWN", CapabilitySet::CHOWN),
    ("CAP_DAC_OVERRIDE", CapabilitySet::DAC_OVERRIDE),
    ("CAP_FOWNER", CapabilitySet::FOWNER),
    ("CAP_FSETID", CapabilitySet::FSETID),
    ("CAP_KILL", CapabilitySet::KILL),
    ("CAP_SETGID", CapabilitySet::SETGID),
    ("CAP_SETUID", CapabilitySet::SETUID),
    ("CAP_NET_BIND_SERVICE", CapabilitySet::NET_BIND_SERVICE),
];

/// Hands nothing else down to what this thread starts, whoever runs it: neither what a container or
/// a service was started with nor, for root, what a program of root's begins with.
pub(super) fn give_up(is_root: bool) -> io::Result<()> {
    let kept = KEPT
        .iter()
        .fold(CapabilitySet::empty(), |all, (_, one)| all | *one);
    let sets = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            inheritable: sets.inheritable & kept,
            ..sets
        },
    )?;
    clear_ambient_capability_set()?;
    if !is_root {
        // What the bounding set would take is for programs of root's, which can't be started here.
        return Ok(());
    }
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Ok(true) if KEPT.iter().all(|(_, kept)| *kept != one) => {
                remove_capability_from_bounding_set(one)?;
            }
            Ok(_) => {}
            // The kernel knows no more of them.
            Err(Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
