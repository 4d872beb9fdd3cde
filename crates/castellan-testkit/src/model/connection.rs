//! One connection: requests are read, replies written as scripted, to the byte.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use super::reply::{Framing, Step};
use super::{Reply, Shared, request};

/// What follows on a connection after a reply.
enum Then {
    /// The next request.
    Next,
    /// Nothing: it is closed.
    Close,
}

/// Serves one connection until either side closes it.
pub(super) fn serve(stream: TcpStream, shared: &Shared) {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    while let Some(request) = request::read(&mut input) {
        let (reply, number) = shared.take(request);
        // A client that went away while it was being written to is no fault of the script.
        if !matches!(
            write(&mut input, &mut output, &reply, number, shared),
            Ok(Then::Next)
        ) {
            break;
        }
    }
    // Already closed by the client, perhaps.
    drop(output.shutdown(Shutdown::Both));
}

fn write(
    input: &mut BufReader<TcpStream>,
    output: &mut TcpStream,
    reply: &Reply,
    number: usize,
    shared: &Shared,
) -> io::Result<Then> {
    let mut headed = false;
    for step in &reply.steps {
        match step {
            Step::Wait(gate) => {
                shared.open().gates.push(gate.clone());
                gate.pass();
            }
            Step::Hang => {
                // Nothing more is expected from the client, so this returns when it goes.
                drop(input.read(&mut [0; 1]));
                shared.abandoned.add();
                return Ok(Then::Close);
            }
            Step::Cut => return Ok(Then::Close),
            Step::Head => {
                head(output, reply, number)?;
                headed = true;
            }
            Step::Body(bytes) => {
                for piece in numbered(bytes, number).chunks(reply.piece) {
                    body(output, reply, piece)?;
                }
            }
        }
    }
    if headed && reply.framing == Framing::Chunked {
        output.write_all(b"0\r\n\r\n")?;
    }
    Ok(if reply.framing == Framing::UntilClose {
        Then::Close
    } else {
        Then::Next
    })
}

fn head(output: &mut TcpStream, reply: &Reply, number: usize) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    let framing = match reply.framing {
        Framing::Chunked => "transfer-encoding: chunked".to_owned(),
        Framing::UntilClose => "connection: close".to_owned(),
        Framing::Length => {
            let length: usize = reply
                .steps
                .iter()
                .map(|step| {
                    if let Step::Body(bytes) = step {
                        numbered(bytes, number).len()
                    } else {
                        0
                    }
                })
                .sum();
            format!("content-length: {length}")
        }
    };
    for line in reply
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .chain([framing, String::new()])
    {
        head.push_str(&line);
        head.push_str("\r\n");
    }
    output.write_all(head.as_bytes())
}

fn body(output: &mut TcpStream, reply: &Reply, bytes: &[u8]) -> io::Result<()> {
    if reply.framing == Framing::Chunked {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        output.write_all(&chunk)
    } else {
        output.write_all(bytes)
    }
}

/// `bytes` with the mark for the request's number filled in.
fn numbered(bytes: &[u8], number: usize) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text
            .replace(Reply::NUMBER_MARK, &number.to_string())
            .into_bytes(),
        Err(_) => bytes.to_vec(),
    }
}
