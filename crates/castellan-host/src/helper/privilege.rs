//! What a command of root keeps of root's powers inside a sandbox.
//!
//! Root owns the files of a container and of many a build, so what concerns files and users stays.
//! What would open the sandbox from inside goes: mounting, devices, kernel modules, tracing, and
//! opening files by handle, past all folders that are closed.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capability_is_in_bounding_set, remove_capability_from_bounding_set,
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

/// Makes everything else unreachable for what this thread starts.
pub(super) fn give_up() -> io::Result<()> {
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
