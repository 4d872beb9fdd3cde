//! What the substrate shows of itself elsewhere: its zones in snapshots, its genome and blackboard
//! among the resources.

use std::sync::Arc;

use castellan_core::{Caller, Outcome};
use castellan_store::{LateStore, Tx, blackboard, genome as stored, signals};
use castellan_substrate::{genome, resource};
use futures::future::{BoxFuture, FutureExt as _};

use crate::resources::{Entry, Source, Template, Text};
use crate::snapshot::{Edge, Gauge, Node, Room, Sight};

/// How many zones a snapshot shows, and how many slots a list.
const SHOWN: u32 = 200;

/// The media type of what is read here.
const JSON: &str = "application/json";

/// The zones, with who left signals in them.
#[derive(Debug, Clone)]
pub struct Zones(pub LateStore);

impl Room for Zones {
    fn look(&self) -> BoxFuture<'_, Result<Sight, castellan_store::Error>> {
        async move {
            let read = |tx: &Tx<'_>| {
                let zones = signals::zones(tx, SHOWN)?;
                let mut left = Vec::new();
                for zone in &zones.rows {
                    for signal in signals::in_zone(tx, &zone.zone)? {
                        left.push((signal.by, zone.zone.clone()));
                    }
                }
                Ok((zones, left))
            };
            let (page, mut left) = self.0.read(read).await?;
            let shown = page.rows.len() as u64;
            left.sort_unstable();
            left.dedup();
            let id = |zone: &str| format!("zone:{zone}");
            let nodes = page.rows.iter().map(|zone| Node {
                id: id(&zone.zone),
                kind: "zone".to_owned(),
                name: zone.zone.clone(),
                state: Some(match zone.signals {
                    1 => "1 signal".to_owned(),
                    many => format!("{many} signals"),
                }),
            });
            let edges = left.iter().map(|(by, zone)| Edge {
                from: by.clone(),
                to: id(zone),
                kind: "deposit".to_owned(),
            });
            Ok(Sight {
                nodes: nodes.collect(),
                edges: edges.collect(),
                left_out: page.total - shown,
                gauges: vec![counted(page.total)],
            })
        }
        .boxed()
    }

    fn gauges(&self) -> BoxFuture<'_, Result<Vec<Gauge>, castellan_store::Error>> {
        async move {
            let total = self.0.read(|tx| Ok(signals::zones(tx, 0)?.total)).await?;
            Ok(vec![counted(total)])
        }
        .boxed()
    }
}

const fn counted(zones: u64) -> Gauge {
    Gauge {
        field: "zones",
        words: ("zone", "zones"),
        count: zones,
    }
}

/// What of the substrate is read by its URI.
#[derive(Debug, Clone)]
pub struct Shelved {
    store: LateStore,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Genome,
    Blackboard,
}

impl Shelved {
    /// All of it.
    #[must_use]
    pub fn all(store: &LateStore) -> Vec<Arc<dyn Source>> {
        let source = |kind| -> Arc<dyn Source> {
            let store = store.clone();
            Arc::new(Self { store, kind })
        };
        vec![source(Kind::Genome), source(Kind::Blackboard)]
    }
}

impl Source for Shelved {
    fn scheme(&self) -> &'static str {
        match self.kind {
            Kind::Genome => "genome",
            Kind::Blackboard => "blackboard",
        }
    }

    fn templates(&self) -> Vec<Template> {
        let (uri_template, name, about) = match self.kind {
            Kind::Genome => (
                "genome://{version}",
                "genome",
                "The part of the harness that may evolve, as it is (current) or was (a version)",
            ),
            Kind::Blackboard => (
                "blackboard://{slot}",
                "blackboard",
                "A slot of the blackboard",
            ),
        };
        vec![Template {
            uri_template: uri_template.to_owned(),
            name: name.to_owned(),
            about: about.to_owned(),
            media_type: JSON.to_owned(),
        }]
    }

    fn list(&self) -> BoxFuture<'_, Vec<Entry>> {
        let entry = |uri: String, name: String, about: &str| Entry {
            uri,
            name,
            about: about.to_owned(),
            media_type: JSON.to_owned(),
        };
        async move {
            match self.kind {
                Kind::Genome => {
                    let current = "The part of the harness that may evolve, as it is now";
                    let mut all = vec![entry(
                        "genome://current".to_owned(),
                        "the present genome".to_owned(),
                        current,
                    )];
                    // What can't be read now is missing from the list, and reading it says why.
                    if let Ok(log) = genome::history::log(&self.store, SHOWN).await {
                        all.extend(log.versions.rows.iter().map(|row| {
                            let version = row.version;
                            entry(
                                format!("genome://{version}"),
                                format!("genome version {version}"),
                                "A version of the genome",
                            )
                        }));
                    }
                    all
                }
                Kind::Blackboard => {
                    let names = self.store.read(|tx| blackboard::names(tx, SHOWN)).await;
                    let names = names.map(|page| page.rows).unwrap_or_default();
                    let slots = names.into_iter().map(|name| {
                        entry(
                            format!("blackboard://{name}"),
                            name,
                            "A slot of the blackboard",
                        )
                    });
                    slots.collect()
                }
            }
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Text>, Outcome>> {
        async move {
            let uri = format!("{}://{name}", self.scheme());
            resource::read(&self.store, &uri)
                .await
                .transpose()
                .map(|text| {
                    text.map(|text| Text {
                        media_type: JSON.to_owned(),
                        text,
                    })
                })
        }
        .boxed()
    }

    fn marks<'a>(
        &'a self,
        names: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>, castellan_store::Error>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let kind = self.kind;
        let read = move |tx: &Tx<'_>| {
            let mark = |name: &String| match kind {
                // A version that has a number never changes.
                Kind::Genome if name == "current" => {
                    Ok(stored::current(tx)?.map_or(0, |found| found.version))
                }
                Kind::Genome => Ok(0),
                Kind::Blackboard => Ok(blackboard::get(tx, name)?.map_or(0, |slot| slot.version)),
            };
            let marks: Result<Vec<u64>, castellan_store::Error> = names.iter().map(mark).collect();
            Ok(marks?.iter().map(u64::to_string).collect())
        };
        async move { self.store.glance(read).await }.boxed()
    }
}
