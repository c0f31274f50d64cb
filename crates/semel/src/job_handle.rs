//! A job in the hands of a producer: to look at, wait for, cancel (contract 3.1).

use serde::de::DeserializeOwned;

use semel_core::ids::JobId;
use semel_core::store::{Act, StepFilter};
use semel_core::view::{AttemptView, Job, StepView};

use crate::acted::Acted;
use crate::client::Client;
use crate::error::Error;
use crate::wait::{Output, Wait};

impl Client {
    /// A job by its id. Whether there is one is found out when something is asked of it.
    pub fn job(&self, id: impl Into<String>) -> Result<JobHandle, Error> {
        Ok(JobHandle {
            client: self.clone(),
            id: JobId::new(id)?,
        })
    }
}

/// A job in a store.
#[derive(Clone, Debug)]
pub struct JobHandle {
    client: Client,
    id: JobId,
}

impl JobHandle {
    /// Its id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// The job as it stands.
    pub async fn job(&self) -> Result<Job, Error> {
        let found = self.client.look_up(&self.id).await?;
        found.ok_or_else(|| Error::no_job(&self.id))
    }

    /// Its deliveries that have ended, oldest first.
    pub async fn attempts(&self) -> Result<Vec<AttemptView>, Error> {
        Ok(self.client.store().attempts(&self.id).await?)
    }

    /// The steps of its chain.
    pub async fn steps(&self) -> Result<Vec<StepView>, Error> {
        let origin = self.job().await?.origin;
        Ok(self.client.store().list_steps(StepFilter::Origin(origin)).await?)
    }

    /// Waits until it has ended, however it ends.
    pub fn wait(&self) -> Wait {
        Wait::new(self.client.clone(), self.id.clone())
    }

    /// Waits for it and gives its output.
    pub fn output<O: DeserializeOwned>(&self) -> Output<O> {
        Output::of_job(self.wait())
    }

    /// Ends it, unless it has ended (contract 6.2).
    pub async fn cancel(&self) -> Result<Acted, Error> {
        self.client.act(Act::Cancel { id: self.id.clone() }).await
    }
}
