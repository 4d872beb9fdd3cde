//! Finding a model where none is configured.
//!
//! Looked at in this order, and the first that works is chosen:
//!
//! 1. `OPENAI_BASE_URL`, with `OPENAI_API_KEY` where that is set: an address somebody wrote down;
//! 2. a model server that runs on this machine: it is free and nothing leaves the house;
//! 3. a key in the environment, in the order of [`PROVIDERS`]. It was set for some program, not
//!    necessarily this one, so it comes last, and it is sent nowhere but to its own provider.
//!
//! `OPENAI_MODEL` names the model for the first and for OpenAI's key. Everything looked for is in
//! the report, found or not, so that a person sees what to do.

mod places;

use std::time::Duration;

use castellan_core::ErrorCode;
use castellan_host::HttpClient;
use castellan_host::http::Timeouts;
use futures::future::join_all;

use crate::chat::ChatSettings;
use crate::chat::failure::{Failure, Site};
use crate::endpoint::Endpoint;
use crate::key::ApiKey;
use crate::models::{self, ListedModel};

pub use places::{
    HOSTED_LIMIT, LOCAL_LIMIT, LOCAL_SERVERS, LocalServer, OTHER_KEYS, PROVIDERS, Provider,
};

const BASE_URL: &str = "OPENAI_BASE_URL";
const MODEL: &str = "OPENAI_MODEL";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// A search for a model.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Servers looked for on this machine.
    pub local: Vec<LocalServer>,
    /// Providers whose keys are looked for.
    pub providers: Vec<Provider>,
    /// How long a server on this machine has to list its models.
    pub local_limit: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            local: LOCAL_SERVERS.to_vec(),
            providers: PROVIDERS.to_vec(),
            local_limit: LOCAL_LIMIT,
        }
    }
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    /// Everything that was looked for, in order.
    pub looked: Vec<Looked>,
    /// The model to use.
    pub choice: Option<Found>,
}

/// One place that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// A variable, or an address with what is usually there.
    pub place: String,
    /// What was there.
    pub sight: Sight,
}

/// What was found in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// A model that can be used.
    Usable {
        /// Its name.
        model: String,
    },
    /// It could be used and was not asked: something before it was found.
    NotNeeded,
    /// The variable is not set.
    NotSet,
    /// Nothing answers there.
    NotRunning,
    /// A server that lists no model to chat with.
    NoModels,
    /// It is there and can't be used, for this reason.
    Unusable {
        /// The reason, for people.
        reason: String,
    },
}

/// A model that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// A short name, fit for a configuration.
    pub name: String,
    /// Where its API is.
    pub base_url: String,
    /// The name its server knows it by.
    pub model: String,
    /// Its key.
    pub api_key: Option<ApiKey>,
    /// Where the key came from.
    pub key_source: String,
    /// How many tokens it takes, where the server says so.
    pub context_window: Option<u64>,
}

impl Found {
    /// Settings to reach it.
    #[must_use]
    pub fn settings(&self) -> ChatSettings {
        ChatSettings {
            api_key: self.api_key.clone(),
            key_source: self.key_source.clone(),
            context_window: self.context_window,
            ..ChatSettings::new(&self.name, &self.base_url, &self.model)
        }
    }
}

/// A server that may be there.
struct Candidate<'a> {
    place: String,
    name: &'a str,
    base_url: String,
    api_key: Option<ApiKey>,
    key_source: String,
    /// The model to take, without looking whether it is listed.
    model: Option<String>,
    preferred: &'a [&'a str],
    limit: Duration,
    is_local: bool,
}

/// The values of variables.
type Lookup<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

impl Probe {
    /// Looks for a model. `lookup` gives the value of a variable of the environment.
    pub async fn run(&self, http: &HttpClient, lookup: Lookup<'_>) -> ProbeReport {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let mut report = ProbeReport {
            looked: Vec::new(),
            choice: None,
        };
        match lookup(BASE_URL) {
            None => report.add(BASE_URL, Sight::NotSet),
            Some(base_url) => {
                let candidate =
                    written_down(base_url, lookup(OPENAI_KEY).as_deref(), lookup(MODEL));
                let outcome = candidate.look(http).await;
                report.take(candidate.place.clone(), outcome);
            }
        }
        if report.choice.is_none() {
            let local = self.local_candidates(lookup(OLLAMA_HOST));
            let outcomes = join_all(local.iter().map(|candidate| candidate.look(http))).await;
            for (candidate, outcome) in local.iter().zip(outcomes) {
                report.take(candidate.place.clone(), outcome);
            }
        }
        for provider in &self.providers {
            let Some(key) = lookup(provider.variable) else {
                report.add(provider.variable, Sight::NotSet);
                continue;
            };
            if report.choice.is_some() {
                report.add(provider.variable, Sight::NotNeeded);
                continue;
            }
            let model = if provider.variable == OPENAI_KEY {
                lookup(MODEL)
            } else {
                None
            };
            let outcome = hosted(provider, &key, model).look(http).await;
            report.take(provider.variable.to_owned(), outcome);
        }
        for variable in OTHER_KEYS {
            if lookup(variable).is_some() {
                let reason =
                    "not an OpenAI-compatible API: configure it under [models.NAME]".to_owned();
                report.add(variable, Sight::Unusable { reason });
            }
        }
        report
    }

    fn local_candidates(&self, ollama: Option<String>) -> Vec<Candidate<'static>> {
        let written = ollama.map(|host| Candidate {
            place: format!("{OLLAMA_HOST} ({host})"),
            ..local("Ollama", ollama_url(&host), self.local_limit)
        });
        let usual = self.local.iter().map(|server| {
            local(
                server.name,
                format!("http://127.0.0.1:{}/v1", server.port),
                self.local_limit,
            )
        });
        written.into_iter().chain(usual).collect()
    }
}

impl ProbeReport {
    fn add(&mut self, place: &str, sight: Sight) {
        self.looked.push(Looked {
            place: place.to_owned(),
            sight,
        });
    }

    /// Notes what was found; the first that is usable is chosen.
    fn take(&mut self, place: String, outcome: Result<Found, Sight>) {
        let sight = match outcome {
            Err(sight) => sight,
            Ok(found) => {
                let model = found.model.clone();
                self.choice.get_or_insert(found);
                Sight::Usable { model }
            }
        };
        self.looked.push(Looked { place, sight });
    }
}

impl Candidate<'_> {
    async fn look(&self, http: &HttpClient) -> Result<Found, Sight> {
        let endpoint = Endpoint::new(&self.base_url);
        let site = Site::new(&endpoint, "", self.api_key.as_ref(), &self.key_source);
        let timeouts = Timeouts {
            first_byte: self.limit,
            idle: self.limit,
        };
        let listed = models::list(http, &endpoint, &site, timeouts).await;
        let listed = match listed {
            Ok(listed) => listed,
            // Somebody wrote down both address and model, so a list that is missing is no obstacle;
            // a server that is not there is.
            Err(failure)
                if self.model.is_some() && !failure.is_unreached && !is_barred(&failure) =>
            {
                Vec::new()
            }
            Err(failure) if failure.is_unreached && self.is_local => {
                return Err(Sight::NotRunning);
            }
            Err(failure) => return Err(unusable(&failure)),
        };
        let model = match &self.model {
            Some(id) => {
                let known = listed.into_iter().find(|model| model.id == *id);
                known.unwrap_or_else(|| ListedModel {
                    id: id.clone(),
                    context_window: None,
                })
            }
            None => choose(listed, self.preferred).ok_or(Sight::NoModels)?,
        };
        Ok(Found {
            name: self.name.to_owned(),
            base_url: self.base_url.clone(),
            model: model.id,
            api_key: self.api_key.clone(),
            key_source: self.key_source.clone(),
            context_window: model.context_window,
        })
    }
}

/// The preferred model where it is listed, else the first to chat with.
fn choose(mut listed: Vec<ListedModel>, preferred: &[&str]) -> Option<ListedModel> {
    listed.retain(ListedModel::seems_to_chat);
    let best = preferred
        .iter()
        .find_map(|id| listed.iter().position(|model| model.id == *id));
    listed.into_iter().nth(best.unwrap_or(0))
}

fn is_barred(failure: &Failure) -> bool {
    failure.error.code == ErrorCode::ModelUnauthorized
}

fn unusable(failure: &Failure) -> Sight {
    let error = &failure.error;
    let separator = if error.hint.is_empty() { "" } else { "; " };
    Sight::Unusable {
        reason: format!("{}{separator}{}", error.message, error.hint),
    }
}

fn written_down(base_url: String, key: Option<&str>, model: Option<String>) -> Candidate<'static> {
    Candidate {
        place: format!("{BASE_URL} ({})", Endpoint::new(&base_url).shown()),
        name: "openai",
        base_url,
        api_key: key.and_then(ApiKey::new),
        key_source: format!("{OPENAI_KEY} in the environment"),
        model,
        preferred: &[],
        limit: HOSTED_LIMIT,
        is_local: false,
    }
}

fn hosted<'a>(provider: &Provider, key: &str, model: Option<String>) -> Candidate<'a> {
    Candidate {
        place: provider.variable.to_owned(),
        name: provider.name,
        base_url: provider.base_url.to_owned(),
        api_key: ApiKey::new(key),
        key_source: format!("{} in the environment", provider.variable),
        model,
        preferred: provider.preferred,
        limit: HOSTED_LIMIT,
        is_local: false,
    }
}

fn local(program: &str, base_url: String, limit: Duration) -> Candidate<'static> {
    Candidate {
        place: format!("{base_url} ({program})"),
        name: "local",
        base_url,
        api_key: None,
        key_source: String::new(),
        model: None,
        preferred: &[],
        limit,
        is_local: true,
    }
}

/// `OLLAMA_HOST` as Ollama reads it: any part may be missing, and an address to listen on means
/// this machine.
fn ollama_url(text: &str) -> String {
    let text = text.trim().trim_end_matches('/');
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ => (rest, "11434"),
    };
    let host = if matches!(host, "" | "0.0.0.0" | "[::]") {
        "127.0.0.1"
    } else {
        host
    };
    format!("{scheme}://{host}:{port}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_address_may_lack_any_part() {
        for (text, url) in [
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            (":7000", "http://127.0.0.1:7000/v1"),
            ("box:7000", "http://box:7000/v1"),
            ("https://box/", "https://box:11434/v1"),
        ] {
            assert_eq!(ollama_url(text), url, "{text}");
        }
    }

    #[test]
    fn the_best_listed_model_is_chosen_and_never_one_for_other_ends() {
        let listed = |ids: &[&str]| -> Vec<ListedModel> {
            ids.iter()
                .map(|id| ListedModel {
                    id: (*id).to_owned(),
                    context_window: None,
                })
                .collect()
        };
        let chosen =
            |ids: &[&str], preferred: &[&str]| choose(listed(ids), preferred).map(|model| model.id);
        let ids = ["text-embedding-3", "small", "large"];
        assert_eq!(chosen(&ids, &["huge", "large"]).as_deref(), Some("large"));
        assert_eq!(chosen(&ids, &[]).as_deref(), Some("small"));
        assert_eq!(chosen(&["nomic-embed-text"], &[]), None);
    }
}
