//! The resources the suite asks for: one of text, one of bytes, and a kind with a template.

use castellan_core::{Caller, Outcome};
use castellan_runtime::resources::{Bytes, Entry, Source, Template, Text};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::json;

use crate::content::PNG;

/// Everything under `test://`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixed;

const TEXT: &str = "static-text";
const BINARY: &str = "static-binary";

impl Source for Fixed {
    fn scheme(&self) -> &'static str {
        "test"
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template {
            uri_template: "test://template/{id}/data".to_owned(),
            name: "data".to_owned(),
            about: "Data of an id".to_owned(),
            media_type: "application/json".to_owned(),
        }]
    }

    fn list(&self) -> BoxFuture<'_, Vec<Entry>> {
        let entry = |name: &str, about: &str, media_type: &str| Entry {
            uri: format!("test://{name}"),
            name: name.to_owned(),
            about: about.to_owned(),
            media_type: media_type.to_owned(),
        };
        ready(vec![
            entry(TEXT, "A sentence", "text/plain"),
            entry(BINARY, "A pixel", "image/png"),
        ])
        .boxed()
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Text>, Outcome>> {
        let template = name.strip_prefix("template/");
        let id = template.and_then(|rest| rest.strip_suffix("/data"));
        let read = match (name, id) {
            (TEXT, _) => Some(Text {
                media_type: "text/plain".to_owned(),
                text: "This is the content of the static text resource.".to_owned(),
            }),
            (_, Some(id)) => {
                let data = format!("Data for ID: {id}");
                Some(Text {
                    media_type: "application/json".to_owned(),
                    text: json!({"id": id, "templateTest": true, "data": data}).to_string(),
                })
            }
            _ => None,
        };
        ready(Ok(read)).boxed()
    }

    fn bytes<'a>(
        &'a self,
        name: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Outcome>> {
        let read = (name == BINARY).then(|| Bytes {
            media_type: "image/png".to_owned(),
            bytes: PNG.to_vec(),
        });
        ready(Ok(read)).boxed()
    }
}
