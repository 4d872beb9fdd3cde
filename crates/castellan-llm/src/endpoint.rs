//! The address of an API, in the forms people write it.

/// An address below which the endpoints lie.
#[derive(Clone)]
pub(crate) struct Endpoint {
    base: String,
    /// With its question mark; empty where there is none.
    query: String,
}

/// The endpoint people paste in place of the address above it.
const CHAT: &str = "/chat/completions";

impl Endpoint {
    /// Reads `text` leniently. Without a scheme this machine is taken to speak plain HTTP and
    /// everybody else TLS.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.trim();
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let base = base.trim_end_matches('/');
        let base = base
            .strip_suffix(CHAT)
            .unwrap_or(base)
            .trim_end_matches('/');
        let base = if base.is_empty() || base.contains("://") {
            base.to_owned()
        } else if ["localhost", "127.", "[::1]"]
            .iter()
            .any(|host| base.starts_with(host))
        {
            format!("http://{base}")
        } else {
            format!("https://{base}")
        };
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{query}")
        };
        Self { base, query }
    }

    /// Where chats are completed.
    pub(crate) fn chat(&self) -> String {
        format!("{}{CHAT}{}", self.base, self.query)
    }

    /// Where models are listed.
    pub(crate) fn models(&self) -> String {
        format!("{}/models{}", self.base, self.query)
    }

    /// The address for people: without a password and without the query, which may hold a key.
    pub(crate) fn shown(&self) -> String {
        let Some((scheme, rest)) = self.base.split_once("://") else {
            return self.base.clone();
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let slash = if path.is_empty() { "" } else { "/" };
        format!("{scheme}://{host}{slash}{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ways_to_write_an_address_mean_the_same() {
        for text in [
            "http://127.0.0.1:11434/v1",
            "http://127.0.0.1:11434/v1/",
            " http://127.0.0.1:11434/v1// ",
            "http://127.0.0.1:11434/v1/chat/completions",
            "http://127.0.0.1:11434/v1/chat/completions/",
            "127.0.0.1:11434/v1",
        ] {
            let endpoint = Endpoint::new(text);
            assert_eq!(
                endpoint.chat(),
                "http://127.0.0.1:11434/v1/chat/completions",
                "{text}"
            );
            assert_eq!(
                endpoint.models(),
                "http://127.0.0.1:11434/v1/models",
                "{text}"
            );
        }
        assert_eq!(
            Endpoint::new("api.example.com/v1").shown(),
            "https://api.example.com/v1"
        );
    }

    #[test]
    fn a_query_stays_at_the_end() {
        let endpoint = Endpoint::new("https://h/openai/deployments/d?api-version=1");
        assert_eq!(
            endpoint.chat(),
            "https://h/openai/deployments/d/chat/completions?api-version=1"
        );
    }

    #[test]
    fn what_is_shown_holds_no_credentials() {
        let endpoint = Endpoint::new("https://user:pass@host:1/v1?key=secret");
        assert_eq!(endpoint.shown(), "https://host:1/v1");
        assert_eq!(Endpoint::new("http://host").shown(), "http://host");
    }
}
