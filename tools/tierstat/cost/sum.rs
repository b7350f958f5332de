//! Adding up: bytes by tier and directory, then dollars. Pure.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tierfs::control::protocol::{Row, WirePath};
use tierfs::control::status::{Status, TierStatus};

/// What Lustre costs where the mount has none.
const LUSTRE_USD: f64 = 0.145;

/// Directories that are kept apart; files of further ones are summed up under `…`.
const APART_MAX: usize = 100_000;

/// What a GiB costs on each tier.
pub struct Prices {
    tiers: Vec<(String, String, f64)>,
    lustre: f64,
}

/// A month of storage.
#[derive(Debug, PartialEq, Serialize)]
pub struct Bill {
    /// By tier, in the order of the config.
    pub tiers: Vec<TierCost>,
    /// All of it.
    pub usd_per_month: f64,
    /// Bytes of all files, each counted once however many copies there are.
    pub bytes: u64,
    /// What Lustre costs.
    pub lustre_usd_per_gib_month: f64,
    /// What the files would cost if each were on Lustre once.
    pub all_on_lustre_usd_per_month: f64,
    /// By directory, the dearest first.
    pub directories: Vec<DirectoryCost>,
    /// Directories that are not listed.
    pub directories_left: u64,
}

/// What one tier costs.
#[derive(Debug, PartialEq, Serialize)]
pub struct TierCost {
    /// Its name.
    pub tier: String,
    /// What it is.
    pub kind: String,
    /// Its price.
    pub usd_per_gib_month: f64,
    /// Bytes stored there, hot and staged copies among them.
    pub bytes: u64,
    /// Their cost.
    pub usd_per_month: f64,
}

/// What one directory costs.
#[derive(Debug, PartialEq, Serialize)]
pub struct DirectoryCost {
    /// Relative to the mount's root; the files right in the directory that was asked for are under its own path.
    pub path: WirePath,
    /// Files below it.
    pub files: u64,
    /// Their bytes, each file counted once.
    pub bytes: u64,
    /// Their bytes with all copies.
    pub stored_bytes: u64,
    /// What those cost.
    pub usd_per_month: f64,
    /// What the files would cost if each were on Lustre once.
    pub all_on_lustre_usd_per_month: f64,
}

impl Prices {
    /// As the config of the mount says.
    pub fn of(status: &Status) -> Self {
        let tiers = status.tiers.iter().map(|tier| (tier.name.clone(), tier.kind.clone(), usd(tier)));
        let lustre = status.tiers.iter().find(|tier| tier.kind == "lustre").map_or(LUSTRE_USD, usd);
        Self { tiers: tiers.collect(), lustre }
    }

    fn bill(&self, bytes_on: impl Fn(&str) -> u64, bytes: u64) -> Bill {
        let cost = |(tier, kind, price): &(String, String, f64)| {
            let bytes = bytes_on(tier);
            TierCost {
                tier: tier.clone(),
                kind: kind.clone(),
                usd_per_gib_month: *price,
                bytes,
                usd_per_month: month(bytes, *price),
            }
        };
        let tiers: Vec<TierCost> = self.tiers.iter().map(cost).collect();
        Bill {
            usd_per_month: tiers.iter().map(|tier| tier.usd_per_month).sum(),
            tiers,
            bytes,
            lustre_usd_per_gib_month: self.lustre,
            all_on_lustre_usd_per_month: month(bytes, self.lustre),
            directories: Vec::new(),
            directories_left: 0,
        }
    }

    fn of_tier(&self, name: &str) -> f64 {
        self.tiers.iter().find(|(tier, _, _)| tier == name).map_or(0.0, |(_, _, price)| *price)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a price for people")]
fn usd(tier: &TierStatus) -> f64 {
    tier.price_micros as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a price for people")]
fn month(bytes: u64, usd_per_gib: f64) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64 * usd_per_gib
}

impl Bill {
    /// Out of what the catalog knows.
    pub fn of_status(status: &Status, prices: &Prices) -> Self {
        let on = |tier: &TierStatus| tier.bytes + tier.hot_bytes + tier.staged_bytes;
        let bytes = status.tiers.iter().map(|tier| tier.bytes + tier.staged_bytes).sum();
        prices.bill(|name| status.tiers.iter().find(|tier| tier.name == name).map_or(0, on), bytes)
    }
}

/// The files of a directory, by what is right below it.
pub struct Sums {
    top: WirePath,
    apart: HashMap<Vec<u8>, Sum>,
}

#[derive(Default)]
struct Sum {
    files: u64,
    bytes: u64,
    by_tier: BTreeMap<String, u64>,
}

impl Sums {
    /// Nothing yet below `top`.
    pub fn new(top: WirePath) -> Self {
        Self { top, apart: HashMap::new() }
    }

    /// A file.
    pub fn add(&mut self, row: &Row) {
        let part = self.part(&row.path.0);
        let is_known = self.apart.len() < APART_MAX || self.apart.contains_key(&part);
        let sum = self.apart.entry(if is_known { part } else { "…".into() }).or_default();
        sum.files += 1;
        sum.bytes += row.size;
        for held in &row.held {
            match sum.by_tier.get_mut(&held.tier) {
                Some(bytes) => *bytes += row.size,
                None => drop(sum.by_tier.insert(held.tier.clone(), row.size)),
            }
        }
    }

    /// The directory right below the top that `path` is in, or the top itself.
    fn part(&self, path: &[u8]) -> Vec<u8> {
        let top = &self.top.0;
        let inside = path.strip_prefix(top.as_slice()).unwrap_or(path);
        let below = inside.strip_prefix(b"/").unwrap_or(inside);
        match below.iter().position(|byte| *byte == b'/') {
            Some(end) => path[..path.len() - below.len() + end].to_vec(),
            None => top.clone(),
        }
    }

    /// In dollars, with the `most` dearest directories.
    pub fn bill(self, prices: &Prices, most: usize) -> Bill {
        let mut by_tier: HashMap<&str, u64> = HashMap::new();
        for (tier, bytes) in self.apart.values().flat_map(|sum| &sum.by_tier) {
            *by_tier.entry(tier).or_default() += bytes;
        }
        let bytes = self.apart.values().map(|sum| sum.bytes).sum();
        let mut bill = prices.bill(|name| by_tier.get(name).copied().unwrap_or(0), bytes);
        let cost = |(path, sum): (&Vec<u8>, &Sum)| DirectoryCost {
            path: WirePath(path.clone()),
            files: sum.files,
            bytes: sum.bytes,
            stored_bytes: sum.by_tier.values().sum(),
            usd_per_month: sum.by_tier.iter().map(|(tier, bytes)| month(*bytes, prices.of_tier(tier))).sum(),
            all_on_lustre_usd_per_month: month(sum.bytes, prices.lustre),
        };
        bill.directories = self.apart.iter().map(cost).collect();
        bill.directories
            .sort_by(|a, b| b.usd_per_month.total_cmp(&a.usd_per_month).then_with(|| a.path.cmp(&b.path)));
        bill.directories_left = bill.directories.len().saturating_sub(most) as u64;
        bill.directories.truncate(most);
        bill
    }
}
