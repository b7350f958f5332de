//! Exit codes.

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// Usage or config.
    Usage = 2,
    /// Not mounted.
    NotMounted = 3,
    /// Timed out.
    TimedOut = 4,
}
