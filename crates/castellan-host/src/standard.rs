//! Whether standard output was there when the program began.
//!
//! The language's runtime puts the null device in the place of a standard stream that was closed, so
//! that what is written there is lost without an error. Whoever must know looks before it does.

use std::sync::atomic::{AtomicBool, Ordering};

static OUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
#[expect(
    unsafe_code,
    reason = "the loader calls what stands here before the runtime begins"
)]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[expect(unsafe_code, reason = "nothing of the runtime may be used here")]
extern "C" fn look() {
    // SAFETY: it reads the flags of a descriptor, whatever that is, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    OUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Whether this program was started without a standard output, as by `>&-`: what is written to it
/// arrives nowhere.
#[must_use]
pub fn out_was_closed() -> bool {
    OUT_WAS_CLOSED.load(Ordering::Relaxed)
}
