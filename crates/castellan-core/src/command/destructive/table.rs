//! What is refused and what is not. The second list matters as much as the first: who is refused
//! without need looks for a way round.

use super::*;

fn homes() -> Homes {
    Homes {
        homes: vec!["/home/me".to_owned(), "/data/people/you".to_owned()],
        cwd: "/home/me/project".to_owned(),
        environment: None,
    }
}

/// The same with an environment that is known.
fn known() -> Homes {
    let of = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let environment = [
        ("HOME", "/home/me"),
        ("TMPDIR", "/tmp/x"),
        ("ROOT", "/"),
        ("EMPTY", ""),
    ];
    Homes {
        environment: Some(environment.map(of).to_vec()),
        ..homes()
    }
}

const REFUSED: &[&str] = &[
    // What is filled in.
    "rm -rf ${HOME%/}",
    "rm -rf \"${HOME%%/}\"/*",
    "rm -rf ${HOME%/*}",
    "rm -rf ${HOME#/home/me}/",
    "rm -rf ${HOME##*}/*",
    "rm -rf ${HOME:0:1}",
    "rm -rf ${HOME:+/}",
    "rm -rf ${x:-/}",
    "rm -rf \"${x-/usr}\"",
    "rm -rf ${x:-$HOME}",
    "rm -rf ${x:-\"$HOME\"/}",
    "rm -rf ${x:-${y:-/}}",
    "rm -rf ${x:-~}",
    "rm -rf ${x:+/etc}",
    ": ${x:=/}; rm -rf $x",
    ": \"${x=/usr}\"; rm -rf \"$x\"/*",
    "D=/usr/; rm -rf ${D%/}",
    "D=/usr.bak; rm -rf ${D%.*}",
    "set -- /; rm -rf \"$@\"",
    "set -- / x; rm -rf $*",
    "set -- x /; rm -rf \"$2\"",
    "set -e -- /; rm -rf ${1}",
    "set x /etc; shift; rm -rf \"$1\"",
    "set -- rm -rf /; \"$@\"",
    "x=(/ /etc); rm -rf \"${x[@]}\"",
    "x=(/tmp/a /etc); rm -rf ${x[*]}",
    "x=(a); x+=(/); rm -rf \"${x[@]}\"",
    "x=(a b); x[1]=/; rm -rf \"${x[1]}\"",
    "x=(rm -rf /); \"${x[@]}\"",
    "for d in \"${HOME%/}\"; do rm -rf $d; done",
    "printf -v x /; rm -rf $x",
    "printf -v x %s/ /usr; rm -rf \"$x\"",
    "rm -rf $(echo /)",
    "rm -rf \"$(echo /)\"",
    "rm -rf `echo /`",
    "rm -rf $(printf /)",
    "rm -rf $(printf '%s\\n' / /tmp/x)",
    "rm -rf $(echo /*)",
    "rm -rf $(echo $(echo /))",
    "D=$(echo $HOME); rm -rf \"$D\"",
    "$(echo rm) -rf /",
    "xargs rm -rf <<< /",
    "xargs rm -rf <<< \"$HOME\"",
    "xargs -I{} rm -rf {} <<END\n/tmp/x\n/usr\nEND",
    "echo / | xargs rmdir",
    "rm -rf /proc/self/root",
    "rm -rf /proc/self/root/",
    "rm -rf /proc/1/root/usr",
    "rm -rf /proc/self/cwd/..",
    "rm -rf /proc/self/root/proc/thread-self/root/*",
    "rmdir /etc",
    "rmdir -p /home",
    "git clean -fdx /",
    "git clean -f -d -x -- ~",
    "git -C / clean -fdx",
    "cd / && git clean -fdx",
    "git --work-tree=/usr clean --force -d",
    // Removing `/`, a home or a system folder, in many spellings.
    "rm -rf /",
    "rm -fr /",
    "rm -r -f /",
    "rm --recursive --force /",
    "sudo rm -r -f /*",
    "sudo -n -u root rm -rf /",
    "doas rm -rf /",
    "rm -rf -- /",
    "rm -rf --no-preserve-root x",
    "/bin/rm -rf /",
    "\\rm -rf /",
    "'rm' \"-rf\" '/'",
    "r''m -rf /",
    "rm -rf //",
    "rm -rf /./",
    "rm -rf /etc/../",
    "rm -rf /.",
    "rm -rf /..",
    "rm -rf /*",
    "rm -rf /.*",
    "rm -rf /?*",
    "rm -rf /[a-z]*",
    "rm -rf /u*",
    "rm -rf /us[qrs]",
    "rm -rf /{bin,usr}",
    "rm -rf {/etc,/tmp/x}",
    "{rm,-rf,/}",
    "rm -rf $'/'",
    "rm -rf /usr",
    "rm -rf /usr/*",
    "rm -rf /etc /tmp/x",
    "rm -rf /boot/",
    "rm -rf /usr/local",
    "rm -rf /home",
    "rm -rf /var/lib",
    "rm -rf ~",
    "rm -rf ~/",
    "rm -rf ~/*",
    "rm -rf ~/.*",
    "rm -rf ~root",
    "rm -rf ~you",
    "rm -rf \"$HOME\"",
    "rm -rf ${HOME}/",
    "rm -rf $HOME/*",
    "rm -rf \"${HOME:?}\"/*",
    "rm -rf /home/me/.",
    "rm -rf /home/else",
    "rm -rf /home/$USER",
    "rm -rf /home/*",
    "rm -rf /data/people",
    "rm -rf /data",
    "rm -rf ../../me",
    "rm -rf ../../..",
    "rm -rf ..",
    "rm -rf ../*",
    "rm -rf \"$PWD/..\"",
    "cd / && rm -rf *",
    "cd /usr; rm -rf ./*",
    "cd; rm -rf *",
    "cd .. && rm -rf .",
    "(cd / && rm -rf *)",
    "pushd / && rm -rf ./*",
    "D=/; rm -rf $D",
    "D=/usr && rm -rf \"$D\"/*",
    "export D=/; rm -rf ${D}",
    "export D=$HOME; rm -rf \"$D\"",
    "export A=b D=\"$HOME\"; rm -rf $D",
    "declare D=~; rm -rf \"$D\"",
    "declare -x D=$HOME/; rm -rf $D*",
    "typeset D=${HOME}; rm -rf $D",
    "readonly D=$HOME/..; rm -rf $D",
    "f() { local D=$HOME; rm -rf \"$D\"; }; f",
    "command export D=$HOME; rm -rf $D",
    "X='a /etc'; export D=$X; rm -rf $D",
    "X=$HOME; export D=$X/.; rm -rf \"$D\"",
    "declare -n R=HOME; rm -rf \"$R\"",
    "D=/us; D+=r; rm -rf $D",
    "D=/us; export D+=r; rm -rf $D",
    "unset X; rm -rf \"$X/\"",
    "unset -v A X; rm -rf $X/*",
    "f() { local X; rm -rf \"$X/\"; }; f",
    "D=/; D=/tmp/x true; rm -rf $D",
    "D=/ bash -c 'rm -rf $D'",
    "env D=$HOME bash -c 'rm -rf \"$D\"'",
    "HOME=/tmp/x make; rm -rf $HOME",
    "X='rm -rf /'; $X",
    "C=rm; $C -rf /",
    "for d in /usr /etc; do rm -rf $d; done",
    "eval 'rm -rf /'",
    "eval rm -rf /",
    "bash -c 'rm -rf /'",
    "sh -c \"cd / && rm -rf *\"",
    "sudo bash -c 'sh -c \"rm -rf /\"'",
    "bash <<'END'\nrm -rf /\nEND",
    "bash <<< 'rm -rf /'",
    "sh <<END\necho $X\nrm -rf /\nEND",
    "echo 'rm -rf /' | sh",
    "env -i A=b nice -n 5 timeout 5 rm -rf /",
    "xargs rm -rf / < list",
    "echo / | xargs rm -rf",
    "find / -print0 | xargs -0 rm -rf",
    "ls / | xargs rm -rf",
    "echo x; true && { rm -rf /; }",
    "if true; then rm -rf /; fi",
    "x=$(rm -rf /)",
    "echo `rm -rf /`",
    "cat <(rm -rf /)",
    "f() { rm -rf /; }; f",
    "trap 'rm -rf /' EXIT",
    "su -c 'rm -rf /'",
    "busybox rm -rf /",
    "nohup rm -rf / &",
    "time rm -rf /",
    "find / -delete",
    "find /* -delete",
    "find ~ -exec rm -rf {} +",
    "find / -type f -exec shred {} \\;",
    "find / ! -name x -delete",
    "cd / && find . -delete",
    "find / -mindepth 1 -delete",
    "shred -u /usr/*",
    "rsync -a --delete empty/ /",
    "rsync -a --delete empty/ ~/",
    // The same by way of permissions and moves.
    "chmod -R 777 /",
    "chmod -Rf 000 /usr",
    "chown -R me:me /etc",
    "sudo chown --recursive me /",
    "chown -hR me /*",
    "mv / /tmp/x",
    "mv /usr /tmp",
    "mv ~ /tmp/x",
    "mv /etc/passwd /tmp",
    "mv -t /tmp /usr",
    // Disks.
    "dd if=/dev/zero of=/dev/sda",
    "dd of=/dev/nvme0n1 if=x bs=1M",
    "sudo dd if=x of=\"/dev/sd\"b",
    "> /dev/sda",
    ": > /dev/sda1",
    "cat x > /dev/vda",
    "cat x | sudo tee /dev/nvme0n1",
    "cp x /dev/vda",
    "cp image /dev/disk/by-id/x",
    "mkfs.ext4 /dev/sda1",
    "mkfs -t ext4 /dev/sdb",
    "mke2fs /dev/sdb",
    "mkswap /dev/sdb2",
    "wipefs -a /dev/sda",
    "blkdiscard /dev/nvme0n1",
    "fdisk /dev/sda",
    "echo ',,' | sfdisk /dev/sda",
    "sgdisk --zap-all /dev/sda",
    "sgdisk -d 1 /dev/sda",
    "parted -s /dev/sda mklabel gpt",
    "cryptsetup luksFormat /dev/sda2",
    "lvremove -f vg/root",
    "zpool destroy tank",
    "shred /dev/sda",
    "hdparm --security-erase x /dev/sda",
    // Fork bombs.
    ":(){ :|:& };:",
    ":() { : | : & }; :",
    "bomb() { bomb | bomb & }; bomb",
    "function f { f & f & }; f",
    "f() { nohup f & f & }; f",
    "bash -c ':(){ :|:& };:'",
    "$0 & $0",
    "perl -e 'fork while fork'",
    // Stopping the machine.
    "shutdown -h now",
    "sudo shutdown -r +1",
    "reboot",
    "sudo reboot -f",
    "poweroff",
    "halt -p",
    "init 0",
    "telinit 6",
    "systemctl poweroff",
    "sudo systemctl -i reboot",
    "systemctl isolate rescue.target",
    "echo b > /proc/sysrq-trigger",
    "echo o | sudo tee /proc/sysrq-trigger",
    "kill -9 -1",
    "kill -KILL -1",
    "kill -s KILL -- -1",
    "kill -- -1",
    "sleep 1 && reboot",
    // Nobody could log in.
    "> /etc/passwd",
    "echo x > /etc/shadow",
    "cp x /etc/sudoers",
    "rm /etc/passwd",
    "truncate -s 0 /etc/shadow",
    // A slip of the pen is no way round.
    "rm -rf / (",
    "sudo rm -r -f /* )",
    "if true; then rm -rf \"$HOME\"",
    "echo 'x; rm -rf /",
    "r\\\nm -rf /",
    "rm -rf ~/ <> x",
    "cat x > /dev/sda (",
    "mkfs.ext4 /dev/sda1 <> x",
    ":(){ :|:& };: (",
    "cd / && rm -rf * (",
    "bash -c 'rm -rf / ('",
    "bash -c \"$X; rm -rf /\"",
    "reboot )",
    "D=/; rm -rf $D (",
    "export D=$HOME; rm -rf \"$D\" (",
    "unset X; rm -rf $X/ (",
];

const NOT_REFUSED: &[&str] = &[
    "rm -rf ${HOME%/}/project/target",
    "rm -rf \"${DIR%/}\"",
    "rm -rf \"${DIR:-/tmp/x}\"",
    "rm -rf \"${DIR:?}\"/*",
    "rm -rf \"${DIR:+$DIR/x}\"",
    "D=/tmp/x; rm -rf ${D:-/}",
    "D=/tmp/x; rm -rf ${D%/*}/*",
    "D=; rm -rf ${D:+/}",
    "D=/usr/x/y; rm -rf ${D%/*}",
    "rm -rf ${x//a//}",
    "f() { rm -rf \"$1\"; }; set -- /; f build",
    "rm -rf \"$@\"",
    "set -- a /; rm -rf \"$1\"",
    "set -e; rm -rf \"$1\"",
    "x=(a b); rm -rf \"${x[@]}\"",
    "x=(/ /etc); rm -rf ${#x[@]}",
    "x=(/ /etc); ls \"${x[@]}\"",
    "declare -A m=([a]=/); rm -rf \"${m[b]}\"",
    "printf -v x %s/build /tmp; rm -rf \"$x\"",
    "printf -v x %d 1; rm -rf \"$x\"",
    "rm -rf $(echo /tmp/x)",
    "rm -rf $(echo / | wc -l)",
    "rm -rf $(echo / > x)",
    "rm -rf $(ls /)",
    "rm -rf \"$(printf '%s/x' \"$HOME\")\"",
    "xargs rm -rf <<< /tmp/x",
    "xargs ls <<< /",
    "ls /proc/self/root",
    "rm -rf /proc/self/cwd/build",
    "rmdir build /tmp/x ~/project/old",
    "git clean -fdx",
    "git clean -n /",
    "git clean -fdx build",
    "git -C sub clean -fd",
    "cd / && git status",
    "git commit -m 'clean -fdx /'",
    "rm -rf /tmp/build",
    "rm -rf /tmp/*",
    "rm -rf ./x",
    "rm -rf target node_modules",
    "rm -rf *",
    "rm -rf ./*",
    "rm -rf .",
    "rm -rf *.o",
    "rm -rf ~/project/target",
    "rm -rf ~/.cache/pip",
    "rm -rf \"$HOME/.cache/\"*",
    "rm -rf /home/me/project/build/../out",
    "rm -rf \"$DIR\"",
    "rm -rf \"$DIR\"/*",
    "rm -rf $(mktemp -d)",
    "D=$(mktemp -d); rm -rf \"$D\"",
    "HOME=$(mktemp -d); rm -rf \"$HOME\"",
    "D=/tmp/x; rm -rf $D/*",
    "export D=/tmp/x; rm -rf \"$D\"/*",
    "export D; rm -rf \"$D\"/*",
    "export PATH=$PATH:/usr/local/bin; rm -rf target",
    "declare -A seen; rm -rf \"$D\"/*",
    "f() { local D=$(mktemp -d); rm -rf \"$D\"; }; f",
    "f() { local D; D=$(mktemp -d); rm -rf \"$D/\"; }; f",
    "local D; read -r D; rm -rf \"$D/\"",
    "unset X; rm -rf \"$X/tmp/a\"",
    "unset -f X; rm -rf \"$X/\"",
    "unset X; printf -v X %s /tmp/a; rm -rf \"$X/\"",
    "D=/tmp; D+=/x; rm -rf $D/*",
    "cd build && rm -rf *",
    "cd /tmp/x && rm -rf ./*",
    "(cd / && ls); rm -rf out/*",
    "cd / | rm -rf *",
    "cd \"$DIR\" && rm -rf *",
    "rm -rf /usr/local/share/old-app",
    "rm -rf /var/lib/apt/lists/*",
    "rm -rf /var/tmp/x /opt/app/cache",
    "rm -f /etc/nginx/sites-enabled/default",
    "rm -rf ~/foo*",
    "rm -rf {a,b}/target",
    "rm x",
    "rm --help",
    "grep shutdown log",
    "grep -r 'rm -rf /' docs",
    "echo \"rm -rf /\"",
    "echo rm -rf /",
    "printf '%s\\n' reboot",
    "git commit -m \"reboot\"",
    "git commit -m 'never run rm -rf / again'",
    "git log --grep='mkfs /dev/sda'",
    "cat <<'END' > notes\nrm -rf /\nmkfs.ext4 /dev/sda\nEND",
    "cat <<END\nshutdown now\nrm -rf ~\nEND",
    "ls # rm -rf /",
    "# rm -rf /",
    "man shutdown",
    "which reboot",
    "type rm",
    "command -v shutdown",
    "shutdown -c",
    "shutdown --help",
    "systemctl status nginx",
    "systemctl restart nginx",
    "systemctl --user exit",
    "init 3",
    "cargo init 0",
    "npm run reboot",
    "./reboot.sh",
    "docker run x reboot",
    "chown -R me:me .",
    "chown -R me:me /home/me/project",
    "chown -R www-data /var/www/site",
    "chmod -R u+w target",
    "chmod 755 /usr/local/bin/tool",
    "chmod -R 755 /opt/app",
    "dd if=/dev/zero of=disk.img bs=1M count=10",
    "dd if=/dev/sda of=backup.img",
    "dd if=/dev/urandom of=/dev/null count=1",
    "mkfs.ext4 disk.img",
    "mkfs.ext4 -F /tmp/disk.img",
    "mkfs.ext4 -V",
    "fdisk -l /dev/sda",
    "parted /dev/sda print",
    "parted disk.img mklabel gpt",
    "sfdisk -d /dev/sda > table",
    "lsblk /dev/sda",
    "wipefs /dev/sda",
    "cat /dev/null > log",
    "echo x > /dev/null",
    "echo x > /dev/stderr",
    "echo x > /dev/shm/x",
    "cp /dev/null x",
    "cat x | tee out.txt",
    "echo '1.2.3.4 x' | sudo tee -a /etc/hosts",
    "cat /etc/passwd",
    "grep root /etc/passwd > users",
    "cp /etc/passwd /tmp",
    "echo 'x:x:1:1::/:/bin/sh' >> /etc/passwd",
    "find . -name '*.o' -delete",
    "find . -delete",
    "find / -name core -type f",
    "find / -name '*.pyc' -delete",
    "find ~ -name '*.tmp' -exec rm {} +",
    "find /tmp -mindepth 1 -delete",
    "find ~/project -type d -exec rmdir {} +",
    "find . -print0 | xargs -0 rm -f",
    "find / -name x | xargs grep y",
    "ls / | wc -l",
    "mv build /tmp/x",
    "mv ~/Downloads/* ~/old",
    "mv x /usr/local/bin/",
    "cp -r . /opt/app",
    "rsync -a --delete src/ dst/",
    "rsync -a src/ /srv/www/site/",
    "kill -9 1234",
    "kill -1 1234",
    "kill -HUP 1",
    "kill %1",
    "kill -l",
    "pkill -f server",
    "fib() { echo $(( $(fib 1) + $(fib 2) )); }; fib 3",
    "walk() { for f in *; do walk \"$f\"; done; }; walk",
    "serve() { python3 -m http.server & }; serve",
    "f() { g | g; }; f",
    "python3 -c 'import os; print(os.getpid())'",
    "perl -ne 'print if /reboot/' log",
    "truncate -s 0 log",
    "ln -s /usr/bin x",
    "tar -C / -xf x.tar",
    "ls / ~ /usr/*",
    "du -sh /* 2>/dev/null",
    "sed -i s/x/y/ config",
    "echo $((1 / 2))",
    "test -e / && echo /",
    "make clean && make -j4",
    "",
];

/// What is refused in `text`; what can't be looked through is no answer.
fn refused(text: &str, homes: &Homes) -> Option<Refusal> {
    destructive(text, homes).unwrap()
}

#[test]
fn what_would_destroy_the_machine_is_refused() {
    let missed: Vec<&&str> = REFUSED
        .iter()
        .filter(|text| refused(text, &homes()).is_none())
        .collect();
    assert!(missed.is_empty(), "not refused: {missed:#?}");
}

/// What stands past each bound, and would be refused before it.
fn past_a_bound() -> Vec<String> {
    let many = |count: usize, one: &dyn Fn(usize) -> String| -> String {
        (0..count).map(one).collect::<Vec<_>>().join(" ")
    };
    vec![
        // More commands than are looked at in a text that can't be read.
        format!("{}; rm -rf / (", "rm x; ".repeat(20_000)),
        format!("rm {} / (", "a ".repeat(20_000)),
        // More words than a pattern is expanded to.
        format!(
            "rm -rf {{{},/}}",
            many(2_000, &|n| format!("a{n}")).replace(' ', ",")
        ),
        // More values, and more variables, than are remembered.
        format!(
            "for d in {} /usr; do rm -rf $d; done",
            many(2_000, &|n| format!("a{n}"))
        ),
        format!(
            "{}; D=/; rm -rf $D",
            many(500, &|n| format!("V{n}=x;")).trim_end_matches(';')
        ),
        // A longer word than is followed.
        format!("D={}/; rm -rf $D{}", "/.".repeat(600), "/..".repeat(400)),
        // More folders than are remembered.
        format!("cd /; {} rm -rf *", "(cd a); ".repeat(500)),
        // A command's own name.
        format!(
            "for c in {} rm; do $c -rf /; done",
            many(2_000, &|n| format!("a{n}"))
        ),
    ]
}

#[test]
fn what_is_past_a_bound_is_refused_or_said_to_be_unseen() {
    for text in past_a_bound() {
        let found = destructive(&text, &homes());
        let begins: String = text.chars().take(40).collect();
        assert!(!matches!(found, Ok(None)), "{begins}");
    }
}

#[test]
fn much_that_is_harmless_is_seen_through() {
    let names = |count: usize| -> String { (0..count).map(|n| format!("name{n} ")).collect() };
    for text in [
        format!("rm -f {}", names(3_000)),
        format!("for f in {}; do rm -f \"$f\"; done", names(500)),
        format!("echo {{{}}}", names(500).trim().replace(' ', ",")),
        format!(
            "cat <<END > x\n{}\nEND",
            "some words that say nothing\n".repeat(4_000)
        ),
        format!("{} (", "some words that say nothing ".repeat(20_000)),
        "V=1; ".repeat(500) + "rm -rf \"$D\"/x",
        "cd a; ".repeat(500) + "rm -rf x",
    ] {
        assert_eq!(destructive(&text, &homes()), Ok(None), "{text:.40}");
    }
}

#[test]
fn what_only_looks_like_it_is_not_refused() {
    let refused: Vec<(&&str, Refusal)> = NOT_REFUSED
        .iter()
        .filter_map(|text| Some((text, refused(text, &homes())?)))
        .collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
}

/// A variable that neither the environment has nor the command sets is empty.
#[test]
fn an_unset_variable_is_known_to_be_empty_where_the_environment_is_known() {
    let refused_all = [
        "rm -rf \"${UNSET}/\"",
        "rm -rf $UNSET/*",
        "rm -rf \"$UNSET\"/*",
        "rm -rf /$UNSET",
        "rm -rf /$UNSET/",
        "rm -rf \"$EMPTY/\"",
        "rm -rf $ROOT",
        "rm -rf \"${ROOT}usr\"",
        "rm -rf ${UNSET:-/}",
        "rm -rf ${UNSET-/}",
        "rm -rf $HOME/$UNSET",
        "$UNSET rm -rf /",
        "cd $UNSET && rm -rf *",
        "bash -c 'rm -rf \"$UNSET/\"'",
        "rm -rf \"$UNSET/\" (",
        "if [ -d \"$UNSET\" ]; then rm -rf \"$UNSET\"/*; fi",
    ];
    let missed: Vec<&&str> = refused_all
        .iter()
        .filter(|text| refused(text, &known()).is_none())
        .collect();
    assert!(missed.is_empty(), "not refused: {missed:#?}");
    let not_refused = [
        "rm -rf \"$UNSET\"",
        "rm -rf $UNSET",
        "rm -rf $TMPDIR/*",
        "rm -rf \"${UNSET:?}\"/*",
        "rm -rf \"${UNSET:+/}\"",
        "rm -rf \"${UNSET:-/tmp/x}\"/*",
        "rm -rf \"${TMPDIR:-/}\"",
        ": \"${UNSET:=/tmp/x}\"; rm -rf \"$UNSET\"/*",
        ". ./env.sh; rm -rf \"$UNSET\"/*",
        "source env.sh && rm -rf \"$UNSET\"/*",
        "eval \"$(./env)\"; rm -rf \"$UNSET\"/*",
        "read -r UNSET < x; rm -rf \"$UNSET\"/*",
        "while read -r d; do rm -rf \"/$d\"; done < x",
        "for ((i = 0; i < 3; i++)); do rm -rf \"/$i\"; done",
        "((i = 3)); rm -rf /$i",
        "let i=3; rm -rf /$i",
        "mapfile -t dirs < x; rm -rf \"${dirs[@]}\"/*",
        "getopts a: o; rm -rf \"$OPTARG\"/*",
        "f() { rm -rf \"$1\"/*; }; f build",
        "rm -rf \"$1\"/*",
        "rm -rf \"$OLDPWD\"/*",
        "rm -rf /$RANDOM",
        "rm -rf /$$",
        "bash -lc 'rm -rf \"$UNSET\"/*'",
        "sudo -i bash -c 'rm -rf \"$UNSET\"/*'",
        "UNSET=/tmp/x; rm -rf \"$UNSET\"/*",
        "cd \"$UNSET\" && rm -rf *",
    ];
    let wrong: Vec<(&&str, Refusal)> = not_refused
        .iter()
        .filter_map(|text| Some((text, refused(text, &known())?)))
        .collect();
    assert!(wrong.is_empty(), "refused: {wrong:#?}");
    // And everything else is as it was.
    let spared: Vec<&&str> = REFUSED
        .iter()
        .filter(|text| refused(text, &known()).is_none())
        .collect();
    assert_eq!(spared, [&"rm -rf ${x:+/etc}"]);
    let caught: Vec<&&str> = NOT_REFUSED
        .iter()
        .filter(|text| refused(text, &known()).is_some())
        .collect();
    let unset = [&"rm -rf \"$DIR\"/*", &"declare -A seen; rm -rf \"$D\"/*"];
    assert_eq!(caught, unset);
}

#[test]
fn a_refusal_names_the_part_and_what_it_would_do() {
    let refusal = refused("ls; sudo rm -rf /usr && ls", &homes()).unwrap();
    assert_eq!(refusal.part, "sudo rm -rf /usr");
    assert_eq!(
        refusal.to_string(),
        "`sudo rm -rf /usr` would remove a folder the machine or its people live on"
    );
}

#[test]
fn text_made_to_be_costly_is_searched_in_bounded_time() {
    for text in [
        "rm ".repeat(20_000),
        "(".repeat(200_000) + "reboot",
        "a".repeat(1_000_000),
        "{a,".repeat(1_000) + &"}".repeat(1_000),
        format!("rm -rf {}", "{a,b}".repeat(60)),
        "x() { (".repeat(5_000),
        format!("rm /{}", "*".repeat(10_000)),
        "D=/tmp/x; ".repeat(500),
        "for i in a b; do ".repeat(50) + "rm $i$i$i$i$i$i$i$i",
        "cd a; ".repeat(500),
        "sudo ".repeat(3_000) + "ls",
        format!("rm {}", "${a:-".repeat(300) + &"}".repeat(300)),
        format!(
            "D={}; rm {}",
            "a".repeat(200),
            "${D%*a*a*a*b} ".repeat(2_000)
        ),
        format!("rm {}", "${A%%${B:-*x}} ".repeat(4_000)),
        format!("rm {} /{}", "$(echo ".repeat(30), ")".repeat(30)),
        format!("x=({}); rm {}", "/a ".repeat(5_000), "${x[@]} ".repeat(200)),
        format!("xargs rm <<< '{}'", "a ".repeat(20_000)),
        "set -- $@ $@ $@ $@; ".repeat(100) + "rm $@",
        format!("rm {}", "$V ".repeat(20_000)),
        "X=\"$X$X\"; ".repeat(100),
        "for i in a b c d e f g h; do ".to_owned() + &"rm $i$i$i$i$i$i; ".repeat(2_000) + "done",
    ] {
        std::hint::black_box(destructive(&text, &homes()).is_ok());
    }
}

#[test]
fn where_homes_are_not_known_the_system_still_is() {
    let nothing = Homes::default();
    assert!(refused("rm -rf /usr", &nothing).is_some());
    assert!(refused("rm -rf /home/me", &nothing).is_some());
    assert!(refused("rm -rf x", &nothing).is_none());
}
