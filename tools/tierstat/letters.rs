//! One letter a tier: `sSb` says in three columns where the bytes of a file are.

use tierfs::control::protocol::{Held, Role};

/// The letters of the tiers of one mount, in the order of its config.
#[derive(Debug)]
pub struct Letters {
    tiers: Vec<(String, char)>,
}

impl Letters {
    /// For each the first letter of its name that is still free, or a digit.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut tiers: Vec<(String, char)> = Vec::new();
        for name in names {
            let taken = |letter: &char| tiers.iter().any(|(_, other)| other == letter);
            let letter = name
                .chars()
                .filter(char::is_ascii_alphabetic)
                .map(|c| c.to_ascii_lowercase())
                .chain('1'..='9')
                .find(|letter| !taken(letter))
                .unwrap_or('?');
            tiers.push((name.to_owned(), letter));
        }
        Self { tiers }
    }

    /// A column a tier: the capital for the home, the letter for any other copy, `-` for none.
    pub fn strip(&self, held: &[Held]) -> String {
        self.tiers
            .iter()
            .map(|(name, letter)| match held.iter().find(|held| held.tier == *name) {
                None => '-',
                Some(Held { role: Role::Home, .. }) => letter.to_ascii_uppercase(),
                Some(_) => *letter,
            })
            .collect()
    }

    /// How wide [`Letters::strip`] is.
    pub fn width(&self) -> usize {
        self.tiers.len()
    }

    /// What the letters mean, in one line.
    pub fn legend(&self) -> String {
        let tiers: Vec<String> = self.tiers.iter().map(|(name, letter)| format!("{letter} {name}")).collect();
        format!("{} · capital: home, small: copy", tiers.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(tier: &str, role: Role) -> Held {
        Held { tier: tier.into(), role }
    }

    #[test]
    fn letters_are_unlike() {
        let letters = Letters::of(["scratch", "share", "blob", "s", "sch"]);
        assert_eq!(letters.legend(), "s scratch, h share, b blob, 1 s, c sch · capital: home, small: copy");
    }

    #[test]
    fn home_is_a_capital() {
        let letters = Letters::of(["scratch", "share", "blob"]);
        assert_eq!(letters.strip(&[held("blob", Role::Home), held("scratch", Role::Hot)]), "s-B");
        assert_eq!(letters.strip(&[held("scratch", Role::Stage)]), "s--");
        assert_eq!(letters.strip(&[held("elsewhere", Role::Home)]), "---");
    }
}
