//! A private cluster: three masters on loopback.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Server;

/// Three masters.
pub struct Cluster(Vec<Server>);

impl Cluster {
    /// Starts them and waits until they know each other and all slots.
    pub fn form() -> Self {
        let settings = [
            "--appendonly",
            "yes",
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
        ];
        let nodes: Vec<Server> = (0..3).map(|_| Server::start_with(&settings)).collect();
        let slots = [(0, 5460), (5461, 10922), (10923, 16383)];
        for (node, (first, last)) in nodes.iter().zip(slots) {
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            node.command(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port().to_string()]);
        }
        for _ in 0..400 {
            let whole = |node: &Server| {
                let info = node.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            };
            if nodes.iter().all(whole) {
                return Cluster(nodes);
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("the cluster does not form");
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let nodes = self.0.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis+cluster://{}", nodes.collect::<Vec<_>>().join(","))
    }

    /// Says something to every node.
    pub fn all(&self, words: &[&str]) {
        for node in &self.0 {
            node.command(words);
        }
    }
}

/// Clusters that were used and can be used again: forming one takes seconds.
static IDLE: Mutex<Vec<Cluster>> = Mutex::new(Vec::new());

fn idle() -> std::sync::MutexGuard<'static, Vec<Cluster>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty cluster, to be given back.
pub struct Lent(Option<Cluster>);

impl Lent {
    /// One that nobody uses.
    pub fn take() -> Self {
        let known = idle().pop();
        let cluster = known.unwrap_or_else(Cluster::form);
        cluster.all(&["FLUSHALL"]);
        Lent(Some(cluster))
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.0.as_ref().map(Cluster::url).expect("not given back yet")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(cluster) = self.0.take() {
            // Whoever still talks to it must not write into what the next one makes of it.
            cluster.all(&["CLIENT", "KILL", "TYPE", "normal"]);
            cluster.all(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            idle().push(cluster);
        }
    }
}

/// Ends the clusters that nobody uses.
pub fn end_all() {
    idle().clear();
}
