//! Rules and hostile spellings.
