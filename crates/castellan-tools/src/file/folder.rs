//! The session's working folder may be gone, for example because a command removed it.

use std::path::Path;

use castellan_core::Outcome;
use castellan_core::tool::SessionView;

/// Refuses a relative path where the folder it is under is gone.
///
/// # Errors
/// The outcome the model reads.
pub(crate) fn require_folder(path: &Path, view: &SessionView) -> Result<(), Outcome> {
    if path.is_absolute() || view.cwd.is_dir() {
        return Ok(());
    }
    Err(Outcome::failed(
        format!(
            "the working folder {} no longer exists, so {} is nowhere",
            view.cwd.display(),
            path.display()
        ),
        "use an absolute path; the next `bash` call takes the session to a folder that exists",
    ))
}
