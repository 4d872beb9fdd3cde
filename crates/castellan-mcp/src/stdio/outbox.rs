//! Messages on their way out: one task writes them, whole and one after the other.

use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::frame::Frame;

/// How many messages wait for a client that reads slowly.
const MOST_WAITING: usize = 64;

/// How long the last messages may take.
const LAST: Duration = Duration::from_millis(200);

/// The client takes nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client reads no more")]
pub(super) struct Deaf;

/// A message, and who waits for it to be written.
#[derive(Debug)]
pub(super) struct Letter {
    line: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

impl Letter {
    /// A message nobody waits for. `line` has no line end.
    pub(super) fn plain(mut line: Vec<u8>) -> Self {
        line.push(b'\n');
        Self {
            line,
            written: None,
        }
    }
}

/// Where messages are handed in.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    letters: mpsc::Sender<Letter>,
}

/// The writing side, for whoever waits until all is written.
#[derive(Debug)]
pub(super) struct Written {
    done: CancellationToken,
}

impl Outbox {
    /// An outbox that writes to `writer` until it is dropped; `broken` is cancelled where that
    /// fails.
    pub(super) fn new<W>(frame: &Frame, writer: W, broken: CancellationToken) -> (Self, Written)
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (letters, waiting) = mpsc::channel(MOST_WAITING);
        let done = CancellationToken::new();
        let finished = done.clone().drop_guard();
        frame.tasks.spawn(async move {
            let _finished = finished;
            write(writer, waiting, broken).await;
        });
        (Self { letters }, Written { done })
    }

    /// Room for one letter.
    pub(super) async fn room(&self) -> Result<mpsc::Permit<'_, Letter>, Deaf> {
        self.letters.reserve().await.map_err(|_closed| Deaf)
    }

    /// Hands in a message and waits until it is written.
    pub(super) async fn send(self, line: Vec<u8>) -> Result<(), Deaf> {
        let (written, done) = oneshot::channel();
        let mut letter = Letter::plain(line);
        letter.written = Some(written);
        self.letters.send(letter).await.map_err(|_closed| Deaf)?;
        done.await.map_err(|_dropped| Deaf)
    }
}

impl Written {
    /// Waits until everything is written, or the client is too slow for that.
    pub(super) async fn finish(self, frame: &Frame) {
        tokio::select! {
            () = self.done.cancelled() => {}
            () = frame.clock.sleep(LAST) => {}
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut letters: mpsc::Receiver<Letter>,
    broken: CancellationToken,
) {
    let mut batch = Vec::new();
    let mut told = Vec::new();
    while let Some(first) = letters.recv().await {
        // What waits already goes out in one write.
        let mut next = Some(first);
        while let Some(mut letter) = next {
            batch.append(&mut letter.line);
            told.extend(letter.written);
            next = letters.try_recv().ok();
        }
        let wrote = async {
            writer.write_all(&batch).await?;
            writer.flush().await
        };
        if let Err(error) = wrote.await {
            tracing::debug!(%error, "an MCP client reads no more");
            broken.cancel();
            return;
        }
        batch.clear();
        for written in told.drain(..) {
            // Whoever waited may have given up.
            let _gone = written.send(());
        }
    }
    if let Err(error) = writer.shutdown().await {
        tracing::debug!(%error, "an MCP client's end could not be closed");
    }
}
