//! Where a server listens, and what that asks of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen at: `127.0.0.1:8790`, `[::1]:8790`, `localhost:8790`, or the port alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// Why an address can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is none.
    #[error("`{0}` is no address to listen at; one is ADDRESS:PORT, such as 127.0.0.1:8790")]
    Shape(String),
    /// Others than this machine reach it, and nothing would keep them out.
    #[error("{0} can be reached from other machines, which needs a secret")]
    Open(SocketAddr),
}

impl Address {
    /// Makes sure that who listens here keeps out who has no business here: beyond this machine a
    /// secret is needed.
    ///
    /// # Errors
    /// [`Unusable::Open`].
    pub const fn demand(self, has_secret: bool) -> Result<SocketAddr, Unusable> {
        let alone = match self.0.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                Some(ip) => ip.is_loopback(),
                None => ip.is_loopback(),
            },
        };
        if alone || has_secret {
            Ok(self.0)
        } else {
            Err(Unusable::Open(self.0))
        }
    }
}

impl Default for Address {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, 8790)))
    }
}

impl FromStr for Address {
    type Err = Unusable;

    fn from_str(text: &str) -> Result<Self, Unusable> {
        let text = text.trim();
        if let Ok(port) = text.parse() {
            return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port
                .parse()
                .map_err(|_none| Unusable::Shape(text.to_owned()))?;
            return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<Ipv6Addr>() {
            // Without a port the last part of an address could be taken for one.
            return Err(Unusable::Shape(ip.to_string()));
        }
        let parsed = text.parse().map(Self);
        parsed.map_err(|_none| Unusable::Shape(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_people_write_it() {
        for (text, meant) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("localhost:80", "127.0.0.1:80"),
            (" 8791 ", "127.0.0.1:8791"),
            ("0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().0.to_string(), meant);
        }
        for text in [
            "",
            "localhost",
            "localhost:http",
            "127.0.0.1",
            "::1",
            "[::1]",
            "example.com:80",
            "127.0.0.1:65536",
            "-1",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(matches!(error, Unusable::Shape(_)), "{text}");
        }
    }

    #[test]
    fn beyond_this_machine_a_secret_is_needed() {
        for (text, alone) in [
            ("127.0.0.1:80", true),
            ("127.8.8.8:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("192.168.1.2:80", false),
            ("[::ffff:10.0.0.1]:80", false),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.demand(false).is_ok(), alone, "{text}");
            assert!(address.demand(true).is_ok(), "{text}");
        }
    }
}
