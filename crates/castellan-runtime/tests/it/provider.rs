//! What clients of the MCP server are offered, without a wire.

use std::sync::Arc;
use std::time::Duration;

use castellan_core::block::Content;
use castellan_core::port::Unwatched;
use castellan_core::secret::Redaction;
use castellan_core::tool::{DefaultDecision, Effect};
use castellan_core::{Caller, CancelSource, EffectStatus, Outcome, Surface, Tool};
use castellan_gate::gate::{Gate, Parts as GateParts, Settings};
use castellan_gate::policy::{NoProjectRules, Policy};
use castellan_gate::{Catalog, Disclosure, Guards, Permission, Profile};
use castellan_mcp::change::Interest;
use castellan_mcp::provider::{
    Object, Part, Prompt, PromptArgument, PromptCard, Provider as _, Speaker, ToolCall,
};
use castellan_mcp::{Answer, Ask, Change, Changes, Client, Context, Fault};
use castellan_runtime::catalog::Shared;
use castellan_runtime::mcp::{McpParts, McpServer, PromptTemplate};
use castellan_runtime::meta::Looking;
use castellan_runtime::principals::Local;
use castellan_runtime::resources::{self, Bytes, Entry, Shelf, Source, Template, Text};
use castellan_runtime::{Engine, EngineParts, Evolved, TraceTo};
use castellan_store::{LateStore, Settings as StoreSettings, Store};
use castellan_testkit::{FakeTool, ManualClock, SequentialIds};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};

/// A server over a store of its own.
struct Served {
    server: McpServer,
    changes: Arc<Changes>,
    stop: CancelSource,
    _folder: tempfile::TempDir,
}

/// Pictures under `picture://`.
struct Pictures;

impl Source for Pictures {
    fn scheme(&self) -> &'static str {
        "picture"
    }

    fn templates(&self) -> Vec<Template> {
        Vec::new()
    }

    fn list(&self) -> BoxFuture<'_, Vec<Entry>> {
        ready(Vec::new()).boxed()
    }

    fn read<'a>(
        &'a self,
        _name: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Text>, Outcome>> {
        ready(Ok(None)).boxed()
    }

    fn bytes<'a>(
        &'a self,
        name: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Outcome>> {
        let size = match name {
            "small" => 4,
            "large" => resources::MOST_BYTES + 1,
            _ => return ready(Ok(None)).boxed(),
        };
        let read = Bytes {
            media_type: "image/png".to_owned(),
            bytes: vec![7; size],
        };
        ready(Ok(Some(read))).boxed()
    }
}

/// Greets, and speaks of a tool.
struct Greeting(&'static [&'static str]);

impl PromptTemplate for Greeting {
    fn card(&self) -> PromptCard {
        PromptCard {
            name: "greeting".to_owned(),
            title: None,
            description: None,
            arguments: vec![PromptArgument {
                name: "who".to_owned(),
                description: None,
                required: true,
            }],
        }
    }

    fn tools(&self) -> &[&str] {
        self.0
    }

    fn render(&self, arguments: Object, _context: Context) -> BoxFuture<'_, Result<Prompt, Fault>> {
        let text = format!("Greet {}", arguments["who"]);
        ready(Ok(Prompt {
            description: None,
            messages: vec![(Speaker::User, Part::Text(text))],
        }))
        .boxed()
    }
}

/// A tool that asks its client's model.
fn asks() -> FakeTool {
    let mut tool = FakeTool::new("asks", Effect::ReadOnly, |_, context| async move {
        let Some(peer) = context.peer.as_deref() else {
            return Outcome::failed("nobody is there", "");
        };
        match peer.sample("any", json!({})).await {
            Ok(_) => Outcome::Done {
                output: "asked".to_owned(),
                effect: EffectStatus::None,
            },
            Err(unasked) => unasked.into(),
        }
    });
    tool.spec.domain = "meta.test".to_owned();
    tool.spec.parameters = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    });
    tool.spec.primary_key = None;
    tool.spec.secret_parameters = Vec::new();
    tool.spec.default = DefaultDecision::Allow;
    tool
}

fn served(full: bool, prompts: Vec<Arc<dyn PromptTemplate>>) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("castellan.db"), StoreSettings::default()).unwrap();
    let late = LateStore::default();
    let shared = Shared {
        evolved: Evolved::of(late.clone()),
        store: late,
        ids: Arc::new(SequentialIds::default()),
        user: "me".to_owned(),
        meter: Arc::default(),
        looking: Looking::default(),
    };
    shared.store.fill(store.clone());
    let mut tools: Vec<Arc<dyn Tool>> = shared.tools();
    tools.push(Arc::new(asks()));
    let shelf = Shelf::new(
        castellan_runtime::substrate::Shelved::all(&shared.store)
            .into_iter()
            .chain([Arc::new(Pictures) as Arc<dyn Source>])
            .collect(),
    );
    // The one in the catalog reads from another shelf.
    tools.retain(|tool| tool.spec().name != resources::READ);
    tools.push(resources::tool(shelf.clone()));
    let mut profile = Profile::named("team").unwrap();
    profile.domains.push("meta.test".to_owned());
    profile.hide.push("castellan_recall".to_owned());
    let catalog = Arc::new(Catalog::new(tools).unwrap());
    let clock = Arc::new(ManualClock::default());
    let gate = Gate::new(GateParts {
        catalog: Arc::clone(&catalog),
        principals: Arc::new(Local),
        clock: clock.clone(),
        ids: Arc::clone(&shared.ids),
        redaction: Redaction::default(),
        settings: Settings {
            parallel: 1,
            timeout: Duration::from_secs(60),
            spill: folder.path().join("spill"),
        },
        guards: Guards::default(),
    });
    let engine = Engine::new(EngineParts {
        gate: Arc::new(gate),
        store: Some(store),
        clock,
        ids: Arc::clone(&shared.ids),
        trace: TraceTo::Daily(folder.path().join("traces")),
        permission: Permission::default(),
        rules: Arc::new(NoProjectRules),
        patience: None,
        meter: Arc::default(),
    });
    let looking = shared.looking.clone();
    let disclosure = Disclosure::new(catalog, Surface::Mcp, profile, Policy::default());
    looking.fill(disclosure, Arc::new(NoProjectRules));
    let changes = Arc::new(Changes::new());
    let server = McpServer::new(McpParts {
        evolved: shared.evolved.clone(),
        engine: engine.unwrap(),
        looking,
        shelf,
        full,
        workspace: folder.path().to_owned(),
        version: "0",
    });
    Served {
        server: server
            .with_changes(Arc::clone(&changes))
            .with_prompts(prompts),
        changes,
        stop: CancelSource::new(),
        _folder: folder,
    }
}

impl Served {
    fn context(&self) -> Context {
        Context {
            client: Arc::new(Client {
                name: "probe".to_owned(),
                version: String::new(),
                protocol: "2026-07-28".to_owned(),
                declared: castellan_core::peer::Declared::default(),
                bearer: None,
                connection: "one".into(),
            }),
            cancel: self.stop.token(),
            progress: Arc::new(Unwatched),
            ask: Ask::nobody(),
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<Answer, Fault> {
        let call = ToolCall {
            name: name.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
        };
        self.server.call(call, self.context()).await
    }

    async fn prompt(&self, name: &str, arguments: Value) -> Result<Prompt, Fault> {
        let arguments = arguments.as_object().unwrap().clone();
        let prompt = self
            .server
            .prompt(name.to_owned(), arguments, self.context());
        prompt.await
    }
}

#[tokio::test]
async fn who_subscribed_is_told_what_was_written_and_that_a_list_grew() {
    let served = served(false, Vec::new());
    let mut interest = Interest::in_lists();
    interest.uris.insert("blackboard://plan".to_owned());
    let watch = served.changes.watch(interest);
    let write = |value: Value| served.call("castellan_write_blackboard", value);
    let plan = Change::Resource("blackboard://plan".to_owned());
    let clock = ManualClock::new();
    // Lets time pass and waits until everything was looked at once more.
    let look = async || {
        let looks = clock.sleeps().len();
        clock.advance(Duration::from_secs(2));
        while clock.sleeps().len() <= looks {
            tokio::task::yield_now().await;
        }
    };
    let story = async {
        while clock.sleeps().is_empty() {
            tokio::task::yield_now().await;
        }
        let answer = write(json!({"slot": "plan", "value": 1})).await.unwrap();
        assert!(!answer.is_error, "{answer:?}");
        look().await;
        let heard = watch.next().now_or_never().unwrap();
        assert_eq!(heard, [Change::Resources, plan.clone()].into());

        // Written again, the list is as it was. Nobody waits for that to be looked at.
        let answer = write(json!({"slot": "plan", "value": 2})).await.unwrap();
        assert!(!answer.is_error, "{answer:?}");
        assert_eq!(watch.next().await, [plan].into());

        // Another slot, a call that failed and one that only reads are nothing to them.
        let stale = json!({"slot": "plan", "value": 3, "expected_version": 1});
        assert!(write(stale).await.unwrap().is_error);
        let read = served.call("castellan_read_blackboard", json!({"slot": "plan"}));
        assert!(!read.await.unwrap().is_error);
        look().await;
        assert_eq!(watch.next().now_or_never(), None);
    };
    tokio::select! {
        () = served.server.watch(&clock) => panic!("it watches for ever"),
        () = story => {}
    }
}

#[tokio::test]
async fn a_prompt_is_shown_to_who_is_shown_the_tools_it_speaks_of() {
    let shown = served(false, vec![Arc::new(Greeting(&["castellan_remember"]))]);
    let client = shown.context().client;
    let cards = shown.server.prompts(&client).await.unwrap();
    assert_eq!(cards.len(), 1);
    let prompt = shown
        .prompt("greeting", json!({"who": "Ada"}))
        .await
        .unwrap();
    let text = Part::Text("Greet \"Ada\"".to_owned());
    assert_eq!(prompt.messages, [(Speaker::User, text)]);

    let hidden = served(
        false,
        vec![Arc::new(Greeting(&[
            "castellan_remember",
            "castellan_recall",
        ]))],
    );
    assert_eq!(hidden.server.prompts(&client).await.unwrap(), []);
    let refused = hidden.prompt("greeting", json!({"who": "Ada"})).await;
    assert_eq!(refused.unwrap_err().code, Fault::INVALID_PARAMS);
}

#[tokio::test]
async fn a_prompt_without_what_it_needs_says_what_that_is() {
    let served = served(false, vec![Arc::new(Greeting(&[]))]);
    for arguments in [json!({}), json!({"who": null})] {
        let fault = served.prompt("greeting", arguments).await.unwrap_err();
        assert_eq!(fault.code, Fault::INVALID_PARAMS);
        assert!(fault.message.contains("`who`"), "{fault}");
        assert_eq!(fault.data.unwrap()["error_code"], "VALIDATION");
    }
}

#[tokio::test]
async fn what_the_client_never_declared_is_an_error_of_the_protocol_that_names_it() {
    let served = served(false, Vec::new());
    let fault = served.call("asks", json!({})).await.unwrap_err();
    assert_eq!(fault.code, Fault::CAPABILITY_MISSING);
    assert_eq!(
        fault.data.unwrap()["requiredCapabilities"],
        json!({"sampling": {}})
    );
}

#[tokio::test]
async fn bytes_are_read_beside_the_answer_and_never_too_many() {
    let served = served(false, Vec::new());
    let read = |uri: &str| served.server.read(uri.to_owned(), served.context());
    let contents = read("picture://small").await.unwrap();
    assert_eq!(contents[0].content, Content::Bytes(vec![7; 4]));
    assert_eq!(contents[0].media_type.as_deref(), Some("image/png"));
    assert!(read("picture://large").await.is_err());
    let missing = read("picture://none").await.unwrap_err();
    assert_eq!(missing.code, Fault::RESOURCE_NOT_FOUND);

    let called = served.call(resources::READ, json!({"uri": "picture://small"}));
    let answer = called.await.unwrap();
    let structured = answer.structured.unwrap();
    assert_eq!(
        (&structured["bytes"], &structured["text"]),
        (&json!(4), &Value::Null)
    );
    assert_eq!(answer.blocks.len(), 1);
}

#[tokio::test]
async fn a_tool_that_is_not_there_comes_with_the_nearest_names_however_it_was_asked_for() {
    let served = served(false, Vec::new());
    let describe = json!({"name": "castellan_deposit_signals"});
    for (fault, code) in [
        (
            served.call("castellan_describe_tool", describe).await,
            Fault::METHOD_NOT_FOUND,
        ),
        (
            served.call("castellan_deposit_signals", json!({})).await,
            Fault::INVALID_PARAMS,
        ),
    ] {
        let fault = fault.unwrap_err();
        assert_eq!(fault.code, code);
        let data = fault.data.unwrap();
        assert_eq!(data["error_code"], "TOOL_NOT_FOUND");
        assert_eq!(data["nearest"][0], "castellan_deposit_signal");
    }
    // What is hidden is not given away.
    let hidden = json!({"name": "castellan_recall"});
    let fault = served.call("castellan_describe_tool", hidden).await;
    assert_eq!(fault.unwrap_err().data.unwrap().get("nearest"), None);
}

#[tokio::test]
async fn a_parameter_that_is_a_header_too_is_known_where_the_list_shows_it() {
    let full = served(true, Vec::new());
    let schema = full.server.mirrored_schema("asks").unwrap();
    assert_eq!(schema["properties"]["region"]["x-mcp-header"], "Region");
    assert_eq!(full.server.mirrored_schema("castellan_remember"), None);
    assert_eq!(
        served(false, Vec::new()).server.mirrored_schema("asks"),
        None
    );
}
