//! Which model a session asks: the one named, the one configured, or one that is found.

use std::sync::Arc;

use castellan_core::nearest::likely;
use castellan_core::{Model, ModelError};
use castellan_host::{Environment, HttpClient};
use castellan_llm::probe::{Found, Looked, Probe, ProbeReport, Sight};
use castellan_llm::{ApiKey, ChatModel, ChatSettings, ReasoningField};
use castellan_runtime::evolved::Model as EvolvedModel;

use crate::cli::ModelArgs;
use crate::config::{Config, ModelConfig, SendReasoning, without_credentials};
use crate::error::CommandError;
use crate::home::Home;
use crate::wiring::World;

/// The variable that holds the key for `--base-url`. Keys of other variables belong to their own
/// providers and are never sent to an address from the command line.
const KEY_VARIABLE: &str = "CASTELLAN_API_KEY";

/// What a look for models came to.
pub(crate) enum Choice {
    /// These are configured.
    Configured(Vec<String>),
    /// This one was found.
    Found(String),
    /// None was; this was looked for.
    None(String),
}

/// A model to ask, and the keys to keep out of every record.
#[derive(Clone)]
pub(crate) struct Chosen {
    /// Says which one it is, where it was found and not named.
    pub(crate) found: Option<String>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) keys: Vec<String>,
}

/// The model for a session.
pub(crate) async fn choose(world: &World, args: &ModelArgs) -> Result<Chosen, CommandError> {
    let http = HttpClient::new(&world.environment).map_err(CommandError::failed)?;
    world.evolve().await?;
    let evolved = world.shared.evolved.model();
    let (mut settings, found) = settings(world, &preferred(world, args, &evolved)?, &http).await?;
    if let Some(temperature) = evolved.temperature {
        settings
            .extra_body
            .insert("temperature".to_owned(), temperature.into());
    }
    if let Some(most) = evolved.max_tokens {
        settings
            .extra_body
            .insert("max_tokens".to_owned(), most.into());
    }
    if let Some(key) = &args.api_key {
        settings.api_key = ApiKey::new(key);
        settings.key_source = "--api-key".to_owned();
    }
    require_address(&settings)?;
    let keys = settings
        .api_key
        .iter()
        .map(|key| key.expose().to_owned())
        .collect();
    let model = ChatModel::new(
        settings,
        http,
        Arc::clone(&world.clock),
        Arc::clone(&world.ids),
    );
    // Which model it is belongs into the record from the first request on.
    model
        .settle()
        .await
        .map_err(|ModelError { message, hint, .. }| CommandError::failed(message).hint(hint))?;
    Ok(Chosen {
        found,
        model: Arc::new(model),
        keys,
    })
}

/// What is asked for, with the model the genome names where none is named.
fn preferred(
    world: &World,
    args: &ModelArgs,
    evolved: &EvolvedModel,
) -> Result<ModelArgs, CommandError> {
    let mut preferred = args.clone();
    let (None, None, Some(name)) = (&args.model, &args.base_url, &evolved.model) else {
        return Ok(preferred);
    };
    if !world.config.models.contains_key(name) {
        let text = format!("the genome names the model `{name}`, which is not configured");
        return Err(CommandError::failed(text)
            .hint(format!("configure it under [models.{name}], name another with --model, or see castellan genome log for how it came to this")));
    }
    preferred.model = Some(name.clone());
    Ok(preferred)
}

/// A base URL that is none is wrong usage, to be said before anything begins.
fn require_address(settings: &ChatSettings) -> Result<(), CommandError> {
    let base_url = settings.base_url.trim();
    let rest = base_url
        .strip_prefix("http://")
        .or_else(|| base_url.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(char::is_whitespace) => Ok(()),
        _ => Err(CommandError::usage(format!(
            "`{base_url}` is not the address of a model server (model `{}`)",
            settings.name
        ))
        .hint("it looks like http://127.0.0.1:11434/v1")),
    }
}

async fn settings(
    world: &World,
    args: &ModelArgs,
    http: &HttpClient,
) -> Result<(ChatSettings, Option<String>), CommandError> {
    let models = &world.config.models;
    let named = match &args.model {
        Some(name) => models.get_key_value(name),
        None => default_model(&world.config),
    };
    if let Some(base_url) = &args.base_url {
        // A configured model lends what it knows, but not its key: that belongs to its own address.
        let known = args.model.as_ref().and(named);
        let mut settings = match known {
            Some((name, config)) => configured(world, name, config),
            None => ChatSettings::new(
                "command line",
                base_url,
                args.model.clone().unwrap_or_default(),
            ),
        };
        settings.base_url.clone_from(base_url);
        settings.api_key = world.environment.get(KEY_VARIABLE).and_then(ApiKey::new);
        settings.key_source = format!("--api-key or {KEY_VARIABLE}");
        return Ok((settings, None));
    }
    match (named, &args.model) {
        (Some((name, config)), _) => {
            let settings = configured(world, name, config);
            if let (None, Some(variable)) = (&settings.api_key, &config.api_key_env)
                && args.api_key.is_none()
            {
                return Err(CommandError::failed(format!(
                    "[models.{name}] takes its key from {variable}, which is not set"
                ))
                .hint(format!("export {variable}=…")));
            }
            Ok((settings, None))
        }
        (None, Some(name)) if !models.is_empty() => {
            let known: Vec<&str> = models.keys().map(String::as_str).collect();
            let near = likely(name, known.iter().copied())
                .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            Err(
                CommandError::usage(format!("there is no [models.{name}] in the configuration"))
                    .hint(format!("{near}configured: {}", known.join(", ")))
                    .hint("a model that is not configured needs --base-url"),
            )
        }
        (None, _) if !models.is_empty() => {
            let known: Vec<&str> = models.keys().map(String::as_str).collect();
            Err(
                CommandError::usage("several models are configured and none is the default")
                    .hint(format!("name one: --model {}", known.join(" or --model ")))
                    .hint("or set `model = \"NAME\"` at the top of the configuration"),
            )
        }
        (None, wanted) => found(world, http, wanted.as_deref()).await,
    }
}

/// The model to use where none is named: the default, or the only one.
fn default_model(config: &Config) -> Option<(&String, &ModelConfig)> {
    match &config.model {
        Some(name) => config.models.get_key_value(name),
        None if config.models.len() == 1 => config.models.iter().next(),
        None => None,
    }
}

fn configured(world: &World, name: &str, config: &ModelConfig) -> ChatSettings {
    let mut settings = ChatSettings::new(name, &config.base_url, &config.model);
    settings.context_window = config.context_window;
    settings.supports_vision = config.capabilities.supports_vision;
    settings.send_reasoning = config.capabilities.send_reasoning.map(|field| match field {
        SendReasoning::ReasoningContent => ReasoningField::Content,
        SendReasoning::Reasoning => ReasoningField::Reasoning,
        SendReasoning::ReasoningDetails => ReasoningField::Details,
        SendReasoning::ThinkingBlocks => ReasoningField::ThinkingBlocks,
    });
    settings.extra_body = config.extra_body.clone();
    (settings.api_key, settings.key_source) = match (&config.api_key, &config.api_key_env) {
        (Some(key), _) => (ApiKey::new(key), format!("api_key of [models.{name}]")),
        (None, Some(variable)) => (
            world.environment.get(variable).and_then(ApiKey::new),
            format!("{variable} in the environment"),
        ),
        (None, None) => (None, format!("api_key_env of [models.{name}]")),
    };
    settings
}

async fn found(
    world: &World,
    http: &HttpClient,
    wanted: Option<&str>,
) -> Result<(ChatSettings, Option<String>), CommandError> {
    let report = probe(&world.environment, http).await;
    match report.choice {
        Some(found) => {
            let words = format!("no model is configured; using {}", described(&found));
            let mut settings = found.settings();
            if let Some(wanted) = wanted {
                wanted.clone_into(&mut settings.model);
                settings.context_window = None;
            }
            Ok((settings, Some(words)))
        }
        None => Err(
            CommandError::failed(format!("no model was found\n{}", looked(&report)))
                .hint(how_to_add(&world.home)),
        ),
    }
}

async fn probe(environment: &Environment, http: &HttpClient) -> ProbeReport {
    let lookup = |name: &str| environment.get(name).map(str::to_owned);
    Probe::default().run(http, &lookup).await
}

/// What the command line says of the model, or `/model` has said since; `None` where that is
/// nothing.
pub(crate) fn given(args: &ModelArgs) -> Option<String> {
    let address = args.base_url.as_deref().map(without_credentials);
    match (&args.model, address) {
        (Some(model), Some(address)) => Some(format!("{model} at {address}")),
        (Some(model), None) => Some(model.clone()),
        (None, Some(address)) => Some(format!("the first model at {address}")),
        (None, None) => None,
    }
}

/// Looks for models without choosing one.
pub(crate) async fn search(
    environment: &Environment,
    config: &Config,
) -> Result<Choice, CommandError> {
    if !config.models.is_empty() {
        return Ok(Choice::Configured(config.models.keys().cloned().collect()));
    }
    let http = HttpClient::new(environment).map_err(CommandError::failed)?;
    let report = probe(environment, &http).await;
    Ok(match &report.choice {
        Some(found) => Choice::Found(format!("not configured; found {}", described(found))),
        None => Choice::None(format!(
            "none is configured and none was found\n{}",
            looked(&report)
        )),
    })
}

fn described(found: &Found) -> String {
    format!("{} at {}", found.model, found.base_url)
}

/// Everything that was looked for, a line each.
fn looked(report: &ProbeReport) -> String {
    let line = |looked: &Looked| {
        let sight = match &looked.sight {
            Sight::Usable { model } => format!("has {model}"),
            Sight::NotNeeded => "not needed".to_owned(),
            Sight::NotSet => "not set".to_owned(),
            Sight::NotRunning => "nothing answers".to_owned(),
            Sight::NoModels => "answers, and has no model to chat with".to_owned(),
            Sight::Unusable { reason } => reason.clone(),
        };
        format!("  {}: {sight}", looked.place)
    };
    let lines: Vec<String> = report.looked.iter().map(line).collect();
    format!("looked for:\n{}", lines.join("\n"))
}

fn how_to_add(home: &Home) -> String {
    format!(
        "start a local model server, set a key variable, name an endpoint with --base-url, or add \
         to {}:\n    [models.local]\n    base_url = \"http://127.0.0.1:11434/v1\"\n    model = \
         \"NAME\"",
        home.config.display()
    )
}
