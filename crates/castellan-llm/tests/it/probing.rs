//! Finding a model where none is configured.

use std::time::Duration;

use castellan_llm::probe::{LocalServer, Looked, Provider, Sight};
use castellan_llm::{Probe, ProbeReport};
use castellan_testkit::{ManualClock, ModelServer, Reply};
use serde_json::json;

use crate::world::{ask, hello, http, model_with};

/// A port on which nothing listens.
fn closed_port() -> u16 {
    let server = ModelServer::scripted([]);
    server.port()
}

fn local(ports: &[u16]) -> Vec<LocalServer> {
    ports
        .iter()
        .map(|port| LocalServer {
            name: "test",
            port: *port,
        })
        .collect()
}

async fn probe(probe: &Probe, variables: &[(&str, &str)]) -> ProbeReport {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    probe.run(&http(), &lookup).await
}

fn sight<'a>(report: &'a ProbeReport, part: &str) -> &'a Sight {
    let looked = report
        .looked
        .iter()
        .find(|Looked { place, .. }| place.contains(part));
    &looked
        .unwrap_or_else(|| panic!("{part} is not in {report:#?}"))
        .sight
}

/// A search with more patience than a person has, so that a busy machine changes nothing.
fn search(local: Vec<LocalServer>, providers: Vec<Provider>) -> Probe {
    Probe {
        local,
        providers,
        local_limit: Duration::from_secs(60),
    }
}

/// A provider at a scripted server. The address lives as long as the tests.
fn provider(server: &ModelServer) -> Provider {
    Provider {
        variable: "OPENAI_API_KEY",
        name: "openai",
        base_url: server.base_url().leak(),
        preferred: &["good-model"],
    }
}

#[tokio::test]
async fn a_server_on_this_machine_is_found_and_can_be_asked() {
    let server = ModelServer::scripted([Reply::text("yes")]);
    let closed = closed_port();
    let search = search(local(&[closed, server.port()]), Vec::new());
    let report = probe(&search, &[]).await;
    assert_eq!(sight(&report, "OPENAI_BASE_URL"), &Sight::NotSet);
    assert_eq!(sight(&report, &closed.to_string()), &Sight::NotRunning);
    assert_eq!(
        sight(&report, &server.port().to_string()),
        &Sight::Usable {
            model: "scripted-model".to_owned()
        }
    );
    let found = report.choice.unwrap();
    let model = model_with(found.settings(), &ManualClock::new());
    assert_eq!(ask(&model, hello()).await.reply().text, "yes");
    assert_eq!(server.requests()[0].body["model"], "scripted-model");
}

#[tokio::test]
async fn a_written_address_comes_before_a_local_server_and_that_before_a_key() {
    let (written, local_server, hosted) = (
        ModelServer::scripted([]),
        ModelServer::scripted([]),
        ModelServer::scripted([]),
    );
    let search = search(local(&[local_server.port()]), vec![provider(&hosted)]);
    let url = written.base_url();
    let report = probe(
        &search,
        &[("OPENAI_BASE_URL", &url), ("OPENAI_API_KEY", "sk-test-123")],
    )
    .await;
    let choice = report.choice.as_ref().unwrap();
    assert_eq!(
        (choice.base_url.as_str(), choice.api_key.is_some()),
        (url.as_str(), true)
    );
    assert_eq!(sight(&report, "OPENAI_API_KEY"), &Sight::NotNeeded);
    assert!(!format!("{report:?}").contains("sk-test"));

    let report = probe(&search, &[("OPENAI_API_KEY", "sk-test-123")]).await;
    let choice = report.choice.unwrap();
    assert_eq!(
        choice.base_url,
        format!("http://127.0.0.1:{}/v1", local_server.port())
    );
    assert_eq!(choice.api_key, None);
}

#[tokio::test]
async fn a_key_is_used_where_nothing_else_is_there_and_a_known_model_preferred() {
    let hosted = ModelServer::scripted([]);
    hosted.set_models(Reply::json(
        200,
        &json!({"data": [{"id": "whisper-1"}, {"id": "old-model"}, {"id": "good-model"}]}),
    ));
    let search = search(local(&[closed_port()]), vec![provider(&hosted)]);
    let choice = probe(&search, &[("OPENAI_API_KEY", "sk-test-123")])
        .await
        .choice
        .unwrap();
    assert_eq!(choice.model, "good-model");
    assert_eq!(choice.key_source, "OPENAI_API_KEY in the environment");
    let named = [
        ("OPENAI_API_KEY", "sk-test-123"),
        ("OPENAI_MODEL", "old-model"),
    ];
    assert_eq!(
        probe(&search, &named).await.choice.unwrap().model,
        "old-model"
    );
}

#[tokio::test]
async fn what_is_there_and_of_no_use_is_said() {
    let (empty, page, barred) = (
        ModelServer::scripted([]),
        ModelServer::scripted([]),
        ModelServer::scripted([]),
    );
    empty.set_models(Reply::json(200, &json!({"object": "list", "data": null})));
    page.set_models(Reply::html("<h1>My shop</h1>"));
    barred.set_models(Reply::error(401, "Invalid API Key"));
    let ports = [empty.port(), page.port(), barred.port()];
    let search = search(local(&ports), vec![provider(&barred)]);
    let variables = [
        ("OPENAI_API_KEY", "sk-test-123"),
        ("ANTHROPIC_API_KEY", "sk-ant"),
        ("GROQ_API_KEY", " "),
    ];
    let report = probe(&search, &variables).await;
    assert_eq!(report.choice, None);
    assert_eq!(sight(&report, &empty.port().to_string()), &Sight::NoModels);
    for (place, part) in [
        (page.port().to_string(), "My shop"),
        (barred.port().to_string(), "Invalid API Key"),
        ("OPENAI_API_KEY".to_owned(), "it came from OPENAI_API_KEY"),
        ("ANTHROPIC_API_KEY".to_owned(), "[models.NAME]"),
    ] {
        match sight(&report, &place) {
            Sight::Unusable { reason } => assert!(reason.contains(part), "{place}: {reason}"),
            other => panic!("{place}: {other:?}"),
        }
    }
    assert!(!format!("{report:?}").contains("sk-"));
}

#[tokio::test]
async fn a_port_that_says_nothing_holds_nobody_up() {
    let silent = ModelServer::scripted([]);
    silent.set_models(Reply::hang());
    let search = Probe {
        local_limit: Duration::from_millis(20),
        ..search(local(&[silent.port()]), Vec::new())
    };
    let report = probe(&search, &[]).await;
    let Sight::Unusable { reason } = sight(&report, &silent.port().to_string()) else {
        panic!("{report:?}");
    };
    assert!(reason.contains("in time"), "{reason}");
}

#[tokio::test]
async fn ollamas_own_variable_is_heeded() {
    let server = ModelServer::scripted([]);
    let search = search(Vec::new(), Vec::new());
    let host = format!("0.0.0.0:{}", server.port());
    let choice = probe(&search, &[("OLLAMA_HOST", &host)])
        .await
        .choice
        .unwrap();
    assert_eq!(choice.base_url, server.base_url());
}

#[test]
fn every_provider_is_looked_for_by_default() {
    let search = Probe::default();
    let variables: Vec<&str> = search
        .providers
        .iter()
        .map(|provider| provider.variable)
        .collect();
    assert_eq!(
        variables,
        [
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "DEEPSEEK_API_KEY",
            "TOGETHER_API_KEY",
            "XAI_API_KEY",
        ]
    );
    assert!(
        search
            .providers
            .iter()
            .all(|provider| provider.base_url.starts_with("https://"))
    );
    assert!(search.local.iter().any(|server| server.port == 11434));
}
