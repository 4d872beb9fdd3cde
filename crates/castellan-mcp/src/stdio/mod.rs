//! A client on the other end of two pipes: one message in each line.
//!
//! `lines` reads without trusting the client; `pipe` is the transport. A connection ends when
//! its client's end does, and nothing that runs for it delays that by more than two seconds.

mod batch;
mod lines;
mod outbox;
mod pipe;

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::serve_directly_with_ct;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::frame::Server;
use crate::frame::connection::Connection;
use crate::frame::service::Desk;
use crate::provider::Bearer;
use pipe::Pipe;

/// How long calls may go on once the client is gone: some clients close their end first and read
/// the last answers after.
const FINISHING: Duration = Duration::from_millis(900);

/// How long cancelled calls may take to be given up, and then again to end.
const ENDING: Duration = Duration::from_millis(400);

/// The standard streams of this process, without a thread behind them where both are pipes.
///
/// # Panics
/// Outside of an async runtime.
#[must_use]
pub fn standard_streams() -> (
    impl AsyncRead + Send + Unpin + 'static,
    impl AsyncWrite + Send + Unpin + 'static,
) {
    rmcp::transport::stdio_pipes()
}

/// Serves the client behind `reader` and `writer` until either ends or the server is shut down.
/// `bearer` is what proves who the client is, where its environment has it.
pub async fn serve<R, W>(server: &Server, reader: R, writer: W, bearer: Option<Bearer>)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let frame = &server.frame;
    let connection = Arc::new(Connection::new(frame, bearer));
    let (pipe, written) = Pipe::new(frame, reader, writer);
    let over = pipe.over();
    let desk = Desk::new(Arc::clone(frame), Arc::clone(&connection));
    let service = serve_directly_with_ct(desk, pipe, None, frame.stop.child_token());
    let served = service.waiting();
    tokio::pin!(served);
    let patience = async {
        over.cancelled().await;
        frame.clock.sleep(FINISHING).await;
        connection.stop.cancel();
        frame.clock.sleep(ENDING).await;
    };
    tokio::select! {
        end = &mut served => {
            if let Err(error) = end {
                tracing::error!(%error, "the connection to an MCP client broke");
            }
        }
        () = patience => tracing::warn!("calls of an MCP client outlived it and were dropped"),
    }
    frame.parking.forget(&connection.key);
    connection.stop.cancel();
    connection.works.close();
    tokio::select! {
        () = connection.works.wait() => {}
        () = frame.clock.sleep(ENDING) => {
            tracing::warn!("work for an MCP client did not end when it was told to");
        }
    }
    written.finish(frame).await;
}
