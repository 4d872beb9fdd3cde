//! A scripted model server: OpenAI-compatible Chat Completions over real HTTP on loopback.
//!
//! A test writes down what the server answers, one [`Reply`] per request, down to the single byte
//! and the moment at which it is sent, and afterwards looks at what was asked.
//!
//! The server runs on threads of its own and works with any runtime or none.

mod connection;
mod reply;
mod request;

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::json;

use crate::gate::Gate;
use crate::tally::Tally;

pub use reply::Reply;
pub use request::RecordedRequest;

/// The model that `GET /models` lists unless a test says otherwise.
pub const MODEL: &str = "scripted-model";

/// A running server. Dropping it closes its connections and opens the gates it waits at.
#[derive(Debug)]
pub struct ModelServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    arrived: Tally,
    abandoned: Tally,
    stopping: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Script {
    replies: VecDeque<Reply>,
    /// Answers what the script has no reply for.
    otherwise: Option<fn(&RecordedRequest) -> Reply>,
    models: Reply,
    requests: Vec<RecordedRequest>,
    unexpected: Vec<RecordedRequest>,
}

/// What has to be let go when the server ends.
#[derive(Debug, Default)]
struct Open {
    streams: Vec<TcpStream>,
    gates: Vec<Gate>,
}

impl ModelServer {
    /// A server that answers one request with each of `replies`, in order.
    #[must_use]
    pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::new(Script {
                replies: replies.into_iter().collect(),
                otherwise: None,
                models: Reply::json(200, &json!({"object": "list", "data": [{"id": MODEL}]})),
                requests: Vec::new(),
                unexpected: Vec::new(),
            }),
            arrived: Tally::default(),
            abandoned: Tally::default(),
            stopping: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self {
            shared,
            address,
            acceptor: Some(acceptor),
        }
    }

    /// A server whose answer is a function of the request, however often it is asked.
    #[must_use]
    pub fn answering(answer: fn(&RecordedRequest) -> Reply) -> Self {
        let server = Self::scripted([]);
        server.shared.script().otherwise = Some(answer);
        server
    }

    /// What goes into a configuration: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Adds a reply at the end of the script.
    pub fn push(&self, reply: Reply) {
        self.shared.script().replies.push_back(reply);
    }

    /// Sets what `GET` requests (the list of models) are answered with. They are not part of the
    /// script and not among the [`requests`](Self::requests).
    pub fn set_models(&self, reply: Reply) {
        self.shared.script().models = reply;
    }

    /// Every scripted request so far, in the order they arrived.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.script().requests.clone()
    }

    /// The requests for which the script had no reply.
    #[must_use]
    pub fn unexpected(&self) -> Vec<RecordedRequest> {
        self.shared.script().unexpected.clone()
    }

    /// Resolves once `count` requests have arrived.
    pub async fn arrived(&self, count: usize) {
        self.shared.arrived.reached(count).await;
    }

    /// Blocks until `count` requests have arrived.
    pub fn wait_arrived(&self, count: usize) {
        self.shared.arrived.expect(count, "requests");
    }

    /// Resolves once the client has closed `count` connections on a reply that [hangs](Reply::hang).
    pub async fn abandoned(&self, count: usize) {
        self.shared.abandoned.reached(count).await;
    }

    /// Blocks until the client has closed `count` connections on a reply that hangs.
    pub fn wait_abandoned(&self, count: usize) {
        self.shared.abandoned.expect(count, "abandoned replies");
    }

    /// Panics unless every reply was used and every request had one.
    pub fn assert_spent(&self) {
        let script = self.shared.script();
        let (left, unexpected) = (script.replies.len(), script.unexpected.clone());
        drop(script);
        assert!(
            left == 0 && unexpected.is_empty(),
            "{left} replies were not used; requests without a reply: {unexpected:#?}"
        );
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which then sees the flag.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
        let open = std::mem::take(&mut *self.shared.open());
        for stream in open.streams {
            // A connection that is closed already has nothing left to shut.
            drop(stream.shutdown(Shutdown::Both));
        }
        for gate in open.gates {
            gate.open();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        // Each write is a packet of its own, as scripted.
        stream.set_nodelay(true).unwrap();
        shared.open().streams.push(stream.try_clone().unwrap());
        let shared = Arc::clone(shared);
        drop(std::thread::spawn(move || {
            connection::serve(stream, &shared);
        }));
    }
}

impl Shared {
    /// Records `request` and takes the reply for it, with its number in the script.
    fn take(&self, request: RecordedRequest) -> (Reply, usize) {
        let mut script = self.script();
        if request.method == "GET" {
            return (script.models.clone(), 0);
        }
        script.requests.push(request.clone());
        let number = script.requests.len();
        let place = script.replies.iter().position(|reply| reply.fits(&request));
        let reply = if let Some(reply) = place.and_then(|place| script.replies.remove(place)) {
            reply
        } else if let Some(answer) = script.otherwise {
            answer(&request)
        } else {
            let left = script.replies.len();
            script.unexpected.push(request);
            // Not one of the statuses a client tries again after.
            Reply::error(
                501,
                &format!("request {number} has no reply in the test's script ({left} left)"),
            )
        };
        drop(script);
        self.arrived.add();
        (reply, number)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn ask(server: &ModelServer, body: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        // No further request, so that the server closes once it has answered.
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn each_request_gets_the_next_reply_and_is_recorded() {
        let server = ModelServer::scripted([
            Reply::calls([("list", json!({}))]),
            Reply::error(429, "slow down").header("retry-after", "2"),
        ]);
        let first = ask(
            &server,
            r#"{"messages": [{"role": "user", "content": "hi"}]}"#,
        );
        assert!(
            first.starts_with("HTTP/1.1 200 ") && first.contains("call_1_1"),
            "{first}"
        );
        assert!(first.contains("\r\n\r\n") && first.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
        let second = ask(&server, "{}");
        assert!(
            second.contains("retry-after: 2\r\n") && second.contains("slow down"),
            "{second}"
        );
        assert_eq!(server.requests()[0].last_text(), "hi");
        server.assert_spent();
    }

    #[test]
    fn a_request_beyond_the_script_is_told_so() {
        let server = ModelServer::scripted([]);
        assert!(ask(&server, "{}").starts_with("HTTP/1.1 501 "));
        assert_eq!(server.unexpected().len(), 1);
    }

    #[test]
    fn a_reply_waits_at_its_gate() {
        let gate = Gate::new();
        let server = ModelServer::scripted([Reply::text("late").held_at(&gate)]);
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| ask(&server, "{}"));
            gate.wait_reached();
            assert!(!answer.is_finished());
            gate.open();
            assert!(answer.join().unwrap().contains("late"));
        });
    }

    #[test]
    fn replies_find_the_request_they_are_for() {
        let server = ModelServer::scripted([
            Reply::text("for-two").for_request_with("two"),
            Reply::text("for-one").for_request_with("one"),
        ]);
        assert!(ask(&server, r#"["one"]"#).contains("for-one"));
        assert!(ask(&server, r#"["two"]"#).contains("for-two"));
    }

    #[test]
    fn one_byte_per_piece_is_the_same_body() {
        let server = ModelServer::scripted([Reply::text("é").byte_by_byte()]);
        let answer = ask(&server, "{}");
        assert!(
            answer.contains("1\r\nd\r\n1\r\na\r\n1\r\nt\r\n1\r\na\r\n"),
            "{answer}"
        );
    }
}
