//! The mover over a memory tier as home and a directory tier as stage.

mod commits;
mod crashes;
mod directories;
mod order;
mod renames;
mod world;
