//! The position of a name in its directory. Knows bytes only.
//!
//! Disk format: `dentry.hash` is this number, programs keep it as a directory offset over
//! remounts, so it never changes.

/// The first cookie; smaller ones are for `.`, `..` and the start.
const FIRST: u64 = 16;
const MASK: u64 = (1 << 62) - 1;

/// FNV-1a (64 bits) of the name, spread by the finaliser of splitmix64, cut to 62 bits, plus 16.
pub(super) fn cookie(name: &[u8]) -> i64 {
    let fnv = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    ((spread(fnv) & MASK) + FIRST).cast_signed()
}

fn spread(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_format_does_not_move() {
        let fixed = [(&b""[..], 0_i64), (b"a", 0), (b"model.safetensors", 0), (b"\xff\xfe", 0)];
        assert_eq!(fixed.map(|(name, _)| (name, cookie(name))), fixed);
    }

    #[test]
    fn cookies_are_positive_and_leave_room_for_the_dots() {
        for n in 0_u32..10_000 {
            assert!(cookie(&n.to_le_bytes()) >= 16);
        }
    }
}
