//! What is shipped, installed and run as users do it.

mod containers;
mod deb;
mod examples;
mod root;
mod vm;
