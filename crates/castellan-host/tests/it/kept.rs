//! What a sandbox keeps from a command in places and powers that are otherwise open to it, tried on
//! every rung that works on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use castellan_core::CancelSource;
use castellan_host::sandbox::Network;
use castellan_host::{End, HelperCommand, Shell};

use crate::sandbox::rigs;
use crate::world::{job, run, run_job};

#[tokio::test]
async fn bubblewrap_keeps_what_is_not_to_be_changed_and_landlock_says_that_it_cannot() {
    for rig in rigs(Network::Allow).await {
        let workspace = rig.root.join("ws");
        assert_eq!(rig.run("mkdir .own && rmdir .own").await.text, "");
        fs::create_dir(workspace.join(".own")).unwrap();
        fs::write(workspace.join(".own/rules"), "strict").unwrap();
        let gaps = rig.sandbox.gaps(&workspace);
        if rig.sandbox.name().starts_with("Landlock") {
            assert!(gaps[0].contains("can change"), "{gaps:?}");
            continue;
        }
        assert!(gaps.is_empty(), "{gaps:?}");
        for text in [
            "echo x > .own/rules",
            "echo x > .own/new",
            "rm .own/rules",
            "rm -r .own",
            "mv .own other",
            "umount .own && rm .own/rules",
            "mount -o remount,rw,bind .own && rm .own/rules",
        ] {
            rig.stopped(text).await;
            assert_eq!(rig.read("ws/.own/rules"), "strict", "{text}");
        }
        let (_, notice) = rig.stopped("echo x > ./.own/rules").await;
        assert!(notice.unwrap().contains("commands don't change"));
        let ran = rig.run("cat .own/rules; echo x > beside; ls").await;
        assert_eq!(ran.text, "strictbeside\n");
    }
}

/// What is handed down past the bounding set: a container may be started with such powers.
#[tokio::test]
async fn no_powers_are_handed_down_to_a_command() {
    let sys_admin = 1_u64 << 21;
    let with_powers = "setpriv --inh-caps +sys_admin --ambient-caps +sys_admin";
    let own = run(job(&format!("{with_powers} grep ^Cap /proc/self/status"))).await;
    if own.report.end != End::Exited(0) {
        println!(
            "SKIPPED: this user has no powers to hand down: {}",
            own.text
        );
        return;
    }
    let helper = env!("CARGO_BIN_EXE_castellan-shell-helper");
    for rig in rigs(Network::Allow).await {
        let script = rig.root.join("bin/helper");
        let text = format!("#!/bin/sh\nPATH=/usr/bin:/bin\nexec {with_powers} {helper} \"$@\"\n");
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let shell = Shell::new(HelperCommand::at(script));
        let stop = CancelSource::new();
        let job = rig.job("grep ^Cap /proc/self/status");
        let ran = run_job(&shell, job, stop.token()).await.unwrap();
        let sets: Vec<(&str, u64)> = ran
            .text
            .lines()
            .filter_map(|line| line.split_once(":\t"))
            .map(|(set, bits)| (set, u64::from_str_radix(bits, 16).unwrap()))
            .collect();
        assert_eq!(sets.len(), 5, "{}", ran.text);
        // The bounding set gives nothing by itself, and bubblewrap leaves it be.
        for (set, bits) in sets.into_iter().filter(|(set, _)| *set != "CapBnd") {
            assert_eq!(bits & sys_admin, 0, "{}: {set}", rig.sandbox.name());
        }
    }
}
