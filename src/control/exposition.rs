//! The facts of a mount as Prometheus metrics: every name, its unit and what it means, in one place.

use crate::control::protocol::Phase;
use crate::control::status::{IoMode, Status, TierState, TierStatus};
use crate::metrics::Page;
use crate::tier::{BUCKETS, OperationCounts};

/// Upper bounds that are shown: 2^(2n) µs for these n, 64 µs to 67 s.
const SHOWN: std::ops::RangeInclusive<usize> = 3..=13;

/// What is told of a mount besides its status.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The facts that `tierstat` shows.
    pub status: Status,
    /// Calls to each tier, in the order of [`Status::tiers`].
    pub calls: Vec<Vec<OperationCounts>>,
    /// What was done since the mount.
    pub sums: Sums,
    /// Order domains in which a step is refused for good, so that nothing after it goes home.
    pub blocked_domains: u64,
}

/// What was done since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Files committed at home.
    pub committed_files: u64,
    /// Their bytes.
    pub committed_bytes: u64,
    /// Bytes sent, those of uploads under way included.
    pub sent_bytes: u64,
    /// Keys deleted on tiers.
    pub deleted: u64,
    /// Keys moved on a tier.
    pub moved: u64,
    /// Failed tries of steps.
    pub retries: u64,
    /// Bytes handed to readers by the daemon; what the kernel reads by itself is not among them.
    pub read_bytes: u64,
    /// Reads of streams that waited for a tier.
    pub read_waits: u64,
    /// Reads of streams that did not.
    pub read_hits: u64,
    /// Hot copies begun.
    pub fills_started: u64,
    /// Hot copies that became whole.
    pub fills_completed: u64,
    /// Hot copies given up.
    pub fills_dropped: u64,
}

/// The page of metrics.
#[must_use]
pub fn page(facts: &Facts) -> String {
    let mut page = Page::default();
    mount(&mut page, &facts.status);
    tiers(&mut page, &facts.status.tiers);
    calls(&mut page, facts);
    dirty(&mut page, facts);
    trouble(&mut page, &facts.status);
    sums(&mut page, &facts.status, &facts.sums);
    process(&mut page);
    page.into_text()
}

fn mount(page: &mut Page, status: &Status) {
    let mode = match status.mode {
        IoMode::Passthrough => "passthrough",
        IoMode::Ordinary => "ordinary",
    };
    let (point, version) = (status.mountpoint.to_string(), status.version.as_str());
    page.gauge("tierfs_mount_info", "What is mounted where; always 1.")
        .is(&[("mountpoint", &point), ("version", version), ("mode", mode)], 1.0);
    page.gauge("tierfs_uptime_seconds", "Time since the mount.").counts(&[], status.uptime_s);
    page.gauge("tierfs_draining", "1 while it is unmounted and commits what is left.")
        .is(&[], flag(status.phase == Phase::Draining));
    page.gauge(
        "tierfs_health_level",
        "0: nobody is needed; 1: soon, if what is wrong does not pass; 2: now. `tierstat health` has the reasons.",
    )
    .counts(&[], status.health().level as u64);
}

fn tiers(page: &mut Page, tiers: &[TierStatus]) {
    let mut family =
        page.gauge("tierfs_tier_state", "1 for the state that a tier is in: ok, sick or absent.");
    for tier in tiers {
        for (word, state) in [("ok", TierState::Ok), ("sick", TierState::Sick), ("absent", TierState::Absent)]
        {
            family.is(
                &[("tier", &tier.name), ("kind", &tier.kind), ("state", word)],
                flag(tier.state == state),
            );
        }
    }
    let mut each = |name, help, of: &dyn Fn(&TierStatus) -> Option<u64>| {
        let mut family = page.gauge(name, help);
        for tier in tiers {
            if let Some(value) = of(tier) {
                family.counts(&[("tier", &tier.name)], value);
            }
        }
    };
    each("tierfs_tier_capacity_bytes", "What may be stored on a tier, where there is a limit.", &|t| {
        t.capacity
    });
    each("tierfs_tier_used_bytes", "Bytes in use on a tier, by whomever, where that is known.", &|t| t.used);
    each("tierfs_tier_free_bytes", "Bytes free for us on a tier, where that is known.", &|t| t.free);
    each("tierfs_tier_files", "Files the catalog knows on a tier.", &|t| Some(t.files));
    each("tierfs_tier_file_bytes", "Bytes of the files the catalog knows on a tier.", &|t| Some(t.bytes));
    each("tierfs_tier_hot_bytes", "Bytes of hot copies on a tier.", &|t| Some(t.hot_bytes));
    each("tierfs_tier_staged_bytes", "Bytes of staged files on a tier.", &|t| Some(t.staged_bytes));
    each("tierfs_tier_dirty_bytes", "Bytes that wait to be committed to a tier.", &|t| Some(t.dirty_bytes));
}

fn calls(page: &mut Page, facts: &Facts) {
    let named = || facts.status.tiers.iter().zip(&facts.calls);
    let mut family = page.histogram(
        "tierfs_tier_operation_duration_seconds",
        "Time of calls to a tier, every try by itself; what the kernel or a file descriptor does directly is not among them.",
    );
    for (tier, calls) in named() {
        for call in calls {
            let labels = [("tier", tier.name.as_str()), ("operation", call.operation.word())];
            let last = 2 * *SHOWN.end();
            let above = call.buckets[last + 1..].iter().sum();
            family.spread(&labels, buckets(&call.buckets), above, call.total.as_secs_f64());
        }
    }
    let mut family = page
        .counter("tierfs_tier_operation_errors_total", "Calls to a tier that failed, every try by itself.");
    for (tier, calls) in named() {
        for call in calls {
            family.counts(&[("tier", &tier.name), ("operation", call.operation.word())], call.errors);
        }
    }
    let mut family = page.counter("tierfs_tier_read_bytes_total", "Bytes that came from a tier.");
    for tier in &facts.status.tiers {
        family.counts(&[("tier", &tier.name)], tier.bytes_read);
    }
    let mut family = page.counter("tierfs_tier_written_bytes_total", "Bytes that a tier took.");
    for tier in &facts.status.tiers {
        family.counts(&[("tier", &tier.name)], tier.bytes_written);
    }
}

/// Upper bounds in seconds with the calls between them.
fn buckets(counted: &[u64; BUCKETS]) -> impl Iterator<Item = (f64, u64)> {
    SHOWN.map(|at| {
        let top = 2 * at;
        let bottom = if at == *SHOWN.start() { 0 } else { top - 1 };
        #[expect(clippy::cast_precision_loss, reason = "a power of two is exact")]
        let bound = (1_u64 << top) as f64 / 1e6;
        (bound, counted[bottom..=top].iter().sum())
    })
}

fn dirty(page: &mut Page, facts: &Facts) {
    let status = &facts.status;
    let dirty = &status.dirty;
    page.gauge("tierfs_dirty_files", "Files whose newest bytes are not at home.").counts(&[], dirty.files);
    page.gauge("tierfs_dirty_bytes", "Bytes that are not at home.").counts(&[], dirty.bytes);
    page.gauge("tierfs_dirty_open_files", "Dirty files that are open for writing, or were never closed.")
        .counts(&[], dirty.open_files);
    page.gauge(
        "tierfs_dirty_oldest_age_seconds",
        "Age of the oldest close that is not committed; 0 without one.",
    )
    .counts(&[], dirty.oldest_age_s.unwrap_or(0));
    page.gauge("tierfs_queue_steps", "Steps that still have to be done on the tiers.")
        .counts(&[], status.queue.length);
    page.gauge("tierfs_queue_running_steps", "Steps that are being done.").counts(&[], status.queue.running);
    page.gauge("tierfs_queue_retrying_steps", "Steps that failed and are tried again.")
        .counts(&[], status.queue.retrying);
    page.gauge("tierfs_blocked_files", "Files that a tier refuses for good: a person is needed.")
        .counts(&[], status.blocked_files);
    page.gauge("tierfs_blocked_domains", "Order domains that such a file holds.")
        .counts(&[], facts.blocked_domains);
    page.gauge(
        "tierfs_failing_seconds",
        "How long the step that fails for the longest time has failed; 0 without one.",
    )
    .counts(&[], status.failing.as_ref().map_or(0, |failing| failing.since_s));
}

fn trouble(page: &mut Page, status: &Status) {
    page.gauge("tierfs_waiting_opens", "Opens for writing that wait for room.")
        .counts(&[], status.waiting.iter().map(|waiting| waiting.opens).sum());
    page.gauge(
        "tierfs_rules_over_dirty_max",
        "Rules above their `dirty_max` of which nothing can be committed.",
    )
    .counts(&[], status.over.len() as u64);
    page.counter("tierfs_conflicts_total", "Conflict copies made.").counts(&[], status.conflicts);
    page.gauge("tierfs_conflict_copies", "Conflict copies that nobody has dealt with.")
        .counts(&[], status.conflicts_left);
    page.gauge("tierfs_lost_files", "Files whose bytes went with a tier, until that is acknowledged.")
        .counts(&[], status.lost);
    page.gauge("tierfs_hidden_names", "Names on tiers that can't be shown.").counts(&[], status.hidden);
}

fn sums(page: &mut Page, status: &Status, sums: &Sums) {
    page.counter("tierfs_committed_files_total", "Files committed at home.")
        .counts(&[], sums.committed_files);
    page.counter("tierfs_committed_bytes_total", "Bytes of files committed at home.")
        .counts(&[], sums.committed_bytes);
    page.counter("tierfs_sent_bytes_total", "Bytes sent, those of uploads under way included.")
        .counts(&[], sums.sent_bytes);
    page.counter("tierfs_deleted_keys_total", "Keys deleted on tiers.").counts(&[], sums.deleted);
    page.counter("tierfs_moved_keys_total", "Keys moved on a tier.").counts(&[], sums.moved);
    page.counter("tierfs_step_retries_total", "Failed tries of steps.").counts(&[], sums.retries);
    page.counter(
        "tierfs_opens_total",
        "Opens of files whose home is not resident: served by a copy that is near, or by the home.",
    )
    .counts(&[("from", "near")], status.reads.hits)
    .counts(&[("from", "home")], status.reads.misses);
    page.counter("tierfs_read_bytes_total", "Bytes that the daemon handed to readers of streamed files.")
        .counts(&[], sums.read_bytes);
    page.counter("tierfs_fetched_bytes_total", "Bytes fetched from tiers for readers.")
        .counts(&[], status.reads.fetched_bytes);
    page.counter(
        "tierfs_stream_reads_total",
        "Reads of streamed files: out of memory, or after a wait for a tier.",
    )
    .counts(&[("result", "hit")], sums.read_hits)
    .counts(&[("result", "wait")], sums.read_waits);
    page.counter("tierfs_hot_fills_total", "Hot copies: begun, whole, given up.")
        .counts(&[("result", "started")], sums.fills_started)
        .counts(&[("result", "completed")], sums.fills_completed)
        .counts(&[("result", "dropped")], sums.fills_dropped);
}

/// As the client libraries of Prometheus name them; what /proc does not tell is left out.
fn process(page: &mut Page) {
    let own = crate::host::process();
    let mut gauge = |name, help, value: Option<u64>| {
        if let Some(value) = value {
            page.gauge(name, help).counts(&[], value);
        }
    };
    gauge("process_resident_memory_bytes", "Memory of the daemon.", own.resident_bytes);
    gauge("process_open_fds", "Open files of the daemon.", own.open_files);
    gauge("process_max_fds", "Most files the daemon may open.", own.open_files_max);
}

fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counted_call_is_in_one_bucket() {
        let counted: [u64; BUCKETS] = std::array::from_fn(|at| 1 << at);
        let shown: Vec<_> = buckets(&counted).collect();
        assert_eq!(shown.len(), 11);
        assert_eq!(shown[0], (0.000_064, 0b111_1111));
        assert_eq!(shown[1], (0.000_256, 0b1_1000_0000));
        assert!((shown[10].0 - 67.108_864).abs() < 1e-9);
        let above: u64 = counted[27..].iter().sum();
        assert_eq!(shown.iter().map(|(_, count)| count).sum::<u64>() + above, counted.iter().sum::<u64>());
    }
}
