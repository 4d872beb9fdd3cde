//! What this room promises about processes, environments and connections, tried on real ones.

mod environment;
mod http;
mod owner;
mod shell;
mod world;
