//! `bash`, as far as it runs no command.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use castellan_host::sandbox::Sandbox;
use castellan_host::shell::{HelperCommand, Shell};
use castellan_testkit::Home;
use castellan_tools::bash::{Background, Bash};
use serde_json::json;

use crate::drive::{after, call, text, unprivileged, view};

/// S10, for a folder that is there and can't be entered.
#[test]
fn s10_a_folder_that_can_not_be_entered_is_said_and_left() {
    let home = Home::new();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let shut = home.workspace().join("in/deeper");
    std::fs::create_dir_all(&shut).unwrap();
    mode(home.root(), 0o755);
    let runtime = unprivileged();
    for closed in [shut.clone(), home.workspace().join("in")] {
        mode(&closed, 0o600);
        let mut view = view(&home.workspace());
        view.cwd.clone_from(&shut);
        let asked = async move {
            let shell = Shell::new(HelperCommand::at("/nowhere"));
            shell.enclose(Sandbox::off("test"));
            let background = Background::new(shell.clone());
            let tool = Bash::new(shell, background, Vec::new(), Duration::from_secs(1));
            let report = call(tool, json!({"command": "echo hi"}), &view).await;
            (after(&view, &report).cwd, text(report))
        };
        let (cwd, said) = runtime.block_on(async { runtime.spawn(asked).await.unwrap() });
        mode(&closed, 0o755);
        assert!(
            said.contains("can't be entered (permission denied), and nothing was run"),
            "{said}"
        );
        assert_eq!(cwd, home.workspace());
    }
}
