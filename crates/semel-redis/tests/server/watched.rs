//! A master, a replica that follows it, and a sentinel that makes the one the other.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Server;

/// Two servers of which one is the master, and the sentinel that knows which.
pub struct Watched {
    servers: [Server; 2],
    sentinel: Server,
}

impl Watched {
    /// Starts them and waits until they know each other.
    pub fn start() -> Self {
        let master = Server::start();
        let port = master.port().to_string();
        let replica = Server::start_with(&["--appendonly", "yes", "--replicaof", "127.0.0.1", &port]);
        let sentinel = Server::start_sentinel(&format!(
            "sentinel monitor main 127.0.0.1 {port} 1\nsentinel down-after-milliseconds main 2000\n\
             sentinel failover-timeout main 5000\n"
        ));
        let watched = Watched {
            servers: [master, replica],
            sentinel,
        };
        watched.settle();
        watched
    }

    /// Where it is. A call is answered when the replica has it.
    pub fn url(&self) -> String {
        format!(
            "redis+sentinel://127.0.0.1:{}/main?patience_ms=30000&wait=1&wait_ms=10000",
            self.sentinel.port()
        )
    }

    fn role(&self, server: usize, role: &str) -> bool {
        let info = self.servers[server].command(&["INFO", "replication"]);
        info.contains(&format!("role:{role}")) && !info.contains("master_link_status:down")
    }

    fn master(&self) -> Option<usize> {
        (0..2).find(|server| self.role(*server, "master") && self.role(1 - *server, "slave"))
    }

    /// Waits until one follows the other and the sentinel knows it; gives the master.
    fn settle(&self) -> usize {
        for _ in 0..600 {
            if let Some(master) = self.master()
                && self.sentinel.command(&["INFO", "sentinel"]).contains("status=ok")
                && self.sentinel.command(&["INFO", "sentinel"]).contains("slaves=1")
                && self.servers[master].command(&["WAIT", "1", "100"]).contains('1')
            {
                return master;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the replica does not follow the master");
    }

    /// Empties both.
    pub fn flush(&self) {
        let master = self.settle();
        self.servers[master].command(&["FLUSHALL"]);
        self.settle();
    }

    /// Makes the replica the master and the master its replica.
    pub fn fail_over(&self) {
        let before = self.settle();
        for _ in 0..100 {
            // The sentinel refuses it while it is not over the last one.
            if self
                .sentinel
                .command(&["SENTINEL", "FAILOVER", "main"])
                .starts_with("+OK")
            {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        for _ in 0..600 {
            if self.master() == Some(1 - before) {
                self.settle();
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the replica does not take over");
    }
}

/// One for all cases, which run one after another.
static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

/// The one that is in use, started if there is none.
pub fn watched() -> MutexGuard<'static, Option<Watched>> {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.get_or_insert_with(Watched::start);
    watched
}

/// Ends it.
pub fn end() {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner).take();
}
