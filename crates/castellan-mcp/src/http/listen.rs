//! Taking connections: a bounded number of them, each without the delay that small answers suffer
//! otherwise, and none that holds its place without a request.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

/// Connections at a time. More wait to be taken.
const MOST_CONNECTIONS: usize = 1_024;

/// How long a client may take for the head of a request, and stay without one.
const HEAD: Duration = Duration::from_secs(15);

/// How long to wait where no connection can be taken, for want of descriptors most often.
const BREATH: Duration = Duration::from_millis(100);

/// How long requests under way may take once the server is told to stop.
const ENDING: Duration = Duration::from_secs(5);

/// Serves `router` on `listener` until `stop`, then waits for requests under way, for a while.
///
/// # Errors
/// None that a single connection can cause; the listener itself does not fail.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let (place, stream) = tokio::select! {
            taken = async { Ok::<_, io::Error>((place.await, listener.accept().await?)) } => {
                match taken {
                    Ok((Ok(place), (stream, _from))) => (place, stream),
                    Ok((Err(_closed), _)) => break,
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        tokio::time::sleep(BREATH).await;
                        continue;
                    }
                }
            }
            () = stop.cancelled() => break,
        };
        let connection = connect(stream, router.clone(), place, stop.clone());
        connections.spawn(connection);
    }
    connections.close();
    if tokio::time::timeout(ENDING, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!("connections did not end in time and were dropped");
    }
    Ok(())
}

async fn connect(
    stream: TcpStream,
    router: Router,
    place: OwnedSemaphorePermit,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection will be slow");
    }
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let answer = router.clone().oneshot(request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
    drop(place);
}
