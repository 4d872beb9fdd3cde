//! Where a request comes from, and what it proves, before any of it is read.
//!
//! A page in a browser can be made to send requests to a server on the same machine, under a name
//! that resolves to it. Such a request names a host or an origin that is not ours, and is refused.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use axum::middleware::Next;
use sha2::{Digest as _, Sha256};

use super::door::refusal;
use crate::jsonrpc::INVALID_REQUEST;
use crate::provider::Bearer;

/// Names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Which secrets are accepted.
type Check = dyn Fn(&Bearer) -> bool + Send + Sync;

/// What a request must prove.
#[derive(Clone, Default)]
pub enum Admission {
    /// Nothing. For servers that only this machine reaches.
    #[default]
    Anyone,
    /// A bearer secret that this accepts. It is asked for each request.
    Bearer(Arc<Check>),
}

impl Admission {
    /// This one secret.
    #[must_use]
    pub fn secret(secret: &str) -> Self {
        // Digests are compared, so that the time it takes says nothing of the secret.
        let known = Sha256::digest(secret);
        Self::Bearer(Arc::new(move |bearer| {
            Sha256::digest(bearer.expose()) == known
        }))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Anyone => true,
            Self::Bearer(accepts) => bearer(headers).is_some_and(|bearer| accepts(&bearer)),
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anyone => "Anyone",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Which requests are let in. The names of this machine for itself are always accepted as hosts,
/// and pages of the server's own port as origins.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// More hosts a request may name: `name`, with any port, or `name:port`.
    pub hosts: Vec<String>,
    /// More origins a page may have, such as `https://app.example.com`.
    pub origins: Vec<String>,
    /// What a request must prove.
    pub admission: Admission,
}

/// The secret that came with a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<Bearer> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !secret.is_empty()).then(|| Bearer::new(secret))
}

/// `router` with `guard` before all of it.
pub fn layer(router: Router, guard: Guard) -> Router {
    router.layer(axum::middleware::from_fn_with_state(Arc::new(guard), stand))
}

async fn stand(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response<Body> {
    let (uri, headers) = (request.uri(), request.headers());
    if let Err(what) = guard.place(uri, headers) {
        return refusal(StatusCode::FORBIDDEN, INVALID_REQUEST, what);
    }
    if !guard.admission.admits(headers) {
        let what = "a bearer secret is needed in the Authorization header";
        let mut response = refusal(StatusCode::UNAUTHORIZED, INVALID_REQUEST, what);
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        return response;
    }
    next.run(request).await
}

impl Guard {
    /// Whether the request names a host and an origin that are ours.
    fn place(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = named_host(uri, headers).ok_or("the request names no host")?;
        if !self.knows_host(&host) {
            return Err("this host is not served here; the configuration names those that are");
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if self.knows_origin(origin, &host) => Ok(()),
            (Some(_), _) => {
                Err("pages of this origin may not call; the configuration names those that may")
            }
        }
    }

    fn knows_host(&self, host: &Authority) -> bool {
        is_loopback(host) || self.hosts.iter().any(|known| matches(known, host))
    }

    fn knows_origin(&self, origin: &HeaderValue, host: &Authority) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        if self.origins.iter().any(|known| known == origin) {
            return true;
        }
        let Ok(uri) = origin.parse::<Uri>() else {
            return false;
        };
        let Some(page) = uri.authority() else {
            return false;
        };
        let own = is_loopback(page) && is_loopback(host) && page.port_u16() == host.port_u16();
        uri.scheme_str() == Some("http") && own
    }
}

/// The one host a request names.
fn named_host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok()?.parse().ok()?,
        (None, _) => uri.authority()?.clone(),
        (Some(_), Some(_)) => return None,
    };
    (!host.as_str().contains('@')).then_some(host)
}

fn is_loopback(host: &Authority) -> bool {
    LOOPBACK
        .iter()
        .any(|name| host.host().eq_ignore_ascii_case(name))
}

fn matches(known: &str, host: &Authority) -> bool {
    let Ok(known) = known.parse::<Authority>() else {
        return false;
    };
    known.host().eq_ignore_ascii_case(host.host())
        && known
            .port_u16()
            .is_none_or(|port| host.port_u16() == Some(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(guard: &Guard, headers: &[(&str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        guard.place(&Uri::from_static("/mcp"), &map).is_ok()
    }

    #[test]
    fn only_requests_for_this_machine_are_let_in() {
        let guard = Guard::default();
        for host in ["localhost:80", "LOCALHOST", "127.0.0.1:9", "[::1]:4000"] {
            assert!(place(&guard, &[("host", host)]), "{host}");
        }
        for host in [
            "evil.test:4000",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "evil.test@localhost",
            "localhost@evil.test",
            "0.0.0.0",
            "",
        ] {
            assert!(!place(&guard, &[("host", host)]), "{host}");
        }
        assert!(!place(&guard, &[]));
        assert!(!place(
            &guard,
            &[("host", "localhost"), ("host", "evil.test")]
        ));
    }

    #[test]
    fn only_own_pages_may_call() {
        let guard = Guard::default();
        let from = |origin| place(&guard, &[("host", "localhost:4000"), ("origin", origin)]);
        for origin in ["http://localhost:4000", "http://127.0.0.1:4000"] {
            assert!(from(origin), "{origin}");
        }
        for origin in [
            "http://evil.test",
            "http://localhost:3000",
            "https://localhost:4000",
            "http://localhost.evil.test:4000",
            "null",
            "",
            "localhost:4000",
        ] {
            assert!(!from(origin), "{origin}");
        }
    }

    #[test]
    fn what_is_configured_is_let_in_as_well() {
        let guard = Guard {
            hosts: vec!["tools.example".to_owned(), "one.example:8080".to_owned()],
            origins: vec!["https://app.example".to_owned()],
            admission: Admission::Anyone,
        };
        for (host, known) in [
            ("tools.example", true),
            ("tools.example:1", true),
            ("one.example:8080", true),
            ("one.example:8081", false),
            ("one.example", false),
        ] {
            assert_eq!(place(&guard, &[("host", host)]), known, "{host}");
        }
        let page = [("host", "tools.example"), ("origin", "https://app.example")];
        assert!(place(&guard, &page));
    }

    #[test]
    fn one_secret_is_the_secret() {
        let admission = Admission::secret("s3cret");
        let admits = |header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().unwrap());
            admission.admits(&headers)
        };
        assert!(admits("Bearer s3cret") && admits("bearer  s3cret "));
        assert!(!admits("Bearer s3cre") && !admits("Bearer ") && !admits("Basic s3cret"));
        assert!(!admission.admits(&HeaderMap::new()));
    }
}
