//! The answer of Get Block List: as little trusted as every answer.

use super::failure::{Failure, Outcome};
use crate::error::Kind;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct BlockList {
    committed_blocks: Blocks,
    uncommitted_blocks: Blocks,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Blocks {
    block: Vec<Block>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Block {
    name: String,
    size: String,
}

/// Ids and sizes of the uncommitted blocks; one whose size is no number is as good as not there.
///
/// # Errors
/// [`Kind::Corrupt`] if it is no block list.
pub(super) fn uncommitted(body: &[u8]) -> Outcome<Vec<(String, u64)>> {
    let blocks = parse(body)?.uncommitted_blocks.block.into_iter();
    Ok(blocks.filter_map(|block| Some((block.name, block.size.trim().parse().ok()?))).collect())
}

/// Ids and sizes of the committed blocks, which make up the blob in this order.
///
/// # Errors
/// [`Kind::Corrupt`] if it is no block list, or one of them has no size.
pub(super) fn committed(body: &[u8]) -> Outcome<Vec<(String, u64)>> {
    let blocks = parse(body)?.committed_blocks.block.into_iter();
    let sized = |block: Block| Some((block.name, block.size.trim().parse().ok()?));
    blocks
        .map(sized)
        .collect::<Option<_>>()
        .ok_or_else(|| Failure::new(Kind::Corrupt, "a committed block has no size"))
}

fn parse(body: &[u8]) -> Outcome<BlockList> {
    let corrupt = |text| Failure::new(Kind::Corrupt, text);
    let text = std::str::from_utf8(body)
        .map_err(|error| corrupt("the block list is not UTF-8").with_source(error))?;
    quick_xml::de::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| corrupt("the block list is not XML").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(blocks: &str) -> String {
        format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><CommittedBlocks><Block><Name>YQ==</Name>\
             <Size>1</Size></Block></CommittedBlocks><UncommittedBlocks>{blocks}</UncommittedBlocks></BlockList>"
        )
    }

    #[test]
    fn blocks_that_make_no_sense_are_not_there() {
        let blocks = "<Block><Name>Yg==</Name><Size>8388608</Size><New/></Block><Block><Name>Yw==</Name><Size>-1</Size></Block>\
                      <Block><Name>ZA==</Name></Block><Block><Size>5</Size><Name>ZQ==</Name></Block>";
        let expected = [("Yg==".to_owned(), 8 << 20), ("ZQ==".to_owned(), 5)];
        assert_eq!(uncommitted(list(blocks).as_bytes()).unwrap(), expected);
        assert_eq!(uncommitted(list("").as_bytes()).unwrap(), []);
        assert_eq!(uncommitted(b"<BlockList />").unwrap(), []);
        assert_eq!(uncommitted(b"<BlockList><UncommittedBlocks /></BlockList>").unwrap(), []);
    }

    #[test]
    fn committed_blocks_are_all_there_or_none() {
        assert_eq!(committed(list("").as_bytes()).unwrap(), [("YQ==".to_owned(), 1)]);
        assert_eq!(committed(b"<BlockList />").unwrap(), []);
        let odd = list("").replace("<Size>1", "<Size>one");
        assert_eq!(committed(odd.as_bytes()).unwrap_err().kind, Kind::Corrupt);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for body in [&b""[..], b"\xff", b"<BlockList>", b"<BlockList><UncommittedBlocks></BlockList>"] {
            assert_eq!(uncommitted(body).unwrap_err().kind, Kind::Corrupt, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(body in prop::collection::vec(any::<u8>(), 0..512), cut in 0usize..300) {
            let _ = (uncommitted(&body), committed(&body));
            let whole = list("<Block><Name>Yg==</Name><Size>7</Size></Block>");
            let _ = uncommitted(&whole.as_bytes()[..cut.min(whole.len())]);
        }
    }
}
