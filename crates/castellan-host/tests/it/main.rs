//! What this room promises about processes, environments and connections, tried on real ones.

// Each module says `cfg(test)` again, because that is what the lints for tests go by.
#[cfg(test)]
mod commands;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod http;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod owner;
#[cfg(test)]
mod partner;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod world;
