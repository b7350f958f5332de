//! What a program waits for at home.

use super::{Generation, Ino};

/// Something that is to be at home before a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// This generation of a file, or a later one.
    Content(Ino, Generation),
    /// The names in this directory as they are now, with what is closed under them.
    Names(Ino),
}
