//! The one error of tierfs: what happened, told by what the caller can do, and its errno.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

/// What went wrong, told by what a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The tier (or the catalog) said it is not there.
    NotFound,
    /// Something is already there.
    Exists,
    /// It is there, but not the version the caller expected.
    Changed,
    /// An open file's version is gone from its tier.
    Stale,
    /// The tier refuses this caller: credentials or permissions.
    Denied,
    /// The caller may not do this at all (EPERM).
    NotPermitted,
    /// Full, or over quota.
    NoSpace,
    /// The tier can't answer now: throttled, unreachable, 5xx. Trying again may help.
    Unavailable,
    /// No answer before the deadline.
    TimedOut,
    /// The tier is absent: probably not mounted.
    Absent,
    /// The tier will never take this: wrong name, too large, immutable.
    Refused,
    /// The blob is archived and must be rehydrated first.
    Archived,
    /// This tier or file system can't do that.
    Unsupported,
    /// A directory still has entries.
    NotEmpty,
    /// A directory is needed.
    NotDirectory,
    /// A directory is in the way.
    IsDirectory,
    /// A name over 255 bytes, or a path the tier can't hold.
    NameTooLong,
    /// Bad argument.
    Invalid,
    /// In use.
    Busy,
    /// The mount is read-only.
    ReadOnly,
    /// Too many links, or symlinks in a circle.
    Loop,
    /// Would leave the tier's root.
    Outside,
    /// No such extended attribute.
    NoAttribute,
    /// Would have to wait for a slow tier, and the caller asked not to.
    WouldBlock,
    /// Interrupted by a signal or by shutdown.
    Interrupted,
    /// The catalog or an answer of a tier makes no sense.
    Corrupt,
    /// Any other errno of the operating system.
    Os(i32),
}

impl Kind {
    /// The errno a program sees.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::Exists => libc::EEXIST,
            // Only an open file or a commit meets a change; to a program both are a stale handle.
            Self::Changed | Self::Stale => libc::ESTALE,
            Self::Denied => libc::EACCES,
            Self::NotPermitted => libc::EPERM,
            Self::NoSpace => libc::ENOSPC,
            Self::TimedOut => libc::ETIMEDOUT,
            // Never ENOENT: nobody said that the file is not there.
            Self::Unavailable | Self::Absent | Self::Refused | Self::Corrupt => libc::EIO,
            // What HSM systems answer for a file that is offline.
            Self::Archived => libc::ENODATA,
            Self::Unsupported => libc::EOPNOTSUPP,
            Self::NotEmpty => libc::ENOTEMPTY,
            Self::NotDirectory => libc::ENOTDIR,
            Self::IsDirectory => libc::EISDIR,
            Self::NameTooLong => libc::ENAMETOOLONG,
            Self::Invalid => libc::EINVAL,
            Self::Busy => libc::EBUSY,
            Self::ReadOnly => libc::EROFS,
            Self::Loop => libc::ELOOP,
            Self::Outside => libc::EXDEV,
            Self::NoAttribute => libc::ENODATA,
            Self::WouldBlock => libc::EAGAIN,
            Self::Interrupted => libc::EINTR,
            Self::Os(errno) => errno,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unavailable | Self::TimedOut | Self::Absent | Self::Interrupted | Self::Busy)
            || matches!(self, Self::Os(libc::EIO | libc::ESTALE | libc::ENOTCONN | libc::EHOSTDOWN))
    }

    fn from_errno(errno: i32) -> Self {
        match errno {
            libc::ENOENT => Self::NotFound,
            libc::EEXIST => Self::Exists,
            libc::EACCES => Self::Denied,
            libc::EPERM => Self::NotPermitted,
            // Over quota is full: programs know ENOSPC, few know EDQUOT.
            libc::ENOSPC | libc::EDQUOT => Self::NoSpace,
            libc::ETIMEDOUT => Self::TimedOut,
            libc::EOPNOTSUPP | libc::ENOSYS => Self::Unsupported,
            libc::ENOTEMPTY => Self::NotEmpty,
            libc::ENOTDIR => Self::NotDirectory,
            libc::EISDIR => Self::IsDirectory,
            libc::ENAMETOOLONG => Self::NameTooLong,
            libc::EINVAL => Self::Invalid,
            libc::EBUSY => Self::Busy,
            libc::EROFS => Self::ReadOnly,
            libc::ELOOP => Self::Loop,
            libc::EXDEV => Self::Outside,
            libc::ENODATA => Self::NoAttribute,
            libc::EINTR => Self::Interrupted,
            other => Self::Os(other),
        }
    }
}

/// An error with its context and, where there is one, its cause.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    context: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    retry_after: Option<Duration>,
}

/// What nearly everything here returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`; `context` says what was tried, for the log.
    pub fn new(kind: Kind, context: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, context: context.into(), source: None, retry_after: None }
    }

    /// The same with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts what was tried in front of what is said so far.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.context = format!("{what}: {}", self.context).into();
        self
    }

    /// The tier asked to be left alone for this long (`Retry-After`).
    #[must_use]
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// How long the tier asked to be left alone, if it did.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The errno a program sees.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.kind.errno()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        match kind {
            // The answer to every new name: it costs no text.
            Kind::NotFound => Self::new(kind, ABSENCE),
            _ => Self::new(kind, io::Error::from_raw_os_error(kind.errno()).to_string()),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map_or(Kind::Os(libc::EIO), Kind::from_errno) {
            Kind::NotFound => Kind::NotFound.into(),
            kind => Self::new(kind, error.to_string()),
        }
    }
}

/// What the system says for ENOENT.
const ABSENCE: &str = "No such file or directory (os error 2)";

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}

impl From<crate::types::KeyError> for Error {
    fn from(error: crate::types::KeyError) -> Self {
        let kind = match error {
            crate::types::KeyError::Invalid => Kind::Invalid,
            crate::types::KeyError::TooLong => Kind::NameTooLong,
        };
        Self::new(kind, error.to_string())
    }
}

/// The answer, or `None` where there is no such thing (any more).
///
/// # Errors
/// Any but [`Kind::NotFound`].
pub fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_of_the_system_come_back_as_they_were() {
        for errno in (1..134).filter(|e| ![libc::EDQUOT, libc::ENOSYS].contains(e)) {
            let error = Error::from(io::Error::from_raw_os_error(errno));
            assert_eq!(error.errno(), errno, "{error}");
        }
    }

    #[test]
    fn over_quota_is_full() {
        assert_eq!(Error::from(io::Error::from_raw_os_error(libc::EDQUOT)).errno(), libc::ENOSPC);
    }

    #[test]
    fn nothing_transient_is_an_absence() {
        for kind in [Kind::Unavailable, Kind::TimedOut, Kind::Absent, Kind::Archived, Kind::Denied] {
            assert_ne!(kind.errno(), libc::ENOENT);
        }
    }
}
