//! HTTP as the blob tier needs it: rustls with ring, no redirects, no proxy for what is near.

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::net::IpAddr;
use std::sync::Once;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Nobody should wait longer for the metadata service that hands out tokens on Azure machines.
const NEAR_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

const USER_AGENT: &str = concat!("tierfs/", env!("CARGO_PKG_VERSION"));

/// Makes [`HttpClient`]s; also handed to object_store for its token requests.
#[derive(Clone, Debug)]
pub(in super::super) struct Transport {
    far: reqwest::Client,
    /// For loopback and link-local hosts, which a proxy can't reach on our behalf.
    near: reqwest::Client,
}

impl Transport {
    /// Clients with their connection pools.
    ///
    /// # Errors
    /// If TLS can't be set up.
    pub(in super::super) fn new() -> reqwest::Result<Self> {
        install_tls();
        // No whole-request timeout: requests differ by a thousand in size, so each sets its own.
        let builder = || {
            reqwest::Client::builder()
                .user_agent(USER_AGENT)
                .redirect(reqwest::redirect::Policy::none())
                .tcp_keepalive(Duration::from_secs(60))
                .pool_idle_timeout(Duration::from_secs(60))
        };
        Ok(Self {
            far: builder().connect_timeout(CONNECT_TIMEOUT).build()?,
            near: builder().connect_timeout(NEAR_CONNECT_TIMEOUT).no_proxy().build()?,
        })
    }

    /// A client over the same pools.
    pub(in super::super) fn client(&self) -> HttpClient {
        HttpClient::new(self.clone())
    }
}

#[async_trait::async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The client behind this parses the address again and takes it for granted that it can.
        let parsed = url::Url::parse(&request.uri().to_string());
        let url = parsed.map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        let client = if is_near(url.host()) { &self.near } else { &self.far };
        HttpService::call(client, request).await
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

/// Whether the host is this machine or its link: loopback, or the link-local metadata service.
fn is_near<S: AsRef<str>>(host: Option<url::Host<S>>) -> bool {
    match host {
        Some(url::Host::Domain(name)) => {
            name.as_ref() == "localhost" || name.as_ref().ends_with(".localhost")
        }
        Some(url::Host::Ipv4(ip)) => ip.is_loopback() || ip.is_link_local(),
        Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that the process has a provider already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
