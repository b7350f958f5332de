//! That what is sent elsewhere, or begins there, really is elsewhere in these stories: else they would tell nothing.

use super::super::calls::Trouble;
use super::{Away, Operation, PARTIAL_FROM, Stage};

#[test]
fn what_nobody_uses_really_goes_and_what_is_used_comes_back() {
    let mut stage = Stage::new(Away::Unused, PARTIAL_FROM);
    stage.act(Operation::Cool(u8::MAX, Trouble::Fails));
    let is_cold = |stage: &Stage| {
        let (there, here) = (stage.world.blob_layout(), stage.world.directory_layout("share"));
        (there.contains_key("h/b"), here.contains_key("h/b"))
    };
    assert_eq!(is_cold(&stage), (true, false));
    stage.look("while it is cold");
    assert_eq!(is_cold(&stage), (true, false), "looking is no use");
    stage.act(Operation::OpenToRead(0, "h/b"));
    stage.act(Operation::Wait);
    assert_eq!(is_cold(&stage), (false, true));
    stage.act(Operation::Read(0));
}

#[test]
fn what_is_new_while_home_is_full_really_goes_elsewhere_and_comes_home() {
    let mut stage = Stage::new(Away::New, PARTIAL_FROM);
    let where_is = |stage: &Stage, path: &str| {
        let (there, here) = (stage.world.blob_layout(), stage.world.directory_layout("share"));
        (there.contains_key(path), here.contains_key(path))
    };
    stage.act(Operation::Fill);
    stage.act(Operation::Create("h/a/b", 7));
    stage.act(Operation::OpenEmpty(0, "h/b"));
    stage.act(Operation::Write(0, 2, 3));
    stage.flush();
    assert_eq!([where_is(&stage, "h/a/b"), where_is(&stage, "h/b")], [(true, false); 2]);
    assert_eq!(where_is(&stage, "h/a/a"), (false, true), "it was there before");
    stage.act(Operation::LoseCatalog);
    stage.look("without the catalog");
    assert_eq!(where_is(&stage, "h/a/b"), (true, false), "home is still full");
    stage.act(Operation::Room(u8::MAX, Trouble::Fails));
    stage.flush();
    assert_eq!([where_is(&stage, "h/a/b"), where_is(&stage, "h/b")], [(false, true); 2]);
    stage.look("at home again");
}
