//! One call to a tier among many, that fails, loses its reply, or does not return until it is let go.

use async_trait::async_trait;
use parking_lot::Mutex;
use std::sync::Arc;
use tierfs::error::{Error, Kind, Result};
use tierfs::tier::{Attempt, Call, Layer, Turn};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// It fails, and nothing was done.
    Fails,
    /// It is done, and its reply is lost.
    LosesItsReply,
    /// It has not reached the tier yet.
    IsSent,
    /// It was done, and the caller does not know yet.
    IsAnswered,
}

/// Which call meets what, and the calls that are held.
#[derive(Clone, Debug)]
pub struct Calls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    armed: Mutex<Option<(u8, Trouble)>>,
    held: watch::Sender<bool>,
}

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Shared { armed: Mutex::default(), held: watch::Sender::new(false) }))
    }
}

impl Calls {
    /// After `pass` calls the next one meets `trouble`.
    pub fn arm(&self, pass: u8, trouble: Trouble) {
        *self.0.armed.lock() = Some((pass, trouble));
    }

    /// Nothing happens any more, and what was held goes on.
    pub fn let_go(&self) {
        self.disarm();
        self.0.held.send_replace(false);
    }

    pub fn disarm(&self) {
        *self.0.armed.lock() = None;
    }

    /// Waits until a call is held.
    pub async fn held(&self) {
        let _ = self.0.held.subscribe().wait_for(|held| *held).await;
    }

    fn next(&self) -> Option<Trouble> {
        let mut armed = self.0.armed.lock();
        match armed.as_mut()? {
            (0, _) => armed.take().map(|(_, trouble)| trouble),
            (pass, _) => {
                *pass -= 1;
                None
            }
        }
    }

    async fn hold(&self) {
        self.0.held.send_replace(true);
        let _ = self.0.held.subscribe().wait_for(|held| !*held).await;
    }
}

fn failure() -> Error {
    Error::new(Kind::Unavailable, "a fault made on purpose")
}

#[async_trait]
impl Layer for Calls {
    async fn around<'a, T: Send>(&self, _call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        match self.next() {
            None => attempt(Turn::First).await,
            Some(Trouble::Fails) => Err(failure()),
            Some(Trouble::LosesItsReply) => attempt(Turn::First).await.and_then(|_| Err(failure())),
            Some(Trouble::IsSent) => {
                self.hold().await;
                attempt(Turn::First).await
            }
            Some(Trouble::IsAnswered) => {
                let answer = attempt(Turn::First).await;
                self.hold().await;
                answer
            }
        }
    }
}
