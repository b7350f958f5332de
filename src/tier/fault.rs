//! Faults on purpose, for tests: calls that fail before they begin, that are applied and then
//! reported failed, that are slow, that hang until they are released, streams that break off.

use crate::error::{Error, Kind, Result};
use crate::tier::ByteStream;
use crate::tier::layer::{Attempt, Call, Layer, Operation, Reopen, Turn};
use async_trait::async_trait;
use futures::StreamExt;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The call fails and nothing was done.
    FailBefore(Kind),
    /// The call is applied, and then reported failed.
    FailAfter(Kind),
    /// The call fails, and the tier asks to be left alone for so long.
    Throttle(Duration),
    /// The call takes so much longer.
    Delay(Duration),
    /// The call waits at the gate, then goes on.
    Hang(Gate),
    /// The stream of a read breaks off after so many bytes.
    Cut(u64, Kind),
}

/// Calls wait here until a test lets them go.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Doors>);

#[derive(Debug)]
struct Doors {
    waiting: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Doors { waiting: watch::Sender::new(0), open: watch::Sender::new(false) }))
    }
}

impl Gate {
    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Waits until `count` calls have come to the gate.
    pub async fn reached(&self, count: usize) {
        // The sender lives in self.
        let _ = self.0.waiting.subscribe().wait_for(|waiting| *waiting >= count).await;
    }

    async fn pass(&self) {
        self.0.waiting.send_modify(|waiting| *waiting += 1);
        let _ = self.0.open.subscribe().wait_for(|open| *open).await;
    }
}

#[derive(Debug)]
struct Rule {
    operation: Option<Operation>,
    /// Calls that pass before the fault strikes.
    skip: u64,
    /// How often it strikes.
    times: u64,
    fault: Fault,
}

#[derive(Debug)]
struct Chance {
    rng: StdRng,
    probability: f64,
    kind: Kind,
}

#[derive(Debug, Default)]
struct Plan {
    rules: Vec<Rule>,
    chance: Option<Chance>,
    struck: u64,
}

/// What is to go wrong; shared by the layer and the test that scripts it.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

impl Faults {
    /// The next call of `operation` (`None`: of any) meets `fault`.
    pub fn once(&self, operation: impl Into<Option<Operation>>, fault: Fault) {
        self.script(operation, 0, 1, fault);
    }

    /// Every call of `operation` from now on, until [`Faults::clear`].
    pub fn always(&self, operation: impl Into<Option<Operation>>, fault: Fault) {
        self.script(operation, 0, u64::MAX, fault);
    }

    /// After `skip` calls of `operation`, `times` of them.
    pub fn script(&self, operation: impl Into<Option<Operation>>, skip: u64, times: u64, fault: Fault) {
        self.0.lock().rules.push(Rule { operation: operation.into(), skip, times, fault });
    }

    /// Every call fails with `probability`, half of them after they were applied; the same seed
    /// and the same calls fail alike.
    pub fn seeded(&self, seed: u64, probability: f64, kind: Kind) {
        self.0.lock().chance = Some(Chance { rng: StdRng::seed_from_u64(seed), probability, kind });
    }

    /// Nothing goes wrong any more.
    pub fn clear(&self) {
        let mut plan = self.0.lock();
        (plan.rules, plan.chance) = (Vec::new(), None);
    }

    /// How many faults have struck.
    pub fn struck(&self) -> u64 {
        self.0.lock().struck
    }

    /// The layer that makes them happen.
    #[must_use]
    pub fn layer(&self) -> FaultLayer {
        FaultLayer(self.clone())
    }

    fn next(&self, operation: Operation, stage: Stage) -> Option<Fault> {
        let mut plan = self.0.lock();
        let fault = plan.scripted(operation, stage).or_else(|| plan.by_chance(stage))?;
        plan.struck += 1;
        Some(fault)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Call,
    Stream,
}

impl Plan {
    fn scripted(&mut self, operation: Operation, stage: Stage) -> Option<Fault> {
        for rule in &mut self.rules {
            let is_stream = matches!(rule.fault, Fault::Cut(..));
            let is_meant = rule.operation.is_none_or(|meant| meant == operation);
            if !is_meant || is_stream != (stage == Stage::Stream) || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault.clone());
        }
        None
    }

    fn by_chance(&mut self, stage: Stage) -> Option<Fault> {
        let chance = self.chance.as_mut()?;
        if !chance.rng.random_bool(chance.probability) {
            return None;
        }
        Some(match stage {
            Stage::Stream => Fault::Cut(chance.rng.random_range(0..100_000), chance.kind),
            Stage::Call if chance.rng.random_bool(0.5) => Fault::FailAfter(chance.kind),
            Stage::Call => Fault::FailBefore(chance.kind),
        })
    }
}

fn injected(kind: Kind) -> Error {
    Error::new(kind, "a fault made on purpose")
}

/// See [`Faults::layer`].
#[derive(Debug)]
pub struct FaultLayer(Faults);

#[async_trait]
impl Layer for FaultLayer {
    async fn around<'a, T: Send>(&self, call: Call<'a>, attempt: Attempt<'a, T>) -> Result<T> {
        match self.0.next(call.operation, Stage::Call) {
            Some(Fault::FailBefore(kind)) => return Err(injected(kind)),
            Some(Fault::Throttle(pause)) => {
                return Err(injected(Kind::Unavailable).with_retry_after(pause));
            }
            Some(Fault::FailAfter(kind)) => {
                return attempt(Turn::First).await.and_then(|_| Err(injected(kind)));
            }
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            Some(Fault::Hang(gate)) => gate.pass().await,
            Some(Fault::Cut(..)) | None => {}
        }
        attempt(Turn::First).await
    }

    fn stream(self: Arc<Self>, stream: ByteStream, _range: Range<u64>, _reopen: Reopen) -> ByteStream {
        let Some(Fault::Cut(after, kind)) = self.0.next(Operation::Read, Stage::Stream) else {
            return stream;
        };
        let cut = futures::stream::unfold((stream, Some(after)), move |(mut stream, left)| async move {
            let left = left?;
            let chunk = stream.next().await?;
            match chunk {
                Ok(bytes) if (bytes.len() as u64) <= left => {
                    let left = left - bytes.len() as u64;
                    Some((Ok(bytes), (stream, Some(left))))
                }
                Ok(_) => Some((Err(injected(kind)), (stream, None))),
                failed => Some((failed, (stream, None))),
            }
        });
        cut.boxed()
    }
}
