//! What a result may hold that is neither words nor a picture: the content blocks of the Model
//! Context Protocol, without its wire.

/// A part of a result for surfaces that can carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Sound.
    Audio {
        /// The media type, such as `audio/wav`.
        media_type: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A resource, in the result itself.
    Resource {
        /// Its URI.
        uri: String,
        /// The media type, where it is known.
        media_type: Option<String>,
        /// What it holds.
        content: Content,
    },
    /// A resource that can be read.
    Link {
        /// Its URI.
        uri: String,
        /// What it is called.
        name: String,
        /// The media type, where it is known.
        media_type: Option<String>,
    },
}

/// What a resource holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Words.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}
