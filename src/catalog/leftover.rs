//! What lies under a key whose row says that nobody wants it: whether it is still that, or a change by others.

use super::Replica;
use crate::tier::Object;

impl Replica {
    /// Whether the key is to be deleted.
    pub fn is_doomed(&self) -> bool {
        self.ino.is_none() && (self.version.is_some() || self.write_id.is_some())
    }

    /// Whether `object` is the very native file that lost this key to another file or to a delete, and whose own writers may go on
    /// writing to it.
    pub fn is_written_leftover(&self, object: &Object) -> bool {
        self.generation.0 == 0
            && self.version.is_some()
            && self.native_ino != 0
            && object.native.is_some_and(|native| native.ino == self.native_ino)
    }

    /// Whether `object` may go with the key, because nobody else changed it.
    pub fn may_go(&self, object: &Object) -> bool {
        self.version.as_ref() == Some(&object.version) || self.is_written_leftover(object)
    }
}
