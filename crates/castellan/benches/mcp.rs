//! What the MCP server costs: from its start to the answer of `tools/list`, its memory, a call that
//! only reads, calls per second over HTTP, and how long its list is. Beside each, the same client with
//! the protocol's own example server, where it is installed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, prints it, and stops where something is wrong"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use castellan_testkit::Home;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_castellan");
/// How often a server is started.
const STARTS: usize = 25;
/// How many calls are timed over the standard streams.
const CALLS: usize = 3_000;
/// How many connections call at once over HTTP, and how often each.
const CONNECTIONS: usize = 8;
const CALLS_EACH: usize = 1_500;

fn main() {
    let home = Home::new();
    let ours = Candidate {
        name: "castellan",
        command: Box::new({
            let home = &home;
            move |args: &[&str]| {
                let mut command = home.command(PROGRAM);
                command.arg("mcp").args(args);
                command
            }
        }),
        call: json!({"name": "castellan_read_signal", "arguments": {"zone": "grid"}}),
    };
    report_pipes(&ours, &["--full"]);
    let port = free_port();
    let mut serve = home.command(PROGRAM);
    serve.args(["serve", "--listen", &port.to_string()]);
    report_http(&ours, serve, port);
    let Some((node, script)) = example_server() else {
        println!(
            "the example server is not installed; with Node: npm install --ignore-scripts --prefix \
             target/external/everything @modelcontextprotocol/server-everything@2026.8.31"
        );
        return;
    };
    let theirs = Candidate {
        name: "server-everything",
        command: Box::new({
            let (node, script) = (node.clone(), script.clone());
            move |_: &[&str]| {
                let mut command = Command::new(&node);
                command.arg(&script).arg("stdio");
                command
            }
        }),
        call: json!({"name": "echo", "arguments": {"message": "x"}}),
    };
    report_pipes(&theirs, &[]);
    let port = free_port();
    let mut serve = Command::new(node);
    serve
        .arg(script)
        .arg("streamableHttp")
        .env("PORT", port.to_string());
    report_http(&theirs, serve, port);
}

/// What starts a server on its standard streams, with these arguments.
type Start<'a> = dyn Fn(&[&str]) -> Command + 'a;

/// A server to measure.
struct Candidate<'a> {
    name: &'static str,
    command: Box<Start<'a>>,
    /// A call that changes nothing.
    call: Value,
}

fn report_pipes(candidate: &Candidate<'_>, full: &[&str]) {
    let name = candidate.name;
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut pipe = Pipe::start((candidate.command)(&[]));
        pipe.introduce();
        pipe.send("tools/list", &json!({}));
        let _answer = pipe.answer();
        times.push(milliseconds(begun.elapsed()));
        sizes.push(pipe.megabytes());
    }
    println!(
        "{name}: tools/list answered {:.1} ms after the start, {:.1} MB used then (medians of {STARTS})",
        median(&mut times),
        median(&mut sizes)
    );
    let listed = |args: &[&str]| {
        let mut pipe = Pipe::start((candidate.command)(args));
        pipe.introduce();
        pipe.send("tools/list", &json!({}));
        pipe.answer()["result"].to_string().len()
    };
    let short = listed(&[]);
    if full.is_empty() {
        println!("{name}: tools/list has {short} bytes");
    } else {
        println!(
            "{name}: tools/list has {short} bytes, in full {}",
            listed(full)
        );
    }
    let mut pipe = Pipe::start((candidate.command)(&[]));
    pipe.introduce();
    let mut times: Vec<f64> = (0..CALLS)
        .map(|_| {
            let begun = Instant::now();
            pipe.send("tools/call", &candidate.call);
            let answer = pipe.answer();
            assert!(answer.get("result").is_some(), "{answer}");
            milliseconds(begun.elapsed()) * 1_000.0
        })
        .collect();
    println!(
        "{name}: a call that only reads takes {:.0} µs over pipes (median of {CALLS})",
        median(&mut times)
    );
}

fn report_http(candidate: &Candidate<'_>, mut command: Command, port: u16) {
    let mut server = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    let begun = Instant::now();
    while TcpStream::connect(&address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no server");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (call, address) = (&candidate.call, &address);
    let begun = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(move || {
                    let mut web = Web::connect(address);
                    let mut times = Vec::with_capacity(CALLS_EACH);
                    for _ in 0..CALLS_EACH {
                        let begun = Instant::now();
                        let answer = web.request("tools/call", call);
                        assert!(answer.contains("\"result\""), "{answer}");
                        times.push(milliseconds(begun.elapsed()));
                    }
                    times
                })
            })
            .collect();
        let all = callers
            .into_iter()
            .flat_map(|caller| caller.join().unwrap());
        all.collect()
    });
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{}: {rate:.0} calls per second over HTTP on {CONNECTIONS} connections, {:.2} ms each (median)",
        candidate.name,
        median(&mut times)
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Node and the script of the example server.
fn example_server() -> Option<(PathBuf, PathBuf)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(
        "../../target/external/everything/node_modules/@modelcontextprotocol/server-everything/\
         dist/index.js",
    );
    script.is_file().then(|| (PathBuf::from("node"), script))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn introduction() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    })
}

/// A client on the standard streams of its server.
struct Pipe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    last: u64,
}

impl Pipe {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            line: String::new(),
            last: 0,
        }
    }

    fn introduce(&mut self) {
        self.send("initialize", &introduction());
        let _answer = self.answer();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.input
            .write_all(format!("{note}\n").as_bytes())
            .unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.input
            .write_all(format!("{request}\n").as_bytes())
            .unwrap();
    }

    /// The answer to what was sent last; what else is said is passed over, or refused.
    fn answer(&mut self) -> Value {
        loop {
            self.line.clear();
            assert!(
                self.output.read_line(&mut self.line).unwrap() > 0,
                "it ended"
            );
            let said: Value = serde_json::from_str(&self.line).unwrap();
            match (said.get("method"), said.get("id")) {
                (None, Some(id)) if *id == self.last => return said,
                (Some(_), Some(id)) => {
                    let error = json!({"code": -32601, "message": "not here"});
                    let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    self.input
                        .write_all(format!("{refusal}\n").as_bytes())
                        .unwrap();
                }
                _ => {}
            }
        }
    }

    fn megabytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: f64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kilobytes / 1024.0
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A client with a session on one connection that stays open.
struct Web {
    stream: BufReader<TcpStream>,
    session: String,
    last: u64,
}

impl Web {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut web = Self {
            stream: BufReader::new(stream),
            session: String::new(),
            last: 0,
        };
        let (head, _) = web.post(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": introduction()}),
        );
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then_some(value)
        });
        web.session = session.unwrap_or_else(|| panic!("{head}")).to_owned();
        web.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        web
    }

    fn request(&mut self, method: &str, params: &Value) -> String {
        self.last += 1;
        let id = self.last;
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .1
    }

    fn post(&mut self, message: &Value) -> (String, String) {
        let body = message.to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
            body.len()
        );
        if !self.session.is_empty() {
            request.push_str(&format!(
                "mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n",
                self.session
            ));
        }
        let stream = self.stream.get_mut();
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .unwrap();
        self.response()
    }

    fn response(&mut self) -> (String, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.stream.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let lower = head.to_lowercase();
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if let Some(length) = length {
            let body = self.bytes(length.parse().unwrap());
            return (head, body);
        }
        let mut body = String::new();
        while lower.contains("transfer-encoding: chunked") {
            let mut size = String::new();
            self.stream.read_line(&mut size).unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let chunk = self.bytes(size + 2);
            if size == 0 {
                break;
            }
            body.push_str(chunk.trim_end_matches("\r\n"));
        }
        (head, body)
    }

    fn bytes(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}
