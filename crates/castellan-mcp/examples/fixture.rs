//! The fixture as a server: `fixture` on the standard streams, `fixture PORT` over HTTP.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "this program is for tests"
)]

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::sync::Arc;

use castellan_host::system::{SystemClock, SystemIds};
use castellan_mcp::http::{Settings, listen, router};
use castellan_mcp::{Limits, Server, stdio};

#[tokio::main]
async fn main() {
    let server = Server::new(
        Arc::new(fixture::Fixture::default()),
        Arc::new(SystemClock::new()),
        Arc::new(SystemIds),
        Limits::default(),
    );
    if let Some(port) = std::env::args().nth(1) {
        let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await;
        let listener = listener.unwrap();
        eprintln!("http://{}/mcp", listener.local_addr().unwrap());
        let router = router(&server, Settings::default());
        let stop = tokio_util::sync::CancellationToken::new();
        listen::listen(listener, router, stop).await.unwrap();
    } else {
        let (reader, writer) = stdio::standard_streams();
        stdio::serve(&server, reader, writer, None).await;
    }
}
