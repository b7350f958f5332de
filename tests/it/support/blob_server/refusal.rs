//! Answers that say no.

use http::StatusCode;

/// A status with the service's own word for it.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    /// Seconds.
    pub retry_after: Option<u64>,
}

impl Refusal {
    pub fn new(status: u16, code: &'static str) -> Self {
        Self { status: StatusCode::from_u16(status).expect("a status"), code, retry_after: None }
    }
}

macro_rules! refusals {
    ($($name:ident = $status:literal $code:literal;)*) => {
        $(pub fn $name() -> Refusal { Refusal::new($status, $code) })*
    };
}

refusals! {
    blob_not_found = 404 "BlobNotFound";
    container_not_found = 404 "ContainerNotFound";
    container_exists = 409 "ContainerAlreadyExists";
    blob_exists = 409 "BlobAlreadyExists";
    snapshots_present = 409 "SnapshotsPresent";
    pending_copy = 409 "PendingCopyOperation";
    archived = 409 "BlobArchived";
    rehydrating = 409 "BlobBeingRehydrated";
    too_many_blocks = 409 "BlockCountExceedsLimit";
    condition_not_met = 412 "ConditionNotMet";
    source_condition_not_met = 412 "SourceConditionNotMet";
    source_not_verified = 404 "CannotVerifyCopySource";
    invalid_range = 416 "InvalidRange";
    invalid_block_list = 400 "InvalidBlockList";
    block_list_too_long = 400 "BlockListTooLong";
    invalid_block = 400 "InvalidBlobOrBlock";
    invalid_query = 400 "InvalidQueryParameterValue";
    out_of_range_query = 400 "OutOfRangeQueryParameterValue";
    invalid_header = 400 "InvalidHeaderValue";
    missing_header = 400 "MissingRequiredHeader";
    invalid_name = 400 "InvalidResourceName";
    invalid_uri = 400 "InvalidUri";
    invalid_xml = 400 "InvalidXmlDocument";
    invalid_metadata = 400 "InvalidMetadata";
    metadata_too_large = 400 "MetadataTooLarge";
    body_too_large = 413 "RequestBodyTooLarge";
    unsupported_verb = 405 "UnsupportedHttpVerb";
    authentication_failed = 403 "AuthenticationFailed";
    not_authenticated = 401 "InvalidAuthenticationInfo";
}
