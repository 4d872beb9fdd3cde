//! What a sandbox leaves open, and what it keeps in a workspace that is otherwise writable.

use std::path::{Path, PathBuf};

use super::{Network, Rung, Sandbox};

/// The first version of Landlock that keeps signals, and abstract sockets, inside.
const SCOPED: u32 = 6;

impl Sandbox {
    /// What a full sandbox would close and this one leaves open for commands that work in
    /// `workspace`, one line each.
    #[must_use]
    pub fn gaps(&self, workspace: &Path) -> Vec<String> {
        let mut gaps = self.ungiven(workspace);
        gaps.extend(self.everything(workspace));
        gaps.extend(self.replaceable(workspace));
        if let Rung::Landlock { abi } = self.rung {
            gaps.extend(self.kept(workspace).iter().map(|kept| {
                format!(
                    "commands can change {}, because Landlock can't close a part of a writable \
                     folder (bubblewrap can)",
                    kept.display()
                )
            }));
            if abi < SCOPED {
                gaps.push(format!(
                    "commands can signal your other processes before Landlock ABI {SCOPED} (Linux \
                     6.12)"
                ));
            }
        }
        gaps
    }

    /// Whether all there is may be written, and by what.
    fn everything(&self, workspace: &Path) -> Option<String> {
        let root = Path::new("/");
        if !self.rung.is_some() || !self.write(workspace).iter().any(|folder| folder == root) {
            return None;
        }
        let why = if workspace == root {
            "the workspace is /"
        } else {
            "/ is a folder to write in"
        };
        Some(format!("everything is writable: {why}"))
    }

    /// Of these what was asked for: where a sandbox is required, nothing runs without it. Another
    /// rung closes them.
    #[must_use]
    pub fn ungiven(&self, workspace: &Path) -> Vec<String> {
        let Rung::Landlock { abi } = self.rung else {
            return Vec::new();
        };
        let write = self.write(workspace);
        let mut gaps = Vec::new();
        for hidden in &self.hidden {
            if let Some(writable) = write.iter().find(|w| hidden.path.starts_with(w)) {
                gaps.push(format!(
                    "{} is open to commands, because Landlock can't close a part of the writable \
                     {} (bubblewrap can)",
                    hidden.path.display(),
                    writable.display()
                ));
            }
        }
        if self.network == Network::Deny && abi < SCOPED {
            gaps.push(format!(
                "abstract sockets stay reachable before Landlock ABI {SCOPED}"
            ));
        }
        gaps
    }

    /// Whether commands that work in `workspace` are enclosed as was asked for, with nothing open.
    #[must_use]
    pub fn is_whole(&self, workspace: &Path) -> bool {
        self.rung.is_some() && self.gaps(workspace).is_empty() && self.unwritable.is_empty()
    }

    /// What is kept as it is although it lies in a writable folder: absolute, with links followed,
    /// and only what exists. Nothing in the list lies in another entry of it.
    pub(super) fn kept(&self, workspace: &Path) -> Vec<PathBuf> {
        let write = self.write(workspace);
        let hidden = |path: &Path| self.hidden.iter().any(|one| path.starts_with(&one.path));
        let mut found: Vec<PathBuf> = self
            .kept
            .iter()
            .filter_map(|kept| workspace.join(kept).canonicalize().ok())
            .filter(|path| write.iter().any(|folder| path.starts_with(folder)) && !hidden(path))
            .collect();
        found.sort();
        // What lies in a folder comes right behind it.
        found.dedup_by(|later, earlier| later.starts_with(earlier));
        found
    }

    /// Links in the place of what is to be kept: no rung keeps those.
    fn replaceable(&self, workspace: &Path) -> Vec<String> {
        if !self.rung.is_some() {
            return Vec::new();
        }
        let links = self.kept.iter().map(|kept| workspace.join(kept));
        let within = |link: &PathBuf| {
            let folder = link.parent().and_then(|parent| parent.canonicalize().ok());
            // Within another folder that is kept, a link is kept as well.
            folder.is_some_and(|folder| !self.kept(workspace).iter().any(|k| folder.starts_with(k)))
        };
        links
            .filter(|path| path.is_symlink())
            .filter(within)
            .map(|link| {
                format!(
                    "commands can replace {}, because it is a link",
                    link.display()
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Mode;

    fn sandbox(rung: Rung) -> Sandbox {
        Sandbox {
            rung,
            kept: vec![".own".into(), ".own/rules".into()],
            ..Sandbox::none(Mode::Require, String::new())
        }
    }

    fn bubblewrap() -> Rung {
        Rung::Bubblewrap {
            program: "/usr/bin/bwrap".into(),
            version: "1".to_owned(),
        }
    }

    #[test]
    fn what_an_old_landlock_leaves_open_is_said_and_does_not_stop_who_requires_a_sandbox() {
        let folder = Path::new("/nowhere");
        let old = sandbox(Rung::Landlock { abi: 5 });
        let gaps = old.gaps(folder);
        assert!(
            gaps[0].contains("can signal your other processes"),
            "{gaps:?}"
        );
        assert!(!old.is_whole(folder));
        assert!(old.demand(folder).is_ok());
        assert!(old.line(folder).contains("can signal"));
        assert!(sandbox(Rung::Landlock { abi: 6 }).is_whole(folder));
        assert!(sandbox(bubblewrap()).is_whole(folder));
    }

    #[test]
    fn what_is_kept_is_what_is_there_with_its_links_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (plain, linked, bare) = (root.join("plain"), root.join("linked"), root.join("bare"));
        for made in [plain.join(".own"), linked.join("real"), bare.clone()] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::fs::write(plain.join("rules"), "").unwrap();
        std::os::unix::fs::symlink("../rules", plain.join(".own/rules")).unwrap();
        std::fs::write(linked.join("real/rules"), "").unwrap();
        std::os::unix::fs::symlink("real", linked.join(".own")).unwrap();
        let bubblewrap = sandbox(bubblewrap());
        assert_eq!(
            bubblewrap.kept(&plain),
            [plain.join(".own"), plain.join("rules")]
        );
        assert!(bubblewrap.gaps(&plain).is_empty());
        assert_eq!(bubblewrap.kept(&linked), [linked.join("real")]);
        let gaps = bubblewrap.gaps(&linked);
        assert!(
            gaps[0].ends_with("linked/.own, because it is a link"),
            "{gaps:?}"
        );
        assert!(bubblewrap.kept(&bare).is_empty());
        let landlock = sandbox(Rung::Landlock { abi: 7 });
        assert_eq!(landlock.gaps(&plain).len(), 2);
        assert!(landlock.demand(&plain).is_ok());
    }
}
