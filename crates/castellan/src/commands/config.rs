//! `castellan config`.

use crate::config::Config;
use crate::error::CommandError;
use crate::home::Home;
use crate::output::{line, out};

pub(crate) fn show(home: &Home) -> Result<(), CommandError> {
    let config = Config::load(&home.config)?;
    let missing = if home.config.exists() {
        ""
    } else {
        " (no such file: all defaults)"
    };
    line(&format!("# {}{missing}", home.config.display()))?;
    out(&config.shown()?)
}

pub(crate) fn path(home: &Home) -> Result<(), CommandError> {
    line(&home.config.display().to_string())
}
