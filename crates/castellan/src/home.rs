//! Where everything of ours is on this machine.

use std::path::{Path, PathBuf};

use castellan_host::Environment;

use crate::error::CommandError;

/// The folders of this user's castellan. `CASTELLAN_HOME` moves all of them.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// State: database, traces, spilled outputs.
    pub(crate) data: PathBuf,
    /// The configuration file, which need not exist.
    pub(crate) config: PathBuf,
}

impl Home {
    pub(crate) fn find(environment: &Environment) -> Result<Self, CommandError> {
        if let Some(root) = environment
            .get("CASTELLAN_HOME")
            .filter(|root| !root.is_empty())
        {
            let root = environment.cwd().join(root);
            return Ok(Self {
                config: root.join("config.toml"),
                data: root,
            });
        }
        let base = |variable: &str, fallback: &str| {
            environment
                .get(variable)
                .map(Path::new)
                .filter(|path| path.is_absolute())
                .map(Path::to_owned)
                .or_else(|| Some(environment.home()?.join(fallback)))
                .map(|base| base.join("castellan"))
                .ok_or_else(|| {
                    CommandError::failed("this user has no home folder")
                        .hint("set CASTELLAN_HOME to the folder where castellan keeps its state")
                })
        };
        Ok(Self {
            data: base("XDG_DATA_HOME", ".local/share")?,
            config: base("XDG_CONFIG_HOME", ".config")?.join("config.toml"),
        })
    }

    /// Where the scripts of hooks may be: beside the configuration, and readable all the same.
    pub(crate) fn hooks(&self) -> PathBuf {
        self.config.with_file_name("hooks")
    }

    /// The folders that commands neither read nor write.
    pub(crate) fn own_folders(&self) -> Vec<PathBuf> {
        let config = self.config.parent().unwrap_or(&self.config);
        if config == self.data {
            vec![self.data.clone()]
        } else {
            vec![self.data.clone(), config.to_owned()]
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data.join("castellan.db")
    }

    pub(crate) fn traces(&self) -> PathBuf {
        self.data.join("traces")
    }

    pub(crate) fn spill(&self) -> PathBuf {
        self.data.join("spill")
    }
}
