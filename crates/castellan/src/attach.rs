//! Files that go with a message: text as a block of it, pictures as what they are.

use std::path::Path;
use std::sync::Arc;

use castellan_core::text::fenced;
use castellan_core::{CancelSource, Picture, PictureRef};
use castellan_gate::Album;
use castellan_tools::file;
use castellan_tools::parse::{Format, Parsed, Parser};

use crate::error::CommandError;

/// The largest text file that goes with a message, in bytes.
const TEXT: u64 = 256 * 1024;

/// What a file adds to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// A block of text.
    Text(String),
    /// A picture.
    Picture(PictureRef),
}

/// Reads the file at `path`, absolute.
pub(crate) async fn attach(
    path: &Path,
    parser: Arc<dyn Parser>,
    album: &Album,
) -> Result<Attachment, CommandError> {
    let shown = path.display().to_string();
    let refuse = |what: String| {
        CommandError::usage(format!("{shown} can't be attached: {what}"))
            .hint("name it in the message instead: the model can read files")
    };
    let opened = file::open(path)
        .map_err(|problem| refuse(castellan_core::Outcome::from(problem).into_text()))?;
    let size = opened.metadata.len();
    let limit = TEXT.max(Format::Picture.limit());
    if size > limit {
        return Err(refuse(format!("it has {size} bytes, at most {limit}")));
    }
    let bytes = std::fs::read(&opened.path).map_err(|error| refuse(error.to_string()))?;
    match Format::of(&bytes) {
        Some(Format::Picture) => {
            let never = CancelSource::new();
            let parsed = parser.parse(Format::Picture, opened.path.clone(), never.token());
            let answer = parsed.await.map_err(|error| refuse(error.to_string()))?;
            match answer.parsed {
                Parsed::Picture {
                    kind,
                    width,
                    height,
                    converted,
                    ..
                } => {
                    let bytes = if converted { answer.body } else { bytes };
                    let picture = Picture {
                        kind,
                        width,
                        height,
                        bytes: bytes.into(),
                    };
                    let kept = album.add(&picture);
                    Ok(Attachment::Picture(
                        kept.map_err(|error| refuse(error.to_string()))?,
                    ))
                }
                Parsed::Broken { reason } => Err(refuse(reason)),
                Parsed::Pdf { .. } => Err(refuse("it is no picture".to_owned())),
            }
        }
        Some(Format::Pdf) => Err(refuse("it is a PDF".to_owned())),
        None => {
            if size > TEXT {
                return Err(refuse(format!("it has {size} bytes, text at most {TEXT}")));
            }
            let text = String::from_utf8(bytes)
                .ok()
                .filter(|text| !text.contains('\0'))
                .ok_or_else(|| refuse("it is neither UTF-8 text nor a picture".to_owned()))?;
            Ok(Attachment::Text(format!("{shown}:\n{}", fenced(&text))))
        }
    }
}
