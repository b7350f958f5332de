//! The answer of Get Block List: as little trusted as every answer.

use super::failure::{Failure, Outcome};
use crate::error::Kind;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct BlockList {
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
pub(super) fn parse(body: &[u8]) -> Outcome<Vec<(String, u64)>> {
    let corrupt = |text| Failure::new(Kind::Corrupt, text);
    let text = std::str::from_utf8(body)
        .map_err(|error| corrupt("the block list is not UTF-8").with_source(error))?;
    let list: BlockList = quick_xml::de::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| corrupt("the block list is not XML").with_source(error))?;
    let blocks = list.uncommitted_blocks.block.into_iter();
    Ok(blocks.filter_map(|block| Some((block.name, block.size.trim().parse().ok()?))).collect())
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
        assert_eq!(parse(list(blocks).as_bytes()).unwrap(), expected);
        assert_eq!(parse(list("").as_bytes()).unwrap(), []);
        assert_eq!(parse(b"<BlockList />").unwrap(), []);
        assert_eq!(parse(b"<BlockList><UncommittedBlocks /></BlockList>").unwrap(), []);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for body in [&b""[..], b"\xff", b"<BlockList>", b"<BlockList><UncommittedBlocks></BlockList>"] {
            assert_eq!(parse(body).unwrap_err().kind, Kind::Corrupt, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(body in prop::collection::vec(any::<u8>(), 0..512), cut in 0usize..300) {
            let _ = parse(&body);
            let whole = list("<Block><Name>Yg==</Name><Size>7</Size></Block>");
            let _ = parse(&whole.as_bytes()[..cut.min(whole.len())]);
        }
    }
}
