//! The gate as a whole, with tools made for each test and a recorder that remembers.

mod bench_of_tools;
mod execute;
mod path;
mod trace;
