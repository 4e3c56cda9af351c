//! Generates what follows from the command tree: man pages and shell completions.

fn main() {}
