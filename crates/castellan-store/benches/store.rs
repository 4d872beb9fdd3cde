//! What durability costs: one commit per write against commits shared by 32 writers, and a long
//! session appended and loaded. Prints `name: value unit`.

fn main() {}
