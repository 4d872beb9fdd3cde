//! `castellan doctor`: looks at everything a session needs and says what is wrong with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::CancelSource;
use castellan_gate::policy::{PROJECT_RULES, ProjectRules as _};
use castellan_host::env::Hidden;
use castellan_host::shell::{End, HelperCommand, Shell, ShellJob};
use castellan_host::{Environment, Folder};

use crate::config::{Config, RulesInProject};
use crate::error::CommandError;
use crate::home::Home;
use crate::model::{Choice, search};
use crate::output::{counted, line};
use crate::wiring::{Hands, build_catalog, build_guards, open_store, sandbox, shared};

/// How many writable folders are named.
const FOLDERS: usize = 8;

/// What one look came to.
enum Finding {
    Good(String),
    /// Works, with something to know.
    Note(String),
    Bad(String),
}

pub(crate) async fn run(environment: Environment, home: Home) -> Result<(), CommandError> {
    let config = Config::load(&home.config);
    let mut findings = vec![
        (
            "version",
            Finding::Good(env!("CARGO_PKG_VERSION").to_owned()),
        ),
        ("state", state(&home)),
        ("configuration", configuration(&home, config.as_ref().err())),
        ("secrets", secrets(&environment)),
    ];
    let config = config.unwrap_or_default();
    findings.push(("rules", rules(&environment, &home, &config)));
    findings.push(("database", database(&home, &config).await));
    findings.push(("shell", shell(&environment, &config).await));
    findings.push(("sandbox", enclosure(&config, &home, &environment).await));
    findings.push(("model", model(&environment, &config).await));
    let mut bad = 0;
    for (name, finding) in findings {
        let (mark, text) = match finding {
            Finding::Good(text) => ("ok", text),
            Finding::Note(text) => ("note", text),
            Finding::Bad(text) => {
                bad += 1;
                ("bad", text)
            }
        };
        line(&format!(
            "{mark:<5} {name:<14} {}",
            text.replace('\n', "\n                     ")
        ))?;
    }
    match bad {
        0 => Ok(()),
        1 => Err(CommandError::failed("one thing is wrong, see above")),
        _ => Err(CommandError::failed(format!(
            "{bad} things are wrong, see above"
        ))),
    }
}

fn state(home: &Home) -> Finding {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = home.data.display();
    for path in [home.data.clone(), home.database(), home.config.clone()] {
        let mode = std::fs::metadata(&path).map(|metadata| metadata.permissions().mode());
        if let Ok(mode) = mode
            && mode & 0o077 != 0
            && (path != home.config || mode & 0o022 != 0)
        {
            let mode = mode & 0o7777;
            let text = format!(
                "{}: others may get at it (mode {mode:04o}); chmod go= closes it",
                path.display()
            );
            return Finding::Note(text);
        }
    }
    Finding::Good(shown.to_string())
}

fn configuration(home: &Home, error: Option<&CommandError>) -> Finding {
    let path = home.config.display();
    match error {
        Some(error) => Finding::Bad(error.text()),
        None if home.config.exists() => Finding::Good(path.to_string()),
        None => Finding::Good(format!("all defaults; {path} does not exist")),
    }
}

/// The user's rules and hooks, and the rules of the project in the current folder.
fn rules(environment: &Environment, home: &Home, config: &Config) -> Finding {
    let hands = Hands::new();
    let shared = shared(environment);
    let catalog = build_catalog(environment, home, config, &hands, &shared);
    let found = catalog.and_then(|catalog| {
        let catalog = Arc::new(catalog);
        let guards = build_guards(environment, home, config, &catalog, &hands.shell)?;
        let project = RulesInProject {
            catalog,
            home: environment.home().map(Path::to_owned),
        };
        Ok((guards, project.read(environment.cwd())?))
    });
    match found {
        Err(error) => Finding::Bad(error.text()),
        Ok((guards, project)) => {
            let mut text = format!(
                "{}, {}",
                counted(guards.policy.len(), "rule"),
                counted(guards.hooks.len(), "hook")
            );
            if !project.is_empty() {
                text.push_str(&format!(
                    "; {} in {PROJECT_RULES} of this folder",
                    counted(project.len(), "rule")
                ));
            }
            Finding::Good(text)
        }
    }
}

fn secrets(environment: &Environment) -> Finding {
    match environment.hidden() {
        Hidden::Yes => Finding::Good("children can't read this process's environment".to_owned()),
        Hidden::Partly(reason) => Finding::Note(format!("partly hidden from children: {reason}")),
        Hidden::No(reason) => Finding::Bad(format!("children can read them: {reason}")),
    }
}

async fn database(home: &Home, config: &Config) -> Finding {
    let checked = match open_store(home, config) {
        Ok(store) => store.check().await.map_err(CommandError::from),
        Err(error) => Err(error),
    };
    match checked {
        Ok(checked) => Finding::Good(format!(
            "{}, sound, schema {}",
            checked.path.display(),
            checked.schema
        )),
        Err(error) => Finding::Bad(error.text()),
    }
}

/// Runs a command the way `bash` does.
async fn shell(environment: &Environment, config: &Config) -> Finding {
    let shell = Shell::new(HelperCommand::own());
    let command = "cd /proc && echo \"bash $BASH_VERSION\"";
    let named = environment.named(&config.tools.environment);
    let mut job = ShellJob::bash(
        command,
        "/",
        environment.child_environment(&named),
        Duration::from_secs(10),
    );
    job.follow = true;
    let mut said = Vec::new();
    let stop = CancelSource::new();
    let report = shell
        .run(job, |_, chunk| said.extend_from_slice(chunk), stop.token())
        .await;
    match report {
        Ok(report) if report.end == End::Exited(0) => {
            let version = String::from_utf8_lossy(&said).trim().to_owned();
            if report.folder == Folder::At("/proc".to_owned()) {
                Finding::Good(version)
            } else {
                Finding::Note(format!(
                    "{version}; `cd` does not last from one call to the next, because this system \
                     does not let a process watch its child (ptrace)"
                ))
            }
        }
        Ok(report) => Finding::Bad(format!("a trial command ended with {:?}", report.end)),
        Err(error) => Finding::Bad(CommandError::failed(error).text()),
    }
}

/// Which sandbox works here for commands in the current folder, what it protects and what not.
async fn enclosure(config: &Config, home: &Home, environment: &Environment) -> Finding {
    let shell = Shell::new(HelperCommand::own());
    let sandbox = sandbox(config, home, &shell, environment).await;
    let workspace = environment.cwd();
    let mut lines = vec![sandbox.line(workspace)];
    if sandbox.rung().is_some() {
        let folders = sandbox.write(workspace);
        let mut names: Vec<String> = folders
            .iter()
            .take(FOLDERS)
            .map(|folder| folder.display().to_string())
            .collect();
        if folders.len() > FOLDERS {
            names.push(format!("{} more", folders.len() - FOLDERS));
        }
        lines.push(format!("commands may write {}", names.join(", ")));
        lines.push(
            "they may read everything else but castellan's own folders, and talk to local \
             sockets (docker, D-Bus), through which others may write for them"
                .to_owned(),
        );
    } else {
        lines.push(
            "what bash runs may do all that you may do; --yes-to and --skip-permissions decide \
             whether it runs"
                .to_owned(),
        );
    }
    if sandbox.rung().is_some() {
        lines.extend(
            sandbox
                .passed_over()
                .iter()
                .map(|why| format!("not used: {why}")),
        );
    }
    let text = lines.join("\n");
    match sandbox.demand(workspace) {
        Err(error) => Finding::Bad(format!("{}\n{text}", CommandError::failed(error).text())),
        Ok(()) if sandbox.is_whole(workspace) => Finding::Good(text),
        Ok(()) => Finding::Note(text),
    }
}

async fn model(environment: &Environment, config: &Config) -> Finding {
    match search(environment, config).await {
        Ok(Choice::Configured(names)) => Finding::Good(format!("configured: {}", names.join(", "))),
        Ok(Choice::Found(text)) => Finding::Good(text),
        Ok(Choice::None(text)) => Finding::Note(text),
        Err(error) => Finding::Bad(error.text()),
    }
}
