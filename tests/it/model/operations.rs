//! What can happen, over few names and small bytes.

use super::calls::Trouble;
use proptest::prelude::*;
use std::fmt;
use tierfs::tier::RenameMode;

/// `s` is at home on scratch, `h` on the share, `k` on Blob with hot copies on scratch.
pub const TOPS: [&str; 3] = ["s", "h", "k"];
pub const PATHS: [&str; 18] = [
    "s/a", "s/b", "s/a/a", "s/a/b", "s/b/a", "s/b/b", "h/a", "h/b", "h/a/a", "h/a/b", "h/b/a", "h/b/b",
    "k/a", "k/b", "k/a/a", "k/a/b", "k/b/a", "k/b/b",
];

pub type Path = &'static str;
/// One of few open files.
pub type Slot = u8;
pub const SLOTS: Slot = 3;

#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Create(Path, u8),
    CreateOpen(Slot, Path),
    /// To read and write.
    Open(Slot, Path),
    /// Emptied as it is opened.
    OpenEmpty(Slot, Path),
    OpenToRead(Slot, Path),
    Write(Slot, u8, u8),
    Cut(Slot, u8),
    Read(Slot),
    Close(Slot),
    Fsync(Slot),
    Truncate(Path, u8),
    Unlink(Path),
    Mkdir(Path),
    Rmdir(Path),
    Rename(Path, Path, RenameMode),
    Link(Path, Path),
    Chmod(Path, u32),
    Utimes(Path, i64),
    /// Somebody else makes or overwrites a file.
    OutsidePut(Path, u8),
    OutsideDelete(Path),
    /// Somebody else makes a directory with a file and a directory in it.
    OutsideTree(Path),
    /// Some seconds pass.
    Wait,
    /// The mover works until a call of this number meets trouble.
    Mover(u8, Trouble),
    /// The mover comes some way, and stops between any two of its calls.
    Nudge(u8),
    /// Nobody uses anything for long: what may go to the cold tier does, until a call of this number meets trouble.
    Cool(u8, Trouble),
    /// The share is full from now on.
    Fill,
    /// It has room again, and what went elsewhere comes home, until a call of this number meets trouble.
    Room(u8, Trouble),
    /// Everything is at home afterwards.
    Flush,
    DropHot,
    /// The daemon is killed and starts again.
    Crash,
    LoseCatalog,
    /// All that was written becomes durable by itself.
    WriteBack,
    /// The machine loses its power, and starts again; the number decides what the kernel had written back.
    LosePower(u8),
}

/// Whether the tree is looked at after an operation: looking lists every directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Look,
    Go,
}

pub type Scene = (Operation, After);

#[derive(Clone)]
pub struct Story(pub Vec<Scene>);

impl fmt::Debug for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(operation, after)| writeln!(f, "        ({operation:?}, {after:?}),"))
    }
}

fn path() -> impl Strategy<Value = Path> + Clone {
    (0..PATHS.len()).prop_map(|at| PATHS[at])
}

fn trouble() -> impl Strategy<Value = Trouble> + Clone {
    prop_oneof![
        Just(Trouble::Fails),
        Just(Trouble::LosesItsReply),
        Just(Trouble::IsSent),
        Just(Trouble::IsAnswered)
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let mode = prop_oneof![
        4 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange)
    ];
    let trouble = trouble();
    let (slot, byte) = (0..SLOTS, 0_u8..12);
    let names = prop_oneof![
        4 => (path(), byte.clone()).prop_map(|(path, seed)| Create(path, seed)),
        2 => path().prop_map(Unlink),
        2 => path().prop_map(Mkdir),
        1 => path().prop_map(Rmdir),
        8 => (path(), path(), mode).prop_map(|(from, to, mode)| Rename(from, to, mode)),
        2 => (path(), path()).prop_map(|(path, new)| Link(path, new)),
    ];
    let bytes = prop_oneof![
        1 => (slot.clone(), path()).prop_map(|(slot, path)| CreateOpen(slot, path)),
        3 => (slot.clone(), path()).prop_map(|(slot, path)| Open(slot, path)),
        1 => (slot.clone(), path()).prop_map(|(slot, path)| OpenEmpty(slot, path)),
        1 => (slot.clone(), path()).prop_map(|(slot, path)| OpenToRead(slot, path)),
        4 => (slot.clone(), byte.clone(), any::<u8>()).prop_map(|(slot, at, byte)| Write(slot, at, byte)),
        1 => (slot.clone(), byte.clone()).prop_map(|(slot, size)| Cut(slot, size)),
        1 => slot.clone().prop_map(Read),
        3 => slot.clone().prop_map(Close),
        2 => slot.prop_map(Fsync),
        1 => (path(), byte.clone()).prop_map(|(path, size)| Truncate(path, size)),
    ];
    let attributes = prop_oneof![
        (path(), prop_oneof![Just(0o600), Just(0o640), Just(0o755)])
            .prop_map(|(path, mode)| Chmod(path, mode)),
        (path(), 1_i64..1_000_000).prop_map(|(path, time)| Utimes(path, time)),
    ];
    let outside = prop_oneof![
        2 => (path(), byte).prop_map(|(path, seed)| OutsidePut(path, seed)),
        1 => path().prop_map(OutsideDelete),
        1 => path().prop_map(OutsideTree),
    ];
    let behind = prop_oneof![
        1 => Just(Wait),
        4 => (0_u8..8, trouble).prop_map(|(pass, trouble)| Mover(pass, trouble)),
        2 => any::<u8>().prop_map(Nudge),
        2 => Just(Flush),
        1 => Just(DropHot),
        2 => Just(Crash),
        1 => Just(LoseCatalog),
        1 => Just(WriteBack),
        2 => any::<u8>().prop_map(LosePower),
    ];
    prop_oneof![8 => names, 5 => bytes, 2 => attributes, 2 => outside, 4 => behind]
}

pub fn story(longest: usize) -> impl Strategy<Value = Story> {
    let after = prop_oneof![Just(After::Go), Just(After::Look)];
    prop::collection::vec((operation(), after), 1..=longest).prop_map(Story)
}

/// In it files that nobody uses go where they cost less, and come back.
pub fn story_with_unused_files(longest: usize) -> impl Strategy<Value = Story> {
    let after = prop_oneof![Just(After::Go), Just(After::Look)];
    let cools = prop_oneof![
        1 => Just(Operation::Cool(u8::MAX, Trouble::Fails)),
        2 => (0_u8..12, trouble()).prop_map(|(pass, trouble)| Operation::Cool(pass, trouble)),
    ];
    let any = prop_oneof![5 => by_itself(), 1 => cools];
    prop::collection::vec((any, after), 1..=longest).prop_map(Story)
}

/// In it the share is full now and then, so that new files go elsewhere, and come home.
pub fn story_with_full_home(longest: usize) -> impl Strategy<Value = Story> {
    let after = prop_oneof![Just(After::Go), Just(After::Look)];
    let changes = prop_oneof![
        3 => Just(Operation::Fill),
        1 => Just(Operation::Room(u8::MAX, Trouble::Fails)),
        2 => (0_u8..12, trouble()).prop_map(|(pass, trouble)| Operation::Room(pass, trouble)),
    ];
    let any = prop_oneof![5 => by_itself(), 1 => changes];
    prop::collection::vec((any, after), 1..=longest).prop_map(Story)
}

/// What a power loss leaves, and what others put into directories that nobody has listed, are other stories.
fn by_itself() -> impl Strategy<Value = Operation> {
    operation().prop_map(|operation| match operation {
        Operation::LosePower(_) => Operation::Crash,
        Operation::OutsideTree(_) | Operation::OutsidePut(..) => Operation::Wait,
        other => other,
    })
}

/// Power is lost in the middle of it.
pub fn story_of_power_loss(longest: usize) -> impl Strategy<Value = Story> {
    let loss = any::<u8>().prop_map(|chance| (Operation::LosePower(chance), After::Look));
    (story(longest), loss, story(longest / 2)).prop_map(|(Story(mut scenes), loss, Story(after))| {
        scenes.push(loss);
        scenes.extend(after);
        Story(scenes)
    })
}
