//! Following redirects without carrying credentials to another origin.
//!
//! The HTTP library takes off the headers it knows to be credentials. Model providers and MCP
//! servers use others (`x-api-key`), so the rule here is the reverse: another origin gets only
//! headers that describe the content.

use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
    LOCATION, TRANSFER_ENCODING,
};
use reqwest::{Method, Response, StatusCode, Url};

use super::error::{HttpError, host};

/// Headers that describe the content, which any origin may see.
const HARMLESS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE];

/// Where a response points.
pub(super) enum Next {
    /// It is the answer.
    Here,
    /// The answer is elsewhere.
    There { method: Method, url: Url },
}

/// Reads a response's redirect, if it is one.
pub(super) fn next(response: &Response, method: &Method, url: &Url) -> Result<Next, HttpError> {
    let method = match response.status() {
        // What browsers do, and RFC 9110 allows: only the method of a POST changes.
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if *method == Method::POST => Method::GET,
        StatusCode::SEE_OTHER if *method != Method::HEAD => Method::GET,
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => method.clone(),
        _ => return Ok(Next::Here),
    };
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(Next::Here);
    };
    let refused = |reason: &str| HttpError::Unreachable {
        host: host(url),
        reason: reason.to_owned(),
    };
    let location = std::str::from_utf8(location.as_bytes())
        .ok()
        .and_then(|location| url.join(location).ok())
        .ok_or_else(|| refused("it redirects to an address that cannot be read"))?;
    match (url.scheme(), location.scheme()) {
        ("https", "https") | ("http", "http" | "https") => {}
        ("https", "http") => return Err(refused("it redirects from TLS to plain HTTP")),
        _ => return Err(refused("it redirects to something that is not of the web")),
    }
    Ok(Next::There {
        method,
        url: location,
    })
}

/// Takes off what describes a body that is not sent again.
pub(super) fn forget_content(headers: &mut HeaderMap) {
    for name in [
        CONTENT_TYPE,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        TRANSFER_ENCODING,
    ] {
        headers.remove(name);
    }
}

/// Takes off everything but what describes the content.
pub(super) fn forget_credentials(headers: &mut HeaderMap) {
    let harmless = HARMLESS
        .into_iter()
        .filter_map(|name| headers.get(&name).cloned().map(|value| (name, value)))
        .collect();
    *headers = harmless;
}
