//! Where a key is on a file system that can't hold every name: which spelling each of its components has there.
//! Must not know what the files mean.
//!
//! Where case folds, a look by name finds whatever differs from it in case only. So what is found counts only if its
//! directory lists it with this very spelling; that is remembered, for a listing costs more than a look. At most one
//! spelling of a fold is there, so what is found later displaces what was known before.

use super::names::{Case, Names};
use crate::types::Key;
use lru::LruCache;
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard, RwLock};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Spellings that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1 << 16).unwrap();

/// The names of a tier's file system once they were tried, and what was found out since.
#[derive(Debug)]
pub(super) struct Spelling {
    /// `None` where every name is its own spelling.
    names: RwLock<Option<Arc<Names>>>,
    /// Spelled keys that are there, by their fold.
    known: Mutex<LruCache<Vec<u8>, Key>>,
    /// Held while a new name is spelled and made, so that no two choose the same spelling.
    making: ReentrantMutex<()>,
}

impl Default for Spelling {
    fn default() -> Self {
        Self {
            names: RwLock::default(),
            known: Mutex::new(LruCache::new(REMEMBERED)),
            making: ReentrantMutex::default(),
        }
    }
}

impl Spelling {
    /// From now on keys are spelled for `names`.
    pub(super) fn set(&self, names: Names) {
        *self.names.write() = (!names.are_free()).then(|| Arc::new(names));
        self.known.lock().clear();
    }

    /// The names, where not all are spelled as they are.
    pub(super) fn names(&self) -> Option<Arc<Names>> {
        self.names.read().clone()
    }

    /// The same where case folds.
    pub(super) fn folding(&self) -> Option<Arc<Names>> {
        self.names().filter(|names| names.case == Case::Folded)
    }

    /// For as long as a new name is spelled and made.
    pub(super) fn making(&self) -> Option<ReentrantMutexGuard<'_, ()>> {
        self.folding().map(|_| self.making.lock())
    }

    /// Whether `spelled` was found with just this spelling.
    pub(super) fn is_known(&self, spelled: &Key) -> bool {
        self.known.lock().get(&fold(spelled)) == Some(spelled)
    }

    pub(super) fn remember(&self, spelled: Key) {
        self.known.lock().push(fold(&spelled), spelled);
    }

    /// Forgets `spelled` alone: what was there had nothing below it.
    pub(super) fn forget(&self, spelled: &Key) {
        self.known.lock().pop(&fold(spelled));
    }

    /// Forgets `spelled` and all below it.
    pub(super) fn forget_below(&self, spelled: &Key) {
        let mut known = self.known.lock();
        let below = known.iter().filter(|(_, known)| known.is_under(spelled));
        let below: Vec<Vec<u8>> = below.map(|(fold, _)| fold.clone()).collect();
        for fold in below {
            known.pop(&fold);
        }
    }

    /// Forgets everything: another directory is there.
    pub(super) fn forget_all(&self) {
        self.known.lock().clear();
    }
}

/// Only tells what may be one: a server that folds otherwise is asked more often.
fn fold(key: &Key) -> Vec<u8> {
    match std::str::from_utf8(key.as_bytes()) {
        Ok(text) => text.to_uppercase().into_bytes(),
        Err(_) => key.as_bytes().to_ascii_uppercase(),
    }
}
