//! A client on two pipes.

use std::sync::Arc;

use castellan_mcp::{Limits, Server, stdio};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

use super::fixture::Fixture;
use super::{LEGACY, introduction, notice, patiently, request, server};

/// What a pipe holds before its writer has to wait.
const PIPE: usize = 64 * 1024;

/// The client's end.
pub(crate) struct Pipes {
    pub(crate) lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) writer: Option<WriteHalf<DuplexStream>>,
    pub(crate) served: JoinHandle<()>,
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) server: Server,
}

impl Pipes {
    /// A client nobody has heard of.
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let (server, fixture) = server(limits);
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(theirs);
        let serving = server.clone();
        let served =
            tokio::spawn(async move { stdio::serve(&serving, reader, writer, None).await });
        let (reader, writer) = tokio::io::split(ours);
        Self {
            lines: BufReader::new(reader).lines(),
            writer: Some(writer),
            served,
            fixture,
            server,
        }
    }

    /// A client that has introduced itself.
    pub(crate) async fn introduced(version: &str) -> Self {
        let mut pipes = Self::new();
        pipes.introduce(version).await;
        pipes
    }

    pub(crate) async fn introduce(&mut self, version: &str) {
        let answer = self
            .ask(request(0, "initialize", introduction(version)))
            .await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        self.send(&notice("notifications/initialized", json!({})))
            .await;
    }

    pub(crate) async fn legacy() -> Self {
        Self::introduced(LEGACY).await
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().unwrap();
        patiently("writing", writer.write_all(bytes)).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Value {
        let line = patiently("a message", self.lines.next_line()).await;
        serde_json::from_str(&line.unwrap().expect("a message before the end")).unwrap()
    }

    /// Sends a request and takes the next message for its answer.
    pub(crate) async fn ask(&mut self, request: Value) -> Value {
        self.send(&request).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], request["id"], "{answer}");
        answer
    }

    /// Calls a tool the legacy way.
    pub(crate) async fn call(&mut self, id: i64, name: &str) -> Value {
        self.ask(request(id, "tools/call", super::call(name))).await
    }

    /// Closes the client's writing end.
    pub(crate) async fn hang_up(&mut self) {
        let mut writer = self.writer.take().unwrap();
        writer.shutdown().await.unwrap();
    }
}
