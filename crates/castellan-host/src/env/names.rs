//! Which variables children may see, which stay readable, which are taken for secrets.

/// Variables handed to children: who and where the user is, language, build tools, certificates,
/// proxies. An allow-list, because no list of secret names is ever complete.
const CHILDREN: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    // Build tools: where they and their caches are.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOFLAGS",
    "JAVA_HOME",
    "GRADLE_USER_HOME",
    "MAVEN_HOME",
    "M2_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "DOTNET_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYENV_ROOT",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "NVM_DIR",
    "NVM_BIN",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "VOLTA_HOME",
    "GEM_HOME",
    "RBENV_ROOT",
    "NIX_PATH",
    "NIX_PROFILES",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    // Certificates: paths, not contents.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    // Proxies, in both spellings that are in use.
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Further variables that stay readable in this process, because code here or in a library reads
/// them from the process after the snapshot, and because none of them is a secret.
const OWN: &[&str] = &[
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "CI",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "CASTELLAN_HOME",
    "CASTELLAN_CONFIG",
    "CASTELLAN_LOG",
    "TOKIO_WORKER_THREADS",
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "INVOCATION_ID",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
];

/// Beginnings of names that stay readable in this process.
const OWN_PREFIXES: &[&str] = &["RUST_", "XDG_", "OTEL_", "LLVM_PROFILE"];

/// Parts of names that are taken for secrets, in any case and whatever list the name is on.
const SECRET: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "HEADERS",
];

/// Settings that make programs fail at once, and say so, where they would ask, page or edit.
pub(super) const NON_INTERACTIVE: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    // Git hands this to a shell and puts the file name behind it.
    (
        "GIT_EDITOR",
        "echo 'no editor: this shell is not interactive, give the text with -m or -F' >&2; false",
    ),
    (
        "GIT_SEQUENCE_EDITOR",
        "echo 'no editor: this shell is not interactive, set GIT_SEQUENCE_EDITOR' >&2; false",
    ),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("SUDO_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Whether a variable of this name is taken for a secret.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// Whether children may see a variable of this name.
pub(super) fn is_for_children(name: &str) -> bool {
    !looks_secret(name) && (CHILDREN.contains(&name) || name.starts_with("LC_"))
}

/// Whether a variable of this name stays readable in this process.
pub(super) fn stays_readable(name: &str) -> bool {
    let own = || OWN.contains(&name) || OWN_PREFIXES.iter().any(|start| name.starts_with(start));
    is_for_children(name) || (!looks_secret(name) && own())
}
