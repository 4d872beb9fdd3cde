//! What an episode stands on: tools over a store of its own that leaves nothing behind, or over the
//! store everybody uses.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::secret::Redaction;
use castellan_gate::gate::Settings as GateSettings;
use castellan_gate::hooks::HookList;
use castellan_gate::{Guards, Permission, Profile};
use castellan_runtime::catalog::Shared;
use castellan_runtime::episode::{Stage, StageParts, Time};
use castellan_runtime::meta::Looking;
use castellan_runtime::principals::Local;
use castellan_runtime::{Evolved, TraceTo};
use castellan_store::{LateStore, Settings as StoreSettings, Store, Synchronous};

use crate::cli::Zones;
use crate::error::{CommandError, io};
use crate::wiring::World;

/// A stage, and what it keeps alive.
pub(crate) struct Ground {
    pub(crate) stage: Stage,
    /// Dropped after the stage, whose store lies in it.
    _folder: Option<Folder>,
}

impl Ground {
    /// A stage for an episode of this seed that works in `workspace` and is traced in the file
    /// `trace`; `keys` are secrets beside those that are configured.
    pub(crate) fn new(
        world: &World,
        seed_and_zones: (u64, Zones),
        trace: &Path,
        workspace: &Path,
        keys: Vec<String>,
    ) -> Result<Self, CommandError> {
        let guards = (world.guards()?, world.redaction(keys));
        Self::guarded(world, seed_and_zones, trace, workspace, guards)
    }

    /// The same for an episode that is run again: hooks are programs, and none is started.
    pub(crate) fn again(
        world: &World,
        seed_and_zones: (u64, Zones),
        trace: &Path,
        workspace: &Path,
    ) -> Result<Self, CommandError> {
        let guards = Guards {
            hooks: HookList::default(),
            ..world.guards()?
        };
        let guards = (guards, world.redaction(Vec::new()));
        Self::guarded(world, seed_and_zones, trace, workspace, guards)
    }

    fn guarded(
        world: &World,
        (seed, zones): (u64, Zones),
        trace: &Path,
        workspace: &Path,
        (guards, redaction): (Guards, Redaction),
    ) -> Result<Self, CommandError> {
        let (time, store, folder) = match zones {
            Zones::Own => {
                let time = Time::simulated(seed, Arc::clone(&world.clock));
                let folder = Folder::new(world)?;
                // Whatever the disk does, nothing of it outlives the episode.
                let settings = StoreSettings {
                    synchronous: Synchronous::Normal,
                    ..StoreSettings::default()
                };
                let store = Store::open(folder.0.join("castellan.db"), settings)?;
                (time, store, Some(folder))
            }
            Zones::Shared => {
                let time = Time::live(Arc::clone(&world.clock), Arc::clone(&world.ids));
                (time, world.store()?, None)
            }
        };
        let audited = (zones == Zones::Shared).then(|| store.clone());
        let shared = Shared {
            store: LateStore::default(),
            ids: Arc::clone(&time.ids),
            user: match zones {
                Zones::Own => "episode".to_owned(),
                Zones::Shared => world.user(),
            },
            meter: Arc::default(),
            looking: Looking::default(),
            evolved: Evolved::of(LateStore::default()),
        };
        shared.store.fill(store);
        let stage = Stage::new(StageParts {
            tools: shared.tools(),
            looking: shared.looking.clone(),
            meter: Arc::clone(&shared.meter),
            time,
            principals: Arc::new(Local),
            redaction,
            settings: GateSettings {
                parallel: world.config.tools.parallel,
                timeout: Duration::from_secs(world.config.tools.timeout),
                spill: world.home.spill(),
            },
            guards: Guards {
                grants: audited.clone(),
                ..guards
            },
            permission: Permission::default(),
            rules: Arc::new(world.project_rules()),
            profile: Profile::named("team").ok_or_else(|| {
                CommandError::failed("the profile `team` is gone, which is a defect")
            })?,
            store: audited,
            trace: TraceTo::File(trace.to_owned()),
            workspace: workspace.to_owned(),
        })?;
        Ok(Self {
            stage,
            _folder: folder,
        })
    }
}

/// A temporary folder that is removed with this.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new, empty one that only this user may enter.
    pub(crate) fn new(world: &World) -> Result<Self, CommandError> {
        let above = world.environment.get("TMPDIR").map(Path::new);
        let above = above.filter(|path| path.is_absolute());
        let name = format!("castellan-episode-{}", world.ids.next().simple());
        let path = above.unwrap_or_else(|| Path::new("/tmp")).join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(io(&format!("make the folder {}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed is a temporary file of nobody's concern.
        std::fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}
