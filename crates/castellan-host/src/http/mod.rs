//! The one outbound HTTP client.
//!
//! Over `reqwest` and `rustls` with the `ring` provider; certificates are judged against the roots
//! of this system. Streams may last for hours, so there is no overall time limit: one for the
//! connection, one until the response begins, one between two chunks of it.

mod body;
mod error;
mod redirect;

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url};

pub use body::{Body, Limited};
pub use error::{HttpError, Stage};
pub use reqwest::{Method, StatusCode, header, header::HeaderMap};

use crate::env::Environment;
use redirect::Next;

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(15);
/// Redirects followed for one request.
const REDIRECTS: usize = 5;
/// Hosts no proxy is asked for, on top of `no_proxy`: it would reach its own loopback, not ours.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// Time limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From sending the request to the head of the response.
    pub first_byte: Duration,
    /// Between two chunks of the response's body.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(120),
        }
    }
}

/// A request.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The address, `http` or `https`.
    pub url: String,
    /// Further headers. A redirect to another origin gets only those that describe the content.
    pub headers: HeaderMap,
    /// The body, if any.
    pub body: Option<Bytes>,
    /// Its time limits.
    pub timeouts: Timeouts,
}

impl HttpRequest {
    /// A request without headers, body or other than the usual time limits.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: HeaderMap::new(),
            body: None,
            timeouts: Timeouts::default(),
        }
    }

    /// `GET`.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    /// `POST` of a JSON text.
    pub fn post_json(url: impl Into<String>, json: impl Into<Bytes>) -> Self {
        let mut request = Self::new(Method::POST, url);
        let json_type = header::HeaderValue::from_static("application/json");
        request.headers.insert(header::CONTENT_TYPE, json_type);
        request.body = Some(json.into());
        request
    }
}

/// Leaves out header values and the address beyond its host: they may hold credentials.
impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = Url::parse(&self.url)
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned));
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("host", &host)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body", &self.body.as_ref().map(Bytes::len))
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// A response whose body is still to be read.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status, of whatever kind: an error status is not an [`HttpError`].
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The address that answered, after redirects.
    pub url: String,
    /// The body.
    pub body: Body,
}

/// The client. Clones share its pool of connections.
#[derive(Debug, Clone)]
pub struct HttpClient(Arc<Clients>);

/// Two clients, since reading the system's certificate roots costs several times what the rest of a
/// start costs, and a model on this machine needs none.
#[derive(Debug)]
struct Clients {
    proxies: Vec<Proxy>,
    /// Knows no certificate roots.
    plain: Client,
    /// Made by the first request that needs it; the reason where the system has no usable roots.
    secure: OnceLock<Result<Client, String>>,
}

impl HttpClient {
    /// A client that goes through the proxies the environment names, save to this machine itself.
    ///
    /// # Errors
    /// When a proxy's address cannot be understood: going around it would be worse.
    pub fn new(environment: &Environment) -> Result<Self, HttpError> {
        // Another part of the program may have installed it before, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let proxies = proxies(environment)?;
        let plain = builder(&proxies)
            .tls_certs_only([])
            .build()
            .map_err(|error| HttpError::Client {
                reason: error::chain(&error),
            })?;
        Ok(Self(Arc::new(Clients {
            proxies,
            plain,
            secure: OnceLock::new(),
        })))
    }

    /// The client for an address.
    fn client(&self, url: &Url) -> Result<&Client, HttpError> {
        // A proxy may be spoken to over TLS itself.
        if url.scheme() != "https" && self.0.proxies.is_empty() {
            return Ok(&self.0.plain);
        }
        let secure = self.0.secure.get_or_init(|| {
            builder(&self.0.proxies)
                .build()
                .map_err(|error| error::chain(&error))
        });
        match secure {
            Ok(client) => Ok(client),
            Err(_) if url.scheme() != "https" => Ok(&self.0.plain),
            Err(reason) => Err(HttpError::Unreachable {
                host: error::host(url),
                reason: format!(
                    "no TLS without certificate roots ({reason}): install the system's CA \
                     certificates or set SSL_CERT_FILE"
                ),
            }),
        }
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// # Errors
    /// When no response comes. A response with an error status is a response.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let HttpRequest {
            mut method,
            url,
            mut headers,
            mut body,
            timeouts,
        } = request;
        let mut url = parse(&url)?;
        for _ in 0..=REDIRECTS {
            let response = self
                .send_once(&method, &url, &headers, body.clone(), timeouts)
                .await?;
            match redirect::next(&response, &method, &url)? {
                Next::Here => {
                    return Ok(HttpResponse {
                        status: response.status(),
                        headers: response.headers().clone(),
                        url: response.url().as_str().to_owned(),
                        body: Body::new(response, timeouts.idle, error::host(&url)),
                    });
                }
                Next::There {
                    method: next_method,
                    url: next_url,
                } => {
                    if next_method != method {
                        body = None;
                        redirect::forget_content(&mut headers);
                        method = next_method;
                    }
                    if next_url.origin() != url.origin() {
                        redirect::forget_credentials(&mut headers);
                    }
                    url = next_url;
                }
            }
        }
        Err(HttpError::Unreachable {
            host: error::host(&url),
            reason: format!("more than {REDIRECTS} redirects"),
        })
    }

    /// One request to one address.
    async fn send_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Option<Bytes>,
        timeouts: Timeouts,
    ) -> Result<reqwest::Response, HttpError> {
        let mut request = self
            .client(url)?
            .request(method.clone(), url.clone())
            .headers(headers.clone());
        if let Some(body) = body {
            request = request.body(body);
        }
        let send = std::pin::pin!(request.send());
        let limit = std::pin::pin!(tokio::time::sleep(timeouts.first_byte));
        match select(send, limit).await {
            Either::Left((answer, _)) => {
                answer.map_err(|error| HttpError::before_response(url, &error))
            }
            Either::Right(((), _)) => Err(HttpError::TimedOut {
                host: error::host(url),
                stage: Stage::FirstByte,
            }),
        }
    }
}

fn builder(proxies: &[Proxy]) -> ClientBuilder {
    let builder = Client::builder()
        .user_agent(concat!("castellan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        // Redirects are followed here, where headers can be taken off.
        .redirect(Policy::none())
        .referer(false)
        .no_proxy();
    proxies
        .iter()
        .fold(builder, |builder, proxy| builder.proxy(proxy.clone()))
}

/// Reads an address the way the client itself does.
fn parse(text: &str) -> Result<Url, HttpError> {
    let url = Url::parse(text).map_err(|error| HttpError::InvalidUrl {
        reason: error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::InvalidUrl {
            reason: format!("`{}` is not a scheme for the web", url.scheme()),
        });
    }
    Ok(url)
}

/// The proxies of the environment. Upper-case names count too, as they do for most programs.
fn proxies(environment: &Environment) -> Result<Vec<Proxy>, HttpError> {
    let get = |names: [&str; 2]| {
        names
            .into_iter()
            .filter_map(|name| environment.get(name))
            .find(|value| !value.is_empty())
    };
    let direct = get(["no_proxy", "NO_PROXY"]).map_or_else(
        || LOOPBACK.to_owned(),
        |hosts| format!("{hosts},{LOOPBACK}"),
    );
    let all = get(["all_proxy", "ALL_PROXY"]);
    let http = get(["http_proxy", "HTTP_PROXY"]).or(all).map(Proxy::http);
    let https = get(["https_proxy", "HTTPS_PROXY"])
        .or(all)
        .map(Proxy::https);
    http.into_iter()
        .chain(https)
        .map(|proxy| {
            let proxy = proxy.map_err(|error| HttpError::Client {
                // Not the error's own text, which names the address, credentials included.
                reason: format!(
                    "a proxy address in the environment is invalid: {}",
                    error
                        .source()
                        .map_or_else(|| "not understood".to_owned(), ToString::to_string)
                ),
            })?;
            Ok(proxy.no_proxy(NoProxy::from_string(&direct)))
        })
        .collect()
}
