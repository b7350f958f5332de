//! Taking a stage: one living owner at a time, a dead one's is taken over.

use super::{StageStore, TEMPORARY};
use crate::data::local::{self, FILE_MODE, Local};
use crate::data::owner::{Owner, Standing};
use crate::error::{Error, Kind, Result};
use crate::tier::{Access, Tier};
use crate::types::Key;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const ROOT: &str = ".tierfs/stage";
const OWNER: &str = "owner";
const LOCK: &str = "lock";

impl StageStore {
    /// Takes the stage of `catalog_id` on `tier` for `owner`; makes it if there is none.
    ///
    /// # Errors
    /// `Busy` if another daemon owns it and may be alive, `Invalid` if the tier is not a directory.
    pub fn claim(tier: Arc<dyn Tier>, catalog_id: &str, owner: &Owner) -> Result<Self> {
        let local = Local::new(tier)?;
        let root = Key::parse(ROOT)?.join(catalog_id)?;
        local.make_directory(&root.join(TEMPORARY)?)?;
        let lock = open_or_create(&local, &root.join(LOCK)?)?;
        let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let store =
            Self { local, root, _lock: lock, temporaries: AtomicU64::new(0), durable: Mutex::default() };
        store.refuse_living_owner(owner, locked == Err(rustix::io::Errno::WOULDBLOCK))?;
        store.clear_temporaries()?;
        let json = serde_json::to_vec(owner)
            .map_err(|error| Error::new(Kind::Corrupt, "write the owner file").with_source(error))?;
        store.local.write_small(&store.root.join(OWNER)?, &store.temporary()?, &json)?;
        store.sync_ancestors()?;
        Ok(store)
    }

    fn refuse_living_owner(&self, owner: &Owner, locked_by_another: bool) -> Result<()> {
        let key = self.root.join(OWNER)?;
        let known = self.local.read_small(&key)?;
        let known: Option<Owner> = known.and_then(|json| serde_json::from_slice(&json).ok());
        let standing = known.as_ref().map_or(Ok(Standing::Hidden), |known| owner.standing_of(known))?;
        let who = known
            .map_or_else(|| "another process".into(), |known| format!("pid {} on {}", known.pid, known.host));
        let stage = format!("stage {} on tier {}", self.root, self.tier().name());
        match standing {
            Standing::OtherMachine => Err(Error::new(
                Kind::Busy,
                format!(
                    "{stage} belongs to {who}, another machine; if that is gone for good, take its bytes over with `tierfs adopt`"
                ),
            )),
            Standing::Alive => Err(Error::new(Kind::Busy, format!("{stage} is in use by {who}"))),
            Standing::Gone | Standing::Hidden if locked_by_another => {
                Err(Error::new(Kind::Busy, format!("{stage} is locked by {who}")))
            }
            Standing::Gone | Standing::Hidden => Ok(()),
        }
    }

    fn clear_temporaries(&self) -> Result<()> {
        let directory = self.root.join(TEMPORARY)?;
        let mut names = Vec::new();
        self.local.for_each(&directory, |entry| {
            names.push(directory.join(&entry.name)?);
            Ok(())
        })?;
        names.iter().try_for_each(|name| self.local.remove(name))
    }

    fn sync_ancestors(&self) -> Result<()> {
        let mut key = self.root.clone();
        loop {
            self.local.files()?.sync_directory(&key)?;
            match key.split() {
                Some((parent, _)) => key = parent,
                None => return Ok(()),
            }
        }
    }
}

fn open_or_create(local: &Local, key: &Key) -> Result<File> {
    match local.files()?.open(key, Access::ReadWrite) {
        Err(error) if error.kind() == Kind::NotFound => match local.create(key, FILE_MODE) {
            Err(error) => {
                local::unless(error, Kind::Exists)?;
                local.files()?.open(key, Access::ReadWrite)
            }
            done => done,
        },
        done => done,
    }
}
