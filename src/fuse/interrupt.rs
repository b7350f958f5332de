//! Whether whoever waits for an answer has been interrupted.
//!
//! fuser answers FUSE_INTERRUPT with ENOSYS, after which the kernel sends no more of them and waits for the reply even of a process that was
//! killed. So whoever lets a program wait for long asks /proc whether a signal waits for it.

use std::time::Duration;

/// How often to ask.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Signals that only stop or continue a process: none of them is a reason to fail its call.
const STOPS: u64 =
    bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU) | bit(libc::SIGCONT);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Ends when the thread `pid` has a signal to take.
pub async fn interrupted(pid: u32) {
    while !look_later(pid).await {}
}

/// Whether it has one, after a while.
pub async fn look_later(pid: u32) -> bool {
    tokio::time::sleep(LOOK_EVERY).await;
    // Nobody can be asked any more when the daemon ends.
    tokio::task::spawn_blocking(move || is_interrupted(pid)).await.unwrap_or(true)
}

/// Whether the thread `pid` has a signal to take. One that can't be seen from here has none.
fn is_interrupted(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| has_signal(&status))
}

fn has_signal(status: &str) -> bool {
    let mask = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| u64::from_str_radix(value.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk") & !STOPS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: &str, shared: &str, blocked: &str) -> String {
        format!(
            "Name:\tx\nSigQ:\t0/1\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\nSigIgn:\t0\n"
        )
    }

    #[test]
    fn a_signal_that_waits_to_be_taken_interrupts() {
        let none = "0000000000000000";
        assert!(!has_signal(&status(none, none, none)));
        assert!(has_signal(&status("0000000000000100", none, none)), "SIGKILL, to the thread");
        assert!(has_signal(&status(none, "0000000000000002", none)), "SIGINT, to the process");
        assert!(!has_signal(&status(none, "0000000000000002", "0000000000000002")), "blocked");
        assert!(!has_signal(&status(none, "0000000000080000", none)), "SIGTSTP");
        assert!(!has_signal("nonsense"));
    }

    #[test]
    fn nobody_here_is_interrupted() {
        assert!(!is_interrupted(std::process::id()) && !is_interrupted(0));
    }
}
