//! Tokens as the metadata service of an Azure machine hands them out.

use super::answer::Answer;
use super::refusal::{self, Refusal};
use super::request::Call;
use parking_lot::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where they are handed out.
pub const PATH: &str = "/metadata/identity/oauth2/token";

#[derive(Debug, Default)]
struct State {
    /// How long new ones live; none before tokens are asked for.
    life: Option<Duration>,
    /// Those handed out, with their ends.
    issued: Vec<(String, SystemTime)>,
    refused: u64,
}

/// The tokens of one server.
#[derive(Debug, Default)]
pub struct Tokens(Mutex<State>);

impl Tokens {
    /// From now on every request needs a token; new ones live for `life`.
    pub fn require(&self, life: Duration) {
        self.0.lock().life = Some(life);
    }

    /// How many were handed out.
    pub fn issued(&self) -> usize {
        self.0.lock().issued.len()
    }

    /// How many requests came without a valid one.
    pub fn refused(&self) -> u64 {
        self.0.lock().refused
    }

    /// Takes back all that were handed out.
    pub fn revoke(&self) {
        self.0.lock().issued.iter_mut().for_each(|(_, end)| *end = UNIX_EPOCH);
    }

    pub(super) fn issue(&self) -> Answer {
        let mut state = self.0.lock();
        let life = state.life.unwrap_or(Duration::from_secs(3600));
        let (token, end) = (format!("token-{}", state.issued.len()), SystemTime::now() + life);
        state.issued.push((token.clone(), end));
        let ends_on = end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let body = serde_json::json!({
            "access_token": token, "expires_in": life.as_secs().to_string(), "expires_on": ends_on.to_string(),
            "resource": "https://storage.azure.com/", "token_type": "Bearer",
        });
        Answer::text("application/json", body.to_string())
    }

    /// # Errors
    /// If a token is needed and `call` brings none that is valid.
    pub(super) fn check(&self, call: &Call) -> Result<(), Refusal> {
        let mut state = self.0.lock();
        if state.life.is_none() {
            return Ok(());
        }
        let token = call.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        let now = SystemTime::now();
        let is_valid = state.issued.iter().any(|(known, end)| Some(known.as_str()) == token && now < *end);
        if is_valid {
            return Ok(());
        }
        state.refused += 1;
        Err(refusal::not_authenticated())
    }
}
