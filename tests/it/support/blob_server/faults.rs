//! Faults on request: which requests, and what happens to them.

use super::log::Operation;
use super::request::Call;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Which requests: all that fit every given part.
#[derive(Clone, Debug, Default)]
pub struct When {
    operations: Vec<Operation>,
    name_part: String,
    skipped: u64,
    times: Option<u64>,
    percent: Option<u64>,
}

impl When {
    /// Any request for blobs or containers.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only these operations.
    pub fn operation(operations: &[Operation]) -> Self {
        Self { operations: operations.to_vec(), ..Self::default() }
    }

    /// Only names with this in them.
    pub fn name(mut self, part: &str) -> Self {
        part.clone_into(&mut self.name_part);
        self
    }

    /// Not the first `count` that fit.
    pub fn after(mut self, count: u64) -> Self {
        self.skipped = count;
        self
    }

    /// At most so often.
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Only about this share of those that fit, the same ones in every run.
    pub fn percent(mut self, percent: u64) -> Self {
        self.percent = Some(percent);
        self
    }

    fn fits(&self, call: &Call) -> bool {
        let operation = match self.operations.as_slice() {
            [] => call.operation != Operation::Token,
            wanted => wanted.contains(&call.operation),
        };
        operation && call.name.contains(&self.name_part)
    }

    /// Whether the request that fits as number `number` is meant.
    fn takes(&self, number: u64) -> bool {
        let Some(number) = number.checked_sub(self.skipped) else { return false };
        let chosen = |percent| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % 100 < percent;
        self.times.is_none_or(|times| number < times) && self.percent.is_none_or(chosen)
    }
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The answer comes later.
    Latency(Duration),
    /// Bodies flow at so many bytes a second, all of them together.
    Bandwidth(Arc<Line>),
    /// Nothing is done, and this is the answer.
    Refuse {
        status: u16,
        code: &'static str,
        /// Seconds.
        retry_after: Option<u64>,
    },
    /// The body breaks off after so many bytes.
    CutAfter(u64),
    /// Nothing is done, and the connection breaks.
    Drop,
    /// It is done, and the connection breaks before the answer.
    ApplyThenDrop,
}

/// What puts bytes on Blob.
pub const WRITES: [Operation; 3] = [Operation::PutBlob, Operation::PutBlock, Operation::PutBlockList];

impl Effect {
    /// 400: nothing that passes by itself.
    pub const REFUSED: Self = Self::Refuse { status: 400, code: "InvalidMetadata", retry_after: None };
    /// 403: passes with other credentials.
    pub const DENIED: Self = Self::Refuse { status: 403, code: "AuthorizationFailure", retry_after: None };

    /// 503 ServerBusy.
    pub fn busy(retry_after: u64) -> Self {
        Self::Refuse { status: 503, code: "ServerBusy", retry_after: Some(retry_after) }
    }

    /// A line of so many bytes a second.
    pub fn bandwidth(rate: u64) -> Self {
        Self::Bandwidth(Arc::new(Line { rate, free_at: Mutex::new(None) }))
    }
}

/// A line with a limited rate, shared by all who use it.
#[derive(Debug)]
pub struct Line {
    rate: u64,
    free_at: Mutex<Option<tokio::time::Instant>>,
}

impl Line {
    /// Returns when `bytes` more have passed.
    pub async fn pass(&self, bytes: usize) {
        let until = {
            let mut free_at = self.free_at.lock();
            let now = tokio::time::Instant::now();
            let start = free_at.map_or(now, |at| at.max(now));
            let until = start + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            *free_at = Some(until);
            until
        };
        tokio::time::sleep_until(until).await;
    }
}

#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Arc<Fault>>>);

#[derive(Debug)]
struct Fault {
    when: When,
    effect: Effect,
    seen: AtomicU64,
}

impl Faults {
    pub fn add(&self, when: When, effect: Effect) {
        self.0.lock().push(Arc::new(Fault { when, effect, seen: AtomicU64::new(0) }));
    }

    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// What happens to `call`: latency and bandwidth of all faults that fit, and the first other effect.
    pub fn of(&self, call: &Call) -> Vec<Effect> {
        let mut effects: Vec<Effect> = Vec::new();
        for fault in self.0.lock().iter().filter(|fault| fault.when.fits(call)) {
            if fault.when.takes(fault.seen.fetch_add(1, Relaxed)) {
                effects.push(fault.effect.clone());
            }
        }
        effects
    }
}
