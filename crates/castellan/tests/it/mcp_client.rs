//! A client of the MCP server, as plain as the protocol lets it be: over the standard streams of
//! `castellan mcp`, and over HTTP of `castellan serve`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use castellan_testkit::Home;
use serde_json::{Value, json};

use crate::program::PROGRAM;

/// The revision with handshake and sessions.
pub(crate) const LEGACY: &str = "2025-11-25";

/// What a client says when it is asked something.
pub(crate) type Answering = Box<dyn Fn(&Value) -> Value>;

/// A client that started its server.
pub(crate) struct Pipe {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    /// What the server sent that was no answer.
    pub(crate) notes: Vec<Value>,
    asked: Vec<Value>,
    answering: Option<Answering>,
    last: u64,
}

impl Pipe {
    /// Starts the server and introduces a client that can't be asked anything.
    pub(crate) fn open(home: &Home, args: &[&str]) -> Self {
        let mut pipe = Self::start(home.command(PROGRAM).arg("mcp").args(args));
        pipe.introduce(&json!({}));
        pipe
    }

    /// The same with a person who answers questions so.
    pub(crate) fn with_person(
        home: &Home,
        args: &[&str],
        answer: impl Fn(&Value) -> Value + 'static,
    ) -> Self {
        let mut pipe = Self::start(home.command(PROGRAM).arg("mcp").args(args));
        pipe.answering = Some(Box::new(answer));
        pipe.introduce(&json!({"elicitation": {}}));
        pipe
    }

    /// Starts the server and says nothing yet.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            notes: Vec::new(),
            asked: Vec::new(),
            answering: None,
            last: 0,
        }
    }

    fn introduce(&mut self, capabilities: &Value) {
        let answer = self.request(
            "initialize",
            &json!({
                "protocolVersion": LEGACY, "capabilities": capabilities,
                "clientInfo": {"name": "probe", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
    }

    /// The next thing the server says; `None` where it has gone.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Sends a request and answers what the server asks until it is answered.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let said = self.next().expect("the server is there");
            match (said.get("method"), said.get("id")) {
                (None, Some(of)) if *of == id => return said,
                (Some(_), Some(of)) => {
                    let answer = self.answering.as_ref().expect("somebody to ask")(&said);
                    let answer = json!({"jsonrpc": "2.0", "id": of, "result": answer});
                    self.asked.push(said);
                    self.send(&answer);
                }
                _ => self.notes.push(said),
            }
        }
    }

    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": name, "arguments": arguments}))
    }

    /// What the server asked since this was looked at last.
    pub(crate) fn asked(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.asked)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        drop(self.input.take());
        // Whatever it says at its end is not of interest; it is not left behind.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A running `castellan serve`.
pub(crate) struct Served {
    pub(crate) child: Child,
    /// Where it listens, such as `127.0.0.1:4000`.
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        Self::start_with(home.command(PROGRAM).args(["serve", "--listen", "0"]), args)
    }

    pub(crate) fn start_with(command: &mut Command, args: &[&str]) -> Self {
        let mut child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("listening at http://")
            .and_then(|rest| rest.strip_suffix("/mcp"))
            .unwrap_or_else(|| panic!("it said {line}"));
        Self {
            address: address.to_owned(),
            child,
        }
    }

    /// Sends a request and returns status, headers and body.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = headers.iter().any(|(name, _)| *name == "host");
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        if !host {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = if head.contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        (status, head.to_owned(), body)
    }

    /// A client with a session.
    pub(crate) fn client(&self) -> Web<'_> {
        let mut web = Web {
            served: self,
            session: None,
            last: 0,
        };
        let (_, head, _) = web.post(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": LEGACY, "capabilities": {},
                "clientInfo": {"name": "probe", "version": "1"},
            }
        }));
        let session = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        web.session = Some(session.unwrap_or_else(|| panic!("{head}")).to_owned());
        let (status, _, _) =
            web.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(status, 202);
        web
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A body without the lengths of its chunks.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(rest.get(..length).unwrap());
        body = rest.get(length + 2..).unwrap_or_default();
    }
    whole
}

/// A client over HTTP.
pub(crate) struct Web<'a> {
    served: &'a Served,
    session: Option<String>,
    last: u64,
}

impl Web<'_> {
    fn post(&self, message: &Value) -> (u16, String, String) {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        if let Some(session) = &self.session {
            headers.push(("mcp-session-id", session));
            headers.push(("mcp-protocol-version", LEGACY));
        }
        self.served
            .send("POST", "/mcp", &headers, &message.to_string())
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        let (status, head, body) =
            self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if head.contains("application/json") {
            return serde_json::from_str(&body).unwrap();
        }
        // A stream that may be taken up again.
        assert!(head.contains("text/event-stream"), "{status}: {head}");
        let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        messages.find(|message| message["id"] == id).unwrap()
    }
}
