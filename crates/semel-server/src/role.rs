//! What a caller may do.

use semel_core::error::Invalid;
use semel_core::ids::Name;
use serde::{Deserialize, Serialize};

/// What a token may do. `admin` may do everything, `operate` may also read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look at everything, payloads too.
    Read,
    /// Submit jobs and send events; of other jobs only the reference is seen.
    Submit,
    /// Claim jobs and settle them.
    Work,
    /// Pause, cancel, retry, replay, release, resolve.
    Operate,
    /// Tokens, and everything else.
    Admin,
}

impl Role {
    /// Every role, the weakest first.
    pub const ALL: [Role; 5] = [Role::Read, Role::Submit, Role::Work, Role::Operate, Role::Admin];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Submit => "submit",
            Role::Work => "work",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }

    /// Whether one who has this role may do what `wanted` may.
    pub fn covers(self, wanted: Role) -> bool {
        self == wanted || self == Role::Admin || (self == Role::Operate && wanted == Role::Read)
    }
}

impl std::str::FromStr for Role {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Role::ALL.into_iter().find(|role| role.word() == text);
        found.ok_or_else(|| Invalid::new("role", "read, submit, work, operate or admin").found(text))
    }
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The id of its token; `None` for one on this machine, where no tokens are in use.
    pub token: Option<String>,
    /// The name in the audit feed and the ledger.
    pub name: Name,
    /// What it may do.
    pub roles: Vec<Role>,
    /// The queues a worker may claim from; empty: all.
    pub queues: Vec<Name>,
}

impl Caller {
    /// Somebody on this machine, where no tokens are in use.
    pub fn local() -> Self {
        Caller {
            token: None,
            name: Name::new("local").expect("a valid name"),
            roles: vec![Role::Admin],
            queues: Vec::new(),
        }
    }

    /// Whether it may.
    pub fn may(&self, wanted: Role) -> bool {
        self.roles.iter().any(|role| role.covers(wanted))
    }

    /// What its streams, polls and leases are counted and bound by.
    pub fn identity(&self) -> &str {
        self.token.as_deref().unwrap_or("local")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_may_everything_and_operators_may_look() {
        for role in Role::ALL {
            assert!(Role::Admin.covers(role) && role.covers(role));
        }
        assert!(Role::Operate.covers(Role::Read));
        assert!(!Role::Operate.covers(Role::Work));
        assert!(!Role::Submit.covers(Role::Read) && !Role::Read.covers(Role::Submit));
    }
}
