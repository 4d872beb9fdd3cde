//! The sandbox, each promise tried on every rung that works on this machine.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use castellan_core::CancelSource;
use castellan_core::port::{HookEnd, HookJob, Hooks as _};
use castellan_host::hooks::ShellHooks;
use castellan_host::sandbox::{HiddenFolder, Mode, Network, Rung, Sandbox, Wish};
use castellan_host::{End, Environment, Error, ErrorKind, HelperCommand, Shell, ShellJob};

use crate::world::{LONG, Ran, eventually, job, run, run_job, shell, variable};

/// A workspace, what lies around it, and a sandbox.
pub(crate) struct Rig {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    environment: Environment,
    pub(crate) sandbox: Sandbox,
}

/// The program `bwrap` as it might be found first on a search path.
fn fake(folder: &Path, text: &str) {
    let file = folder.join("bin/bwrap");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Rig {
    /// With `bwrap` replaced by a script, if one is given.
    async fn new(network: Network, script: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for part in ["ws", "outside", "state/shown", "tmp", "more", "bin"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        fs::write(root.join("state/key"), "sesame").unwrap();
        fs::write(root.join("state/shown/long"), "spilled").unwrap();
        fs::write(root.join("outside/file"), "before").unwrap();
        let mut path = variable("PATH").unwrap();
        if let Some(script) = script {
            fake(&root, script);
            path = format!("{}/bin:{path}", root.display());
        }
        let text = |part: &str| root.join(part).to_str().unwrap().to_owned();
        let vars = [
            ("PATH".to_owned(), path),
            ("TMPDIR".to_owned(), text("tmp")),
            ("HOME".to_owned(), text("home")),
        ];
        let environment = Environment::new(vars, "/".into());
        let wish = Wish {
            mode: Mode::Auto,
            network,
            write: vec![root.join("more")],
            caches: false,
            hidden: vec![root.join("state")],
            shown: vec![root.join("state/shown")],
            kept: vec![".own".into()],
        };
        let sandbox = Sandbox::find(&wish, &shell(), &environment).await;
        Self {
            _folder: folder,
            root,
            environment,
            sandbox,
        }
    }

    pub(crate) fn job(&self, text: &str) -> ShellJob {
        let env = self.environment.child_environment(&[]);
        let mut job = ShellJob::bash(text, self.root.join("ws"), env, LONG);
        job.sandbox = self.sandbox.policy(&self.root.join("ws")).unwrap();
        assert!(job.sandbox.is_some());
        job
    }

    pub(crate) async fn run(&self, text: &str) -> Ran {
        run(self.job(text)).await
    }

    /// What a command said that is expected to fail, and what is made of it.
    pub(crate) async fn stopped(&self, text: &str) -> (String, Option<String>) {
        let ran = self.run(text).await;
        assert_ne!(ran.report.end, End::Exited(0), "{text}: {}", ran.text);
        let policy = self.job(text).sandbox.unwrap();
        let notice = policy.notice(&ran.text, &self.root.join("ws"));
        (ran.text, notice)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }
}

/// What fails like a bubblewrap that may not make namespaces.
const FAILS: &str = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n";

/// One rig for each rung that works here. Says which tests it leaves out, and why.
pub(crate) async fn rigs(network: Network) -> Vec<Rig> {
    let mut rigs = Vec::new();
    for (wanted, script) in [("bubblewrap", None), ("Landlock", Some(FAILS))] {
        let rig = Rig::new(network, script).await;
        if rig.sandbox.name().starts_with(wanted) {
            rigs.push(rig);
        } else {
            let why = rig.sandbox.passed_over();
            println!("SKIPPED: {wanted} does not work on this machine: {why:?}");
        }
    }
    assert!(
        !rigs.is_empty(),
        "no sandbox works here: nothing was tested"
    );
    rigs
}

fn exists_with(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .split('\0')
            .any(|one| one == word)
    })
}

/// A sleep that is found again among all processes, whatever its number.
fn sleep(number: u32) -> (String, String) {
    let seconds = format!("30{:05}.{}", std::process::id() % 100_000, number);
    (format!("sleep {seconds}"), seconds)
}

#[tokio::test]
async fn writing_outside_is_stopped_and_said() {
    for rig in rigs(Network::Allow).await {
        let outside = rig.root.join("outside");
        let outside = outside.display();
        for text in [
            format!("echo x > {outside}/new"),
            format!("echo x >> {outside}/file"),
            format!("rm {outside}/file"),
            format!("mkdir {outside}/dir"),
            format!("mv {outside}/file {outside}/other"),
            format!("chmod 700 {outside}/file && echo x > {outside}/file"),
            format!("touch {outside}/new"),
            format!("truncate -s 0 {outside}/file"),
            format!("cp /dev/null {outside}/file"),
            format!("ln -s x {outside}/link"),
            format!("python3 -c \"open('{outside}/new', 'w')\""),
            "ln -s ../outside way; echo x > way/new".to_owned(),
            "ln -s ../outside/file way2; echo x > way2".to_owned(),
            format!("echo in > f; mv f {outside}/f"),
            format!("echo in > g; ln g {outside}/g"),
        ] {
            let (said, notice) = rig.stopped(&text).await;
            let notice = notice.unwrap_or_else(|| panic!("{text}: nothing made of {said}"));
            assert!(
                notice.contains("may have stopped") && notice.contains("/ws"),
                "{text}: {notice}"
            );
        }
        for text in [
            "echo x > /proc/self/cwd/../outside/new".to_owned(),
            format!("echo x > /proc/self/root{outside}/new"),
            format!("cd {outside} && echo x > new"),
        ] {
            rig.stopped(&text).await;
        }
        let names: Vec<_> = fs::read_dir(rig.root.join("outside"))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(
            (names, rig.read("outside/file")),
            (vec!["file".into()], "before".into())
        );
    }
}

#[tokio::test]
async fn a_hard_link_or_a_rename_brings_nothing_from_outside_in() {
    for rig in rigs(Network::Allow).await {
        let outside = rig.root.join("outside/file");
        let outside = outside.display();
        rig.stopped(&format!("ln {outside} mine && echo x > mine"))
            .await;
        rig.stopped(&format!("mv {outside} mine")).await;
        assert_eq!(rig.read("outside/file"), "before");
    }
}

#[tokio::test]
async fn the_workspace_the_temporary_folder_and_configured_ones_are_writable() {
    for rig in rigs(Network::Allow).await {
        let text = "set -e
            echo 1 > a; mkdir d; mv a d/a; ln d/a b; ln -s d c; rm b; chmod +x d/a
            t=$(mktemp); echo 2 > $t; mv $t moved 2>/dev/null || cp $t moved
            echo 3 > ../more/file; mkdir ../more/sub; touch ../more/sub/x
            echo x > /dev/null; echo x > /dev/shm/castellan-$$; rm /dev/shm/castellan-$$
            test -r /proc/self/status; head -c 4 /dev/urandom > rnd
            python3 -c 'import multiprocessing as m; m.Lock(); m.Queue().put(1)'
            (exec 3<>/dev/ptmx)
            echo all done";
        let ran = rig.run(text).await;
        assert!(
            ran.text.ends_with("all done\n"),
            "{}: {}",
            rig.sandbox.name(),
            ran.text
        );
        assert_eq!(
            (rig.read("ws/d/a"), rig.read("more/file")),
            ("1\n".into(), "3\n".into())
        );
    }
}

#[tokio::test]
async fn what_is_hidden_is_neither_read_nor_written_and_what_is_shown_is_read() {
    for rig in rigs(Network::Allow).await {
        for text in [
            "cat ../state/key",
            "cp ../state/key .",
            "cat /proc/self/root/$PWD/../state/key",
            "echo x > ../state/key",
            "echo x > ../state/new",
            "echo x > ../state/shown/new",
            "rm ../state/key",
            "mv ../state ../state2",
            "ln -s ../state s; cat s/key",
            "mkdir t; mount --bind ../state t && cat t/key",
            "umount ../state && cat ../state/key",
        ] {
            let (said, _) = rig.stopped(text).await;
            assert!(!said.contains("sesame"), "{text}: {said}");
        }
        let (_, notice) = rig.stopped("cat ../state/key || cat /nowhere").await;
        if rig.sandbox.name().starts_with("Landlock") {
            assert!(notice.unwrap().contains("castellan's own state"));
        }
        assert_eq!(rig.run("cat ../state/shown/long").await.text, "spilled");
        let names: Vec<_> = fs::read_dir(rig.root.join("state")).unwrap().collect();
        assert_eq!((rig.read("state/key").as_str(), names.len()), ("sesame", 2));
    }
}

#[tokio::test]
async fn bubblewrap_hides_a_folder_inside_a_writable_one_and_landlock_says_that_it_cannot() {
    for rig in rigs(Network::Allow).await {
        let workspace = &rig.root;
        let mut job = rig.job("cat state/key; echo x > state/key");
        job.cwd.clone_from(workspace);
        job.sandbox = rig.sandbox.policy(workspace).unwrap();
        let gaps = rig.sandbox.gaps(workspace);
        if rig.sandbox.name().starts_with("bubblewrap") {
            let ran = run(job).await;
            assert!(!ran.text.contains("sesame"), "{}", ran.text);
            assert_eq!((rig.read("state/key").as_str(), gaps.len()), ("sesame", 0));
        } else {
            assert!(gaps[0].contains("state is open to commands"), "{gaps:?}");
        }
    }
}

#[tokio::test]
async fn a_denied_network_reaches_nothing_but_sockets_in_the_file_system() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let name = format!("castellan-test-{port}");
    let _hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let text = format!(
        "python3 - <<'E'
import socket, os
def attempt(name, act):
    try:
        act(); print(name, 'works')
    except OSError as e:
        print(name, 'fails')
def tcp(): socket.create_connection(('127.0.0.1', {port}), 5)
def udp(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))
def udp6(): socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 53))
def abstract():
    s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}')
def vsock(): socket.socket(40, socket.SOCK_STREAM)
def packet(): socket.socket(17, socket.SOCK_RAW)
def pair():
    a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
def local():
    s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect('sock')
for act in (tcp, udp, udp6, abstract, vsock, packet, pair, local): attempt(act.__name__, act)
E"
    );
    for rig in rigs(Network::Deny).await {
        let ran = rig.run(&text).await;
        let expected = "tcp fails\nudp fails\nudp6 fails\nabstract fails\nvsock fails\n\
                        packet fails\npair works\nlocal works\n";
        assert_eq!(ran.text, expected, "{}", rig.sandbox.name());
        let (_, notice) = rig
            .stopped(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"))
            .await;
        assert!(
            notice.unwrap().contains("no network"),
            "{}",
            rig.sandbox.name()
        );
    }
    for rig in rigs(Network::Allow).await {
        let ran = rig.run(&text).await;
        assert!(ran.text.starts_with("tcp works\n"), "{}", ran.text);
    }
}

#[tokio::test]
async fn ends_are_reported_as_without_a_sandbox() {
    for rig in rigs(Network::Allow).await {
        for (text, number) in [
            ("exit 3", 3),
            ("exit 0", 0),
            ("exit 139", 139),
            ("false", 1),
        ] {
            assert_eq!(
                rig.run(text).await.report.end,
                End::Exited(number),
                "{text}"
            );
        }
        for (text, expected) in [
            ("kill -SEGV $$", 11),
            ("kill -40 $$", 40),
            ("kill -9 $$", 9),
        ] {
            match rig.run(text).await.report.end {
                End::Signalled { number, .. } => assert_eq!(number, expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let ran = rig
            .run("echo a; sleep 0.05; echo b >&2; sleep 0.05; echo c")
            .await;
        assert_eq!(ran.text, "a\n[stderr] b\nc\n");
        let ran = rig.run("cat; readlink /proc/self/fd/0; tty").await;
        assert_eq!(ran.text, "/dev/null\nnot a tty\n");
    }
}

#[tokio::test]
async fn a_background_child_is_ended_and_named() {
    for (index, rig) in rigs(Network::Allow).await.into_iter().enumerate() {
        let (command, word) = sleep(u32::try_from(index).unwrap());
        for text in [
            format!("{command} & echo done"),
            format!("setsid {command} > /dev/null 2>&1 & echo done"),
            format!("({command} &) ; echo done"),
        ] {
            let ran = rig.run(&text).await;
            assert_eq!(
                (ran.report.end.clone(), ran.text.as_str()),
                (End::Exited(0), "done\n")
            );
            let named: Vec<_> = ran.report.ended.iter().map(|one| &one.command).collect();
            assert!(
                named.iter().any(|name| name.contains(&word)) && ran.report.ended_total <= 2,
                "{text}: {named:?}"
            );
            assert!(!exists_with(&word), "{text}");
        }
    }
}

#[tokio::test]
async fn a_timeout_ends_what_ignores_it_and_what_changed_its_session() {
    for (index, rig) in rigs(Network::Allow).await.into_iter().enumerate() {
        let (command, word) = sleep(10 + u32::try_from(index).unwrap());
        let text = format!(
            "trap '' TERM; echo early; setsid {command} & (trap '' TERM; {command}) & {command}"
        );
        let mut job = rig.job(&text);
        job.timeout = Duration::from_millis(500);
        job.term_grace = Duration::from_millis(200);
        let ran = run(job).await;
        assert!(ran.report.timed_out, "{:?}", ran.report);
        assert_eq!(ran.text, "early\n");
        let named = ran.report.ended.iter();
        assert_eq!(
            named.filter(|one| one.command.contains(&word)).count(),
            3,
            "{:?}",
            ran.report
        );
        assert!(!exists_with(&word));
    }
}

#[tokio::test]
async fn a_command_may_tidy_up_when_its_time_is_over() {
    for rig in rigs(Network::Allow).await {
        let mut job = rig.job("trap 'echo tidied; exit 7' TERM; sleep 300 & wait");
        job.timeout = Duration::from_millis(500);
        let ran = run(job).await;
        assert_eq!(
            (ran.report.end, ran.text.as_str()),
            (End::Exited(7), "tidied\n")
        );
        assert!(ran.report.timed_out);
    }
}

#[tokio::test]
async fn a_cancel_and_a_dropped_call_leave_nothing() {
    for (index, rig) in rigs(Network::Allow).await.into_iter().enumerate() {
        let (command, word) = sleep(20 + u32::try_from(index).unwrap());
        let shell = shell();
        let job = rig.job(&format!("setsid {command} & {command}"));
        let stop = CancelSource::new();
        let running = run_job(&shell, job.clone(), stop.token());
        let cancel = async {
            eventually("the command runs", || exists_with(&word)).await;
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(running, cancel);
        assert!(ran.unwrap().report.cancelled);
        assert!(!exists_with(&word));

        let never = CancelSource::new();
        tokio::select! {
            ran = run_job(&shell, job, never.token()) => panic!("{ran:?}"),
            () = eventually("the command runs", || exists_with(&word)) => {}
        }
        shell.close().await;
        assert!(!exists_with(&word));
    }
}

#[tokio::test]
async fn a_process_inside_can_neither_end_nor_read_what_is_outside() {
    for rig in rigs(Network::Allow).await {
        let own = std::process::id();
        let text = format!(
            "kill -0 {own} && echo reached; kill -9 1 2>/dev/null; \
             for p in /proc/[0-9]*; do case $(tr '\\0' ' ' < $p/cmdline) in *shell-helper*) \
             echo x > $p/mem && echo wrote; ls $p/fd/ | grep -q . && echo listed;; esac; done \
             2>/dev/null; exit 5"
        );
        let ran = rig.run(&text).await;
        assert_eq!(ran.report.end, End::Exited(5));
        for word in ["reached", "wrote"] {
            assert!(
                !ran.text.contains(word),
                "{}: {}",
                rig.sandbox.name(),
                ran.text
            );
        }
    }
}

#[tokio::test]
async fn the_working_folder_may_be_a_link_and_must_exist() {
    for rig in rigs(Network::Allow).await {
        std::os::unix::fs::symlink(rig.root.join("ws"), rig.root.join("link")).unwrap();
        let mut job = rig.job("echo x > here; pwd -P");
        job.cwd = rig.root.join("link");
        let ran = run(job).await;
        assert_eq!(ran.text, format!("{}/ws\n", rig.root.display()));
        assert_eq!(rig.read("ws/here"), "x\n");

        for (cwd, program, kind) in [
            ("gone", "bash", ErrorKind::WorkingFolder),
            ("ws", "no-such-program", ErrorKind::ProgramNotFound),
        ] {
            let mut job = rig.job("true");
            job.cwd = rig.root.join(cwd);
            job.program = program.to_owned();
            let stop = CancelSource::new();
            let error = run_job(&shell(), job, stop.token()).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}

#[tokio::test]
async fn a_workspace_that_is_everything_still_hides_what_is_hidden() {
    for rig in rigs(Network::Allow).await {
        let everything = Path::new("/");
        if !rig.sandbox.gaps(everything).is_empty() {
            println!(
                "SKIPPED: {} can't hide inside a workspace",
                rig.sandbox.name()
            );
            continue;
        }
        let text = format!(
            "cat {0}/state/key; echo x > {0}/outside/new",
            rig.root.display()
        );
        let mut job = rig.job(&text);
        job.cwd = everything.to_owned();
        job.sandbox = rig.sandbox.policy(everything).unwrap();
        let ran = run(job).await;
        assert!(!ran.text.contains("sesame"), "{}", ran.text);
        assert_eq!(rig.read("outside/new"), "x\n");
    }
}

#[tokio::test]
async fn a_writable_folder_that_was_swapped_for_a_link_stops_the_command() {
    for rig in rigs(Network::Allow).await {
        let job = rig.job("echo x > ../more/file");
        fs::remove_dir(rig.root.join("more")).unwrap();
        std::os::unix::fs::symlink(rig.root.join("outside"), rig.root.join("more")).unwrap();
        let stop = CancelSource::new();
        let error = run_job(&shell(), job, stop.token()).await.unwrap_err();
        assert!(matches!(&error, Error::Sandbox { reason, .. } if reason.contains("now leads to")));
        assert_eq!(rig.read("outside/file"), "before");
    }
}

#[tokio::test]
async fn a_sandbox_that_breaks_later_is_an_error_and_no_run_without() {
    let mut rig = Rig::new(Network::Allow, None).await;
    for (script, expected) in [
        (FAILS, "No permissions"),
        ("#!/bin/sh\nsleep 300\n", "in time"),
        ("#!/bin/sh\nexit 0\n", "code 0"),
        (
            "#!/bin/sh\necho '{\"Started\":{\"pid\":1,\"landlock\":null}}'\nexit 0\n",
            "code 0",
        ),
    ] {
        fake(&rig.root, script);
        let mut job = rig.job("echo x > ran");
        let policy = job.sandbox.as_mut().unwrap();
        policy.rung = Rung::Bubblewrap {
            program: rig.root.join("bin/bwrap"),
            version: "0".to_owned(),
        };
        let stop = CancelSource::new();
        let error = run_job(&shell(), job, stop.token()).await.unwrap_err();
        assert!(matches!(&error, Error::Sandbox { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!rig.root.join("ws/ran").exists());
    }
    rig.sandbox = Sandbox::off("test");
    assert_eq!(rig.sandbox.policy(&rig.root).unwrap(), None);
}

#[tokio::test]
async fn a_bubblewrap_that_fails_hangs_or_lies_is_passed_over_and_said() {
    let lies = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";
    for (script, expected) in [
        (FAILS, "No permissions to create new namespace"),
        ("#!/bin/sh\nexec sleep 300\n", "in time"),
        ("#!/bin/sh\nhead -c 10000000 /dev/zero >&2\n", "in time"),
        (lies, "it let a command write outside its folder"),
        ("#!/nowhere\n", "can't be started"),
    ] {
        let rig = Rig::new(Network::Allow, Some(script)).await;
        assert!(!rig.sandbox.name().starts_with("bubblewrap"), "{script}");
        let passed = rig.sandbox.passed_over();
        assert!(passed[0].contains(expected), "{script}: {passed:?}");
    }
}

/// Its programs complain while it speaks, and the machine is busy: neither says anything about the
/// rung.
#[tokio::test]
async fn thirty_trials_at_once_find_the_same_rung() {
    for (wanted, script) in [("bubblewrap", None), ("Landlock", Some(FAILS))] {
        let first = Rig::new(Network::Allow, script).await.sandbox;
        if !first.name().starts_with(wanted) {
            println!(
                "SKIPPED: {wanted} does not work here: {:?}",
                first.passed_over()
            );
            continue;
        }
        let trials = (0..30).map(|_| Rig::new(Network::Allow, script));
        for rig in futures::future::join_all(trials).await {
            let sandbox = rig.sandbox;
            assert_eq!(sandbox.rung(), first.rung(), "{:?}", sandbox.passed_over());
        }
    }
}

#[tokio::test]
async fn a_sandbox_in_a_sandbox_says_what_works_there() {
    for rig in rigs(Network::Allow).await {
        let helper = env!("CARGO_BIN_EXE_castellan-shell-helper");
        let policy = rig.job("").sandbox.unwrap();
        let inner = serde_json::json!({
            "program": "bash", "args": ["-c", "echo x > ../outside/new; echo y > inner; cat inner"],
            "cwd": rig.root.join("ws"), "env": [["PATH", variable("PATH")]],
            "timeout_ms": 20_000, "term_grace_ms": 0, "sandbox": policy,
        });
        let inner = inner.to_string();
        let length = u32::try_from(inner.len()).unwrap().to_le_bytes();
        fs::write(
            rig.root.join("ws/job"),
            [&length[..], inner.as_bytes()].concat(),
        )
        .unwrap();
        let ran = rig
            .run(&format!(
                "(cat job; sleep 5) | {helper} __shell | tr -d '\\000-\\011'"
            ))
            .await;
        // Bubblewrap may not work again inside itself, Landlock does. Either way nothing gets out.
        let ran_inside = ran.text.contains("y\n") && ran.text.contains("exit_code\":0");
        let refused = ran.text.contains("\"refused\":{\"Sandbox\"");
        assert!(
            ran_inside || refused,
            "{}: {}",
            rig.sandbox.name(),
            ran.text
        );
        assert!(!rig.root.join("outside/new").exists());
    }
}

#[tokio::test]
async fn git_and_python_work_inside() {
    for rig in rigs(Network::Allow).await {
        let text = "set -e; git init -q .; git config user.email a@b; git config user.name n
            echo 1 > f; git add f; git commit -qm one; git log --oneline | wc -l
            python3 -m venv --without-pip v; v/bin/python -c 'print(6*7)'";
        let ran = rig.run(text).await;
        assert!(
            ran.text.ends_with("1\n42\n"),
            "{}: {}",
            rig.sandbox.name(),
            ran.text
        );
    }
}

#[tokio::test]
async fn required_means_all_that_is_asked_for() {
    let rig = Rig::new(Network::Allow, Some(FAILS)).await;
    let mut wish = Wish {
        mode: Mode::Require,
        write: vec![rig.root.join("no-such-folder")],
        ..Wish::default()
    };
    let sandbox = Sandbox::find(&wish, &shell(), &rig.environment).await;
    let error = sandbox
        .demand(&rig.root.join("ws"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no-such-folder can't be opened"), "{error}");
    wish.mode = Mode::Off;
    let sandbox = Sandbox::find(&wish, &shell(), &rig.environment).await;
    assert_eq!(sandbox.name(), "none");
    assert!(sandbox.line(&rig.root).contains("switched off"));
    assert_eq!(
        shell().sandbox().policy(&rig.root).unwrap_err().kind(),
        ErrorKind::Sandbox
    );
    assert!(HiddenFolder::new(&rig.root, &[]).shown.is_empty());
}

/// The process with this word on its command line, and its parent.
fn process_with(word: &str) -> Option<(i32, i32)> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let is_it = line.split('\0').any(|one| one == word);
        is_it.then(|| Some((pid, parent(pid)?))).flatten()
    })
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn a_helper_that_is_killed_leaves_nothing_of_the_sandbox() {
    for (index, rig) in rigs(Network::Allow).await.into_iter().enumerate() {
        let (command, word) = sleep(40 + u32::try_from(index).unwrap());
        let shell = shell();
        let never = CancelSource::new();
        let job = rig.job(&format!("setsid {command} & wait"));
        let running = run_job(&shell, job, never.token());
        let kill = async {
            eventually("the command runs", || process_with(&word).is_some()).await;
            let own = i32::try_from(std::process::id()).unwrap();
            let (mut pid, mut above) = process_with(&word).unwrap();
            while above != own {
                (pid, above) = (above, parent(above).unwrap());
            }
            let killed = nix::sys::signal::Signal::SIGKILL;
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), killed).unwrap();
        };
        let (ran, ()) = tokio::join!(running, kill);
        let report = ran.unwrap().report;
        assert!(
            matches!(report.end, End::HelperLost { .. }),
            "{:?}",
            report.end
        );
        eventually("nothing is left", || process_with(&word).is_none()).await;
    }
}

/// Root has other ways than a user: namespaces without a user's, capabilities to give up.
#[tokio::test]
async fn it_holds_for_a_user_without_powers_as_well() {
    let helper = env!("CARGO_BIN_EXE_castellan-shell-helper");
    let as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let reach = job(&format!("{as_nobody} test -x {helper}"));
    if run(reach).await.report.end != End::Exited(0) {
        println!("SKIPPED: this user can't run {helper} as nobody");
        return;
    }
    for rig in rigs(Network::Deny).await {
        let script = rig.root.join("bin/helper");
        fs::write(
            &script,
            format!("#!/bin/sh\nPATH=/usr/bin:/bin\nexec {as_nobody} {helper} \"$@\"\n"),
        )
        .unwrap();
        for (folder, mode) in [("", 0o755), ("ws", 0o777), ("state", 0o777)] {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(rig.root.join(folder), mode).unwrap();
        }
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let text = "id -u; echo x > made; cat made; cat ../state/key; echo x > ../state/new; \
                    echo x > ../outside/new; echo x > /proc/sys/kernel/core_pattern; \
                    (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | tail -n 1; kill -KILL $$";
        let shell = Shell::new(HelperCommand::at(script));
        let stop = CancelSource::new();
        let ran = run_job(&shell, rig.job(text), stop.token()).await.unwrap();
        assert!(ran.text.starts_with("65534\nx\n"), "{}", ran.text);
        assert!(!ran.text.contains("sesame"), "{}", ran.text);
        assert!(
            !rig.root.join("state/new").exists(),
            "{}",
            rig.sandbox.name()
        );
        assert!(matches!(ran.report.end, End::Signalled { number: 9, .. }));
    }
}

#[tokio::test]
async fn hooks_are_enclosed_and_get_what_they_are_to_read() {
    for rig in rigs(Network::Allow).await {
        let shell = shell();
        shell.enclose(rig.sandbox.clone());
        let hooks = ShellHooks::new(shell, rig.environment.child_environment(&[]));
        let project = rig.root.join("ws");
        let hook = HookJob {
            command: "cat > got; cat got; echo x > ../outside/new || exit 7".to_owned(),
            cwd: project.clone(),
            project,
            input: "told\n".to_owned(),
            timeout: LONG,
        };
        let stop = CancelSource::new();
        match hooks.run(hook, stop.token()).await {
            HookEnd::Exited { code, stdout, .. } => {
                assert_eq!((code, &*stdout), (7, &b"told\n"[..]));
            }
            other => panic!("{other:?}"),
        }
        assert!(!rig.root.join("outside/new").exists());
    }
}

#[tokio::test]
async fn a_long_input_reaches_a_command_inside() {
    for rig in rigs(Network::Allow).await {
        let mut job = rig.job("wc -c");
        job.input = Some("x".repeat(1_000_000));
        assert_eq!(run(job).await.text.trim(), "1000000");
    }
}
