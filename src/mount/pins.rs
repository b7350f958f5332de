//! `tierfs pin`: rows in the catalog, and what they stand for kept near in the background.

use super::daemon::Live;
use super::warm::Warm;
use crate::control::protocol::{Phase, PinPage, PinRow, Pinned, Progress, WirePath};
use crate::error::{Error, Kind, Result};
use crate::types::{Ino, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Rows of a page.
const PAGE: usize = 1000;

/// How often it is looked whether all that is pinned is near: new files come, and others change at their home.
const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

/// Pins that are kept warm; those beyond only keep what is hot already.
const MOST: usize = 100_000;

impl Live {
    pub(super) async fn pin_inodes(&self, inodes: Vec<Ino>, until: Option<Timestamp>) -> Result<Pinned> {
        let now = self.assembled.clock.wall();
        if until.is_some_and(|until| until <= now) {
            return Err(Error::new(Kind::Invalid, "that time is over already"));
        }
        let pins = inodes.len() as u64;
        let catalog = self.assembled.catalog.clone();
        self.apart(move |_, _| catalog.pin(&inodes, until)).await?;
        self.pinned.notify_one();
        self.assembled.mover.wake();
        Ok(Pinned { pins, still: Vec::new() })
    }

    pub(super) async fn unpin_inodes(&self, inodes: Vec<Ino>) -> Result<Pinned> {
        let (catalog, now) = (self.assembled.catalog.clone(), self.assembled.clock.wall());
        self.apart(move |_, _| {
            let path = |ino| -> Result<WirePath> {
                Ok(WirePath(catalog.path(ino)?.unwrap_or_default().as_bytes().to_vec()))
            };
            let pins = catalog.unpin(&inodes)?;
            let mut still = Vec::new();
            for ino in inodes {
                if let Some(pin) = catalog.pin_of(ino, now)? {
                    still.push((path(ino)?, path(pin.ino)?));
                }
            }
            Ok(Pinned { pins, still })
        })
        .await
    }

    pub(super) fn pin_page(&self, after: u64) -> Result<PinPage> {
        let catalog = &self.assembled.catalog;
        let pins = catalog.pins(self.assembled.clock.wall(), Ino(after), PAGE)?;
        let next = pins.last().filter(|_| pins.len() == PAGE).map(|last| last.ino.0);
        let mut rows = Vec::with_capacity(pins.len());
        for pin in pins {
            if let Some(path) = catalog.path(pin.ino)? {
                let path = WirePath(path.as_bytes().to_vec());
                rows.push(PinRow { path, until_ns: pin.until.map(|until| until.0) });
            }
        }
        Ok(PinPage { rows, next })
    }

    /// Fetches what is pinned and not near: at the start, at each new pin, and now and then.
    pub(super) async fn keep_pins_warm(self: Arc<Self>) {
        let (progress, _) = watch::channel(Progress::default());
        while *self.phase.lock() != Phase::Draining {
            match self.assembled.catalog.pins(self.assembled.clock.wall(), Ino(0), MOST) {
                Ok(pins) if pins.is_empty() => {}
                Ok(pins) => {
                    let inodes = pins.into_iter().map(|pin| pin.ino).collect();
                    let warmed = Warm::new(&self, &progress).run(inodes, None).await;
                    if let Some(reason) = warmed.reason {
                        tracing::warn!(files = warmed.failed_files, reason, "pinned files are not all near");
                    }
                }
                Err(error) => tracing::warn!(%error, "what is pinned is not known now"),
            }
            // Who is not in time for the next look finds the one after it.
            let _ = tokio::time::timeout(LOOK_EVERY, self.pinned.notified()).await;
        }
    }
}
