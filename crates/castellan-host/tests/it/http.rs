//! The HTTP client against small servers, some of which misbehave.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use castellan_host::http::{HttpClient, HttpError, HttpRequest, Method, Stage, StatusCode, header};
use castellan_host::{Environment, HttpResponse};

/// A server that hands every connection's request to a function.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server that gives the same answer to everything and closes.
    pub(crate) fn answering(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::serving(move |_, stream| stream.write_all(answer.as_bytes()).unwrap_or_default())
    }

    pub(crate) fn serving(serve: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read_request(&mut stream);
                seen.lock().unwrap().push(request.clone());
                serve(&request, &mut stream);
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return request;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        request.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.push_str(&String::from_utf8(body).unwrap());
    request
}

fn client_with(vars: &[(&str, &str)]) -> HttpClient {
    let vars = vars
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    HttpClient::new(&Environment::new(vars, "/".into())).unwrap()
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn text(response: HttpResponse) -> String {
    response.body.read_limited(1000).await.unwrap().text()
}

#[tokio::test]
async fn a_request_reaches_its_server_and_the_answer_comes_back() {
    let server = Server::answering(ok("hello"));
    let mut request = HttpRequest::post_json(server.url("/v1?a=b"), "{\"x\":1}");
    request.headers.insert("x-api-key", "k".parse().unwrap());
    let response = client_with(&[]).send(request).await.unwrap();
    assert_eq!(response.status, StatusCode::OK);
    assert_eq!(text(response).await, "hello");
    let request = server.requests().remove(0).to_ascii_lowercase();
    assert!(
        request.starts_with("post /v1?a=b http/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("x-api-key: k\r\n") && request.ends_with("{\"x\":1}"),
        "{request}"
    );
    assert!(request.contains("user-agent: castellan/"), "{request}");
}

#[tokio::test]
async fn an_error_status_is_an_answer_and_its_body_is_read_within_a_limit() {
    let answer = format!(
        "HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\n{}",
        "x".repeat(5000)
    );
    let server = Server::answering(answer);
    let response = client_with(&[])
        .send(HttpRequest::get(server.url("/")))
        .await
        .unwrap();
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
    let limited = response.body.read_limited(1000).await.unwrap();
    assert!(limited.is_cut);
    assert_eq!(limited.bytes.len(), 1000);
}

#[tokio::test]
async fn addresses_that_are_none_are_refused_before_anything_is_sent() {
    for url in [
        "",
        "nonsense",
        "ftp://example.invalid/",
        "file:///etc/passwd",
        "http://",
    ] {
        let error = client_with(&[])
            .send(HttpRequest::get(url))
            .await
            .unwrap_err();
        assert!(
            matches!(error, HttpError::InvalidUrl { .. }),
            "{url}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_refused_connection_says_so_and_names_the_host_only() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://user:hunter2@127.0.0.1:{port}/path?key=hunter2");
    let error = client_with(&[])
        .send(HttpRequest::get(url))
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, HttpError::Unreachable { .. }), "{error:?}");
    assert!(
        said.contains(&format!("127.0.0.1:{port}")) && said.contains("refused"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_says_so() {
    let url = "http://no-such-host.invalid/";
    let error = client_with(&[])
        .send(HttpRequest::get(url))
        .await
        .unwrap_err();
    assert!(matches!(error, HttpError::Unreachable { .. }), "{error:?}");
    assert!(
        error.to_string().contains("no-such-host.invalid"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let server = Server::serving(|_, stream| {
        // Until the client goes away.
        stream
            .read_to_end(&mut Vec::new())
            .map(drop)
            .unwrap_or_default();
    });
    let mut request = HttpRequest::get(server.url("/"));
    request.timeouts.first_byte = Duration::from_millis(50);
    let error = client_with(&[]).send(request).await.unwrap_err();
    assert!(
        matches!(
            error,
            HttpError::TimedOut {
                stage: Stage::FirstByte,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_response_that_stops_or_breaks_keeps_what_came_before() {
    let stopping = Server::serving(|_, stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart";
        stream.write_all(head).unwrap_or_default();
        stream
            .read_to_end(&mut Vec::new())
            .map(drop)
            .unwrap_or_default();
    });
    let mut request = HttpRequest::get(stopping.url("/"));
    request.timeouts.idle = Duration::from_millis(50);
    let mut body = client_with(&[]).send(request).await.unwrap().body;
    assert_eq!(body.chunk().await.unwrap().unwrap(), "part");
    let error = body.chunk().await.unwrap_err();
    assert!(
        matches!(
            error,
            HttpError::TimedOut {
                stage: Stage::Idle,
                ..
            }
        ),
        "{error:?}"
    );

    let breaking = Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\npart",
    );
    let response = client_with(&[])
        .send(HttpRequest::get(breaking.url("/")))
        .await
        .unwrap();
    let mut body = response.body;
    assert_eq!(body.chunk().await.unwrap().unwrap(), "part");
    let error = body.chunk().await.unwrap_err();
    assert!(matches!(error, HttpError::Broken { .. }), "{error:?}");
}

#[tokio::test]
async fn a_redirect_to_another_origin_carries_no_credential() {
    let target = Server::answering(ok("there"));
    let location = target.url("/new");
    let server = Server::answering(format!(
        "HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    let mut request = HttpRequest::post_json(server.url("/old"), "{}");
    request
        .headers
        .insert("x-api-key", "secret".parse().unwrap());
    request
        .headers
        .insert(header::AUTHORIZATION, "Bearer secret".parse().unwrap());
    let response = client_with(&[]).send(request).await.unwrap();
    assert_eq!(response.url, location);
    assert_eq!(text(response).await, "there");
    let seen = target.requests().remove(0).to_ascii_lowercase();
    assert!(
        seen.starts_with("post /new") && seen.ends_with("{}"),
        "{seen}"
    );
    assert!(
        !seen.contains("secret") && seen.contains("application/json"),
        "{seen}"
    );
    assert!(server.requests()[0].contains("Bearer secret"));
}

#[tokio::test]
async fn redirects_end_after_five_and_stay_on_the_web() {
    let server = Server::answering(
        "HTTP/1.1 302 Go\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let error = client_with(&[])
        .send(HttpRequest::get(server.url("/")))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
    assert_eq!(server.requests().len(), 6);

    let server = Server::answering(
        "HTTP/1.1 302 Go\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    );
    let error = client_with(&[])
        .send(HttpRequest::get(server.url("/")))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not of the web"), "{error}");
}

#[tokio::test]
async fn see_other_turns_a_post_into_a_get_without_its_body() {
    let server = Server::serving(|request, stream| {
        let answer = if request.starts_with("POST") {
            "HTTP/1.1 303 See\r\nLocation: /done\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                .to_owned()
        } else {
            ok("done")
        };
        stream.write_all(answer.as_bytes()).unwrap_or_default();
    });
    let request = HttpRequest::post_json(server.url("/"), "{}");
    let response = client_with(&[]).send(request).await.unwrap();
    assert_eq!(text(response).await, "done");
    let second = server.requests()[1].to_ascii_lowercase();
    assert!(
        second.starts_with("get /done") && !second.contains("content-type"),
        "{second}"
    );
}

#[tokio::test]
async fn a_proxy_is_used_for_other_hosts_and_never_for_this_machine() {
    let proxy = Server::answering(ok("by proxy"));
    let direct = Server::answering(ok("direct"));
    let address = format!("http://{}", proxy.address);
    let client = client_with(&[("http_proxy", &address)]);
    let response = client
        .send(HttpRequest::get(direct.url("/")))
        .await
        .unwrap();
    assert_eq!(text(response).await, "direct");
    let local = format!("http://localhost:{}/", direct.address.port());
    let response = client.send(HttpRequest::get(local)).await.unwrap();
    assert_eq!(text(response).await, "direct");
    let response = client
        .send(HttpRequest::get("http://elsewhere.invalid/"))
        .await
        .unwrap();
    assert_eq!(text(response).await, "by proxy");

    let client = client_with(&[("HTTP_PROXY", &address), ("NO_PROXY", "elsewhere.invalid")]);
    client
        .send(HttpRequest::get("http://elsewhere.invalid/"))
        .await
        .unwrap_err();
}

#[tokio::test]
async fn a_proxy_address_that_is_none_is_refused_without_naming_it() {
    let vars = [(
        "https_proxy".to_owned(),
        "http://user:hunter2@[bad".to_owned(),
    )];
    let error = HttpClient::new(&Environment::new(vars, "/".into())).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Not a test of its own: what the next one starts in a process without certificate roots.
#[tokio::test]
async fn as_client_without_roots() {
    if crate::world::variable(WITHOUT_ROOTS).is_none() {
        return;
    }
    let client = client_with(&[]);
    let server = Server::answering(ok("plain"));
    let response = client
        .send(HttpRequest::get(server.url("/")))
        .await
        .unwrap();
    println!("http {}", text(response).await);
    let error = client
        .send(HttpRequest::get("https://127.0.0.1:1/"))
        .await
        .unwrap_err();
    println!("https {error}");
}

const WITHOUT_ROOTS: &str = "TEST_CLIENT_WITHOUT_ROOTS";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the client under test is born here"
)]
fn a_system_without_certificate_roots_has_plain_http_and_says_why_not_tls() {
    let empty = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "http::as_client_without_roots", "--nocapture"])
        .env(WITHOUT_ROOTS, "1")
        .env("SSL_CERT_FILE", empty.path().join("none.pem"))
        .env("SSL_CERT_DIR", empty.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("http plain"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("https reach 127.0.0.1:1"), "{text}");
    assert!(
        text.contains("certificate roots") && text.contains("SSL_CERT_FILE"),
        "{text}"
    );
}

#[test]
fn a_debug_text_shows_no_header_value() {
    let mut request = HttpRequest::new(Method::GET, "https://host.invalid/?key=hunter2");
    request
        .headers
        .insert("x-api-key", "hunter2".parse().unwrap());
    assert!(!format!("{request:?}").contains("hunter2"));
}
