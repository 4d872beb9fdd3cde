//! What is kept of an episode beside its trace: a row in the store that says what it was to do, what
//! it came to and where its trace is, and `episode://ID`, by which that is read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use castellan_core::id::EpisodeId;
use castellan_core::text::{chain, one_line, shorten};
use castellan_core::{Caller, Capability, Clock, Outcome, Principal};
use castellan_store::episodes::{self, End, Episode};
use castellan_store::{LateStore, Store};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::plugin::Plugin;
use super::run::{Ended, How, Onlooker, Plan, REASON, Standing, settings};
use crate::error::Error;
use crate::resources::{Entry, Source, Template, Text};

/// How many episodes a list shows.
const SHOWN: u32 = 200;
/// The media type of what is read here.
const JSON: &str = "application/json";

/// An episode that is kept while it runs.
pub struct Kept {
    store: Store,
    clock: Arc<dyn Clock>,
    id: EpisodeId,
    counts: Arc<Counts>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kept").field(&self.id).finish()
    }
}

impl Kept {
    /// Notes that the episode `id` of this owner begins: with this plan, acted in by `plugin`, traced
    /// in the file `trace`. What is secret in the plan is cut out already.
    ///
    /// # Errors
    /// [`Error::Store`] where that can't be kept.
    pub async fn begin(
        (store, clock): (Store, Arc<dyn Clock>),
        (id, owner): (EpisodeId, String),
        (plan, plugin): (&Plan, &dyn Plugin),
        trace: &Path,
    ) -> Result<Self, Error> {
        let row = Episode {
            id,
            owner,
            goal: plan.goal.clone(),
            plugin: plugin.name(),
            seed: plan.seed,
            settings: settings(plan, plugin).to_string(),
            version: plan.version.clone(),
            trace: trace.display().to_string(),
            began: clock.now(),
            end: None,
        };
        store.write(move |tx| episodes::begin(tx, &row)).await?;
        Ok(Self {
            store,
            clock,
            id,
            counts: Arc::default(),
        })
    }

    /// Counts what `to` is told of steps, so that what is known of an episode that breaks off is
    /// kept as well.
    #[must_use]
    pub fn counting(&self, to: Arc<dyn Onlooker>) -> Arc<dyn Onlooker> {
        let counts = Arc::clone(&self.counts);
        Arc::new(Counting { counts, to })
    }

    /// Notes what it came to.
    ///
    /// # Errors
    /// [`Error::Store`] where that can't be kept.
    pub async fn end(self, ended: &Result<Ended, Error>) -> Result<(), Error> {
        let at = self.clock.now();
        let end = match ended {
            Ok(ended) => End {
                at,
                how: match ended.how {
                    How::Reached => episodes::How::Reached,
                    How::NotReached => episodes::How::NotReached,
                    How::PluginFailed => episodes::How::PluginFailed,
                },
                steps: ended.steps,
                calls: ended.calls,
                failed: ended.failed,
                reason: ended.reason.clone(),
            },
            Err(error) => End {
                at,
                how: episodes::How::Untraced,
                steps: self.counts.steps.load(Ordering::Relaxed),
                calls: self.counts.calls.load(Ordering::Relaxed),
                failed: self.counts.failed.load(Ordering::Relaxed),
                reason: one_line(&shorten(&chain(error), REASON)),
            },
        };
        let id = self.id;
        self.store
            .write(move |tx| episodes::end(tx, id, &end))
            .await?;
        Ok(())
    }
}

/// How far an episode has come.
#[derive(Debug, Default)]
struct Counts {
    steps: AtomicU64,
    calls: AtomicU64,
    failed: AtomicU64,
}

struct Counting {
    counts: Arc<Counts>,
    to: Arc<dyn Onlooker>,
}

impl Onlooker for Counting {
    fn step(&self, standing: &Standing<'_>) {
        let Counts {
            steps,
            calls,
            failed,
        } = &*self.counts;
        steps.store(standing.step, Ordering::Relaxed);
        calls.store(standing.calls, Ordering::Relaxed);
        failed.store(standing.failed, Ordering::Relaxed);
        self.to.step(standing);
    }
}

/// `episode://ID`: what is kept of episodes.
#[derive(Debug, Clone)]
pub struct Episodes {
    store: LateStore,
    user: String,
}

impl Episodes {
    /// The episodes in this store; `user` is whose process this is.
    #[must_use]
    pub const fn new(store: LateStore, user: String) -> Self {
        Self { store, user }
    }

    /// Whether this caller may read what belongs to `owner`. Sessions, episodes and clients of this
    /// process act for its user; an agent of the relay acts for itself.
    fn may_read(&self, caller: &Caller, owner: &str) -> bool {
        caller.capabilities.contains(&Capability::Admin)
            || match &caller.principal {
                Principal::Person(name) => name == owner,
                Principal::Workstream(_) | Principal::SubAgent(_) | Principal::McpClient(_) => {
                    self.user == owner
                }
                Principal::Agent(_) => false,
            }
    }
}

impl Source for Episodes {
    fn scheme(&self) -> &'static str {
        "episode"
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template {
            uri_template: "episode://{id}".to_owned(),
            name: "episode".to_owned(),
            about: "What an episode was to do, what it came to, and where its trace is".to_owned(),
            media_type: JSON.to_owned(),
        }]
    }

    fn list(&self) -> BoxFuture<'_, Vec<Entry>> {
        async move {
            let user = self.user.clone();
            let read = self
                .store
                .read(move |tx| episodes::list(tx, &user, SHOWN))
                .await;
            // What can't be read now is missing from the list, and reading it says why.
            let rows = read.map(|page| page.rows).unwrap_or_default();
            let entry = |row: Episode| Entry {
                uri: format!("episode://{}", row.id),
                name: row.id.to_string(),
                about: format!(
                    "{}, begun {}: {}",
                    row.plugin,
                    row.began,
                    state(row.end.as_ref())
                ),
                media_type: JSON.to_owned(),
            };
            rows.into_iter().map(entry).collect()
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Text>, Outcome>> {
        async move {
            let Ok(id) = name.parse::<EpisodeId>() else {
                return Ok(None);
            };
            let row = self.store.read(move |tx| episodes::get(tx, id)).await;
            let row = row.map_err(|error| {
                let what = format!("the episodes can't be read: {}", chain(&error));
                Outcome::failed(what, "try again; castellan doctor looks at the store")
            })?;
            let Some(row) = row else {
                return Ok(None);
            };
            if !self.may_read(caller, &row.owner) {
                return Err(Outcome::Denied {
                    by: "the record of episodes".to_owned(),
                    reason: "an episode is shown to its owner and to callers with the capability \
                             `admin`"
                        .to_owned(),
                });
            }
            Ok(Some(Text {
                media_type: JSON.to_owned(),
                text: shown(&row).to_string(),
            }))
        }
        .boxed()
    }
}

/// How it stands, in a word.
fn state(end: Option<&End>) -> &'static str {
    end.map_or("unfinished", |end| end.how.as_str())
}

fn shown(row: &Episode) -> Value {
    let end = row.end.as_ref();
    let settings: Value = serde_json::from_str(&row.settings).unwrap_or_default();
    let size = std::fs::metadata(&row.trace).ok().map(|found| found.len());
    let unfinished = "it runs, or was ended before it could say what it came to";
    json!({
        "id": row.id,
        "owner": row.owner,
        "goal": row.goal,
        "plugin": row.plugin,
        "seed": row.seed,
        "settings": settings,
        "version": row.version,
        "began": row.began,
        "ended": end.map(|end| end.at),
        "state": state(end),
        "reached": end.map(|end| end.how == episodes::How::Reached),
        "reason": end.map_or(unfinished, |end| &end.reason),
        "steps": end.map(|end| end.steps),
        "calls": end.map(|end| end.calls),
        "failed_calls": end.map(|end| end.failed),
        "trace": row.trace,
        // Null where the file is gone.
        "trace_bytes": size,
    })
}

#[cfg(test)]
mod tests {
    use castellan_core::{SessionId, Surface};
    use castellan_testkit::SequentialIds;

    use super::*;

    #[test]
    fn an_episode_is_its_owners_and_the_admins() {
        let episodes = Episodes::new(LateStore::default(), "anna".to_owned());
        let caller = |principal, capabilities: &[Capability]| Caller {
            principal,
            surface: Surface::Mcp,
            capabilities: capabilities.to_vec(),
        };
        let session = SessionId::mint(&SequentialIds::new());
        let (person, agent) = (Principal::Person, Principal::Agent);
        for (principal, of_anna, of_bert) in [
            (person("anna".to_owned()), true, false),
            (person("bert".to_owned()), false, true),
            (Principal::Workstream(session), true, false),
            (Principal::SubAgent(session), true, false),
            (Principal::McpClient("bert".to_owned()), true, false),
            (agent("anna".to_owned()), false, false),
        ] {
            let plain = caller(principal.clone(), &[]);
            let may = (
                episodes.may_read(&plain, "anna"),
                episodes.may_read(&plain, "bert"),
            );
            assert_eq!(may, (of_anna, of_bert), "{principal}");
            let admin = caller(principal, &[Capability::Admin]);
            assert!(episodes.may_read(&admin, "bert"));
        }
    }
}
