//! What the rest of the mount must hear when a tier turned out to be wiped.

use super::Vfs;
use crate::catalog::Observed;
use std::sync::atomic::Ordering;

impl Vfs {
    /// These names are gone with their bytes: the kernel forgets them, and what nobody has open goes for good.
    pub fn names_lost(&self, observed: &Observed) {
        self.tell(observed);
        for (_, _, ino) in &observed.entries {
            let node = self.nodes.get(*ino);
            node.unlinked.store(true, Ordering::Release);
            self.forget_closed(&node);
        }
    }

    /// Every tier is asked again, whatever it was believed to hold.
    pub fn look_again(&self) {
        self.nodes.for_each(|node| node.namespace.lock().places.clear());
    }
}
