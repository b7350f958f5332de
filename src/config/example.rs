//! Example configs, kept where packages find them too.

/// Which example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Example {
    /// Multi-node training with checkpoints.
    Train,
    /// Models on a share, read mostly.
    Serve,
    /// Data preparation around Blob.
    Prep,
}

impl Example {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Train, Self::Serve, Self::Prep];

    /// The file's name without its ending.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Serve => "serve",
            Self::Prep => "prep",
        }
    }

    /// The config.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Train => include_str!("../../packaging/examples/train.toml"),
            Self::Serve => include_str!("../../packaging/examples/serve.toml"),
            Self::Prep => include_str!("../../packaging/examples/prep.toml"),
        }
    }
}
