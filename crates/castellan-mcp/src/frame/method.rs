//! Which methods there are in which era, and what is said of a request that is none of them.
#![expect(
    deprecated,
    reason = "what only older clients send has to be answered all the same"
)]

use castellan_core::ErrorCode;
use castellan_core::nearest::nearest;
use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, CustomRequest, GetPromptRequestParams,
    InitializeRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::provider::Fault;

/// How many methods are named to somebody who meant another one.
const NEAREST: usize = 3;

/// Methods of every revision.
const BOTH: &[&str] = &[
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tools/call",
    "tools/list",
];

const LEGACY: &[&str] = &[
    "initialize",
    "logging/setLevel",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
];

const MODERN: &[&str] = &["server/discover", "subscriptions/listen"];

/// The methods of an era.
fn methods(modern: bool) -> impl Iterator<Item = &'static str> {
    let own = if modern { MODERN } else { LEGACY };
    BOTH.iter().chain(own).copied()
}

/// What is wrong with a request that could not be read as any method's.
pub(super) fn unread(request: CustomRequest, modern: bool) -> Fault {
    let CustomRequest { method, params, .. } = request;
    if !methods(modern).any(|known| known == method) {
        return unknown(&method, modern);
    }
    let why = complaint(&method, params.unwrap_or_default());
    Fault::invalid(format!("these are no parameters of {method}{why}"))
        .with_data(json!({ "ok": false, "error_code": ErrorCode::Validation }))
}

/// A method that is none of this era.
pub(super) fn unknown(method: &str, modern: bool) -> Fault {
    let mut meant = nearest(method, methods(modern));
    meant.truncate(NEAREST);
    Fault::new(
        Fault::METHOD_NOT_FOUND,
        format!("this revision of the protocol has no method `{method}`"),
    )
    .with_data(json!({
        "ok": false,
        "error_code": ErrorCode::ToolNotFound,
        "nearest": meant,
    }))
}

/// What is wrong with the parameters of a method, as the end of a sentence.
fn complaint(method: &str, params: Value) -> String {
    fn of<T: DeserializeOwned>(params: Value) -> String {
        let error = serde_json::from_value::<T>(params).err();
        error.map_or_else(String::new, |error| format!(": {error}"))
    }
    match method {
        "completion/complete" => of::<CompleteRequestParams>(params),
        "initialize" => of::<InitializeRequestParams>(params),
        "logging/setLevel" => of::<SetLevelRequestParams>(params),
        "prompts/get" => of::<GetPromptRequestParams>(params),
        "resources/read" => of::<ReadResourceRequestParams>(params),
        "resources/subscribe" => of::<SubscribeRequestParams>(params),
        "resources/unsubscribe" => of::<UnsubscribeRequestParams>(params),
        "subscriptions/listen" => of::<SubscriptionsListenRequestParams>(params),
        "tools/call" => of::<CallToolRequestParams>(params),
        _ => of::<PaginatedRequestParams>(params),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_was_mistyped_is_told_the_one_that_was_meant() {
        let fault = unread(CustomRequest::new("tool/list", None), false);
        assert_eq!(fault.code, Fault::METHOD_NOT_FOUND);
        assert_eq!(fault.data.unwrap()["nearest"][0], "tools/list");
        let fault = unread(CustomRequest::new("ping", None), true);
        assert_eq!(fault.code, Fault::METHOD_NOT_FOUND);
    }

    #[test]
    fn parameters_that_are_none_are_told_why() {
        let request = CustomRequest::new("tools/call", Some(json!({"arguments": {}})));
        let fault = unread(request, true);
        assert_eq!(fault.code, Fault::INVALID_PARAMS);
        assert!(fault.message.ends_with("missing field `name`"), "{fault}");
        assert_eq!(fault.data.unwrap()["error_code"], "VALIDATION");
    }
}
