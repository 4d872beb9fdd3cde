//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod genome;
pub(crate) mod grants;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod statusline;
pub(crate) mod tools;
pub(crate) mod trace;
