//! Where a key is on a file system that can't hold every name: which spelling each of its components has there.
//! Must not know what the files mean.
//!
//! Where case folds, a look by name finds whatever differs from it in case only. So what is found counts only if its
//! directory lists it with this very spelling; that is remembered, for a listing costs more than a look.

use super::names::{Case, Names};
use crate::types::Key;
use lru::LruCache;
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard, RwLock};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Keys whose spelling is remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(1 << 16).unwrap();

/// The names of a tier's file system once they were tried, and what was found out since.
#[derive(Debug)]
pub(super) struct Spelling {
    /// `None` where every name is its own spelling.
    names: RwLock<Option<Arc<Names>>>,
    known: Mutex<LruCache<Key, Key>>,
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

    pub(super) fn known(&self, key: &Key) -> Option<Key> {
        self.known.lock().get(key).cloned()
    }

    pub(super) fn remember(&self, key: Key, spelled: Key) {
        self.known.lock().push(key, spelled);
    }

    /// Forgets `key` alone: what was there had nothing below it.
    pub(super) fn forget(&self, key: &Key) {
        self.known.lock().pop(key);
    }

    /// Forgets `key` and all below it.
    pub(super) fn forget_below(&self, key: &Key) {
        let mut known = self.known.lock();
        let below: Vec<Key> =
            known.iter().map(|(known, _)| known).filter(|known| known.is_under(key)).cloned().collect();
        for key in below {
            known.pop(&key);
        }
    }

    /// Forgets everything: another directory is there.
    pub(super) fn forget_all(&self) {
        self.known.lock().clear();
    }
}
