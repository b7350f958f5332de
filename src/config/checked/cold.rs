//! `cold` of a rule: where its files go when nobody uses them.

use super::tier;
use crate::config::section::{Located, Reader, quoted};
use crate::config::show::Origin;
use crate::config::units;
use std::time::Duration;

/// `cold` of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdConfig {
    /// To which tier files go.
    pub tier: String,
    /// How long nobody must have used them.
    pub idle: Duration,
    /// How long changes on that tier by other tools may stay unseen; `None`: for ever.
    pub revalidate: Option<Duration>,
}

/// What to write.
const EXAMPLE: &str = "cold = { tier = \"blob\", idle = \"30d\" }";

pub(super) fn read(
    reader: &mut Reader<'_>,
    tiers: &[tier::Draft],
    home: Option<&tier::Draft>,
    hot: &[String],
) -> Option<ColdConfig> {
    let Located { value: entries, line } = reader.table("cold")?;
    let (mut name, mut idle) = (None, None);
    let mut names = Vec::new();
    for (key, text) in &entries {
        match key.as_str() {
            "tier" => name = Some(text),
            "idle" => idle = Some(text),
            other => {
                let other = other.escape_debug();
                reader.problem(text.line, format!("cold has no `{other}`; it has `tier` and `idle`"));
            }
        }
        names.extend(text.names.clone());
    }
    let (Some(name), Some(idle)) = (name, idle) else {
        reader.problem(line, format!("cold needs both; write {EXAMPLE}"));
        return None;
    };
    let after = match units::duration(&idle.value) {
        Ok(after) if after.is_zero() => {
            let wrong = "cold: idle = 0 would send files away as they are closed; write how long nobody must have used them, as in \"30d\"";
            reader.problem(idle.line, wrong);
            None
        }
        Ok(after) => Some(after),
        Err(wrong) => {
            reader.problem(idle.line, format!("cold: idle = {} {wrong}", quoted(&idle.value)));
            None
        }
    };
    let said = |wrong: String| format!("cold: tier = {} {wrong}", quoted(&name.value));
    let tier = match tiers.iter().find(|tier| tier.name == name.value) {
        None => {
            reader.problem(name.line, said(tier::unknown(&name.value, tiers)));
            None
        }
        Some(_) if home.is_some_and(|home| home.name == name.value) => {
            let wrong = "is the home already, where files stay anyway; name another tier, or remove cold";
            reader.problem(name.line, said(wrong.to_owned()));
            None
        }
        Some(_) if hot.contains(&name.value) => {
            let wrong = "is in `hot` too, which is for files that are used; remove it from one of them";
            reader.problem(name.line, said(wrong.to_owned()));
            None
        }
        Some(tier) => Some(tier),
    };
    let (tier, after) = (tier?, after?);
    let shown = format!("{{ tier = {}, idle = {} }}", quoted(&tier.name), quoted(&idle.value));
    reader.note("cold", shown, Origin::Line { line, names });
    Some(ColdConfig { tier: tier.name.clone(), idle: after, revalidate: tier.revalidate.value })
}
