//! Who may come in: tokens as the metadata service of an Azure machine and Entra ID hand them out, and the signature of a SAS.

use super::answer::Answer;
use super::refusal::{self, Refusal};
use super::request::Call;
use parking_lot::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where machines get theirs.
pub const PATH: &str = "/metadata/identity/oauth2/token";

/// Where all others do, after the tenant's name.
const ENTRA: &str = "/oauth2/v2.0/token";

pub fn is_asked_for(path: &str) -> bool {
    path == PATH || path.ends_with(ENTRA)
}

#[derive(Debug, Default)]
struct State {
    /// How long new ones live; none before tokens are asked for.
    life: Option<Duration>,
    /// Those handed out, with their ends.
    issued: Vec<(String, SystemTime)>,
    refused: u64,
    /// What came with the requests for tokens, `name=value` a line.
    asked: Vec<String>,
    /// The signature that requests must have instead.
    signature: Option<String>,
}

/// The tokens of one server.
#[derive(Debug, Default)]
pub struct Tokens(Mutex<State>);

impl Tokens {
    /// From now on every request needs a token; new ones live for `life`.
    pub fn require(&self, life: Duration) {
        self.0.lock().life = Some(life);
    }

    /// From now on every request needs a SAS with this signature.
    pub fn require_signature(&self, signature: &str) {
        self.0.lock().signature = Some(signature.to_owned());
    }

    /// Somebody else handed out this one; it is good for an hour.
    pub fn accept(&self, token: &str) {
        let end = SystemTime::now() + Duration::from_secs(3600);
        self.0.lock().issued.push((token.to_owned(), end));
    }

    /// What was said to get tokens, `name=value` a line.
    pub fn asked(&self) -> Vec<String> {
        self.0.lock().asked.clone()
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

    pub(super) fn issue(&self, call: &Call, body: &[u8]) -> Answer {
        let form = url::form_urlencoded::parse(body).map(|(name, value)| format!("{name}={value}\n"));
        let asked = call.query_lines() + &form.collect::<String>();
        let mut state = self.0.lock();
        state.asked.push(asked);
        let life = state.life.unwrap_or(Duration::from_secs(3600));
        let (token, end) = (format!("token-{}", state.issued.len()), SystemTime::now() + life);
        state.issued.push((token.clone(), end));
        let ends_on = end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let body = serde_json::json!({
            "access_token": token, "expires_in": life.as_secs(), "expires_on": ends_on.to_string(),
            "resource": "https://storage.azure.com/", "token_type": "Bearer",
        });
        Answer::text("application/json", body.to_string())
    }

    /// # Errors
    /// If a token is needed and `call` brings none that is valid.
    pub(super) fn check(&self, call: &Call) -> Result<(), Refusal> {
        let mut state = self.0.lock();
        if let Some(signature) = &state.signature {
            let brought = call.query("sig").is_some_and(|brought| brought == signature);
            state.refused += u64::from(!brought);
            return if brought { Ok(()) } else { Err(refusal::authentication_failed()) };
        }
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
