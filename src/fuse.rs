//! The kernel's side: decode a request, make one vfs call, reply. The only folder that names fuser's
//! types; knows nothing below `vfs`.

mod convert;
mod dispatch;
mod filesystem;
mod interrupt;
mod notifier;
mod session;

pub use notifier::Notifications;
pub use session::{Mounted, SessionOptions};
