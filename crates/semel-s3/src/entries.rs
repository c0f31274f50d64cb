//! The lease entries of this handle: one goes as soon as the last lease it is about has ended by a call of this handle,
//! so that nobody has to look after it.

use std::collections::HashMap;

use semel_core::ids::JobId;

/// Leases beyond which they are left to those who look after entries that are due.
const KNOWN: usize = 200_000;

/// Lease entries, and what they are about.
#[derive(Default)]
pub struct Entries {
    of: HashMap<JobId, String>,
    left: HashMap<String, usize>,
    spent: Vec<String>,
}

impl Entries {
    /// These leases, and no others, were given under this entry, and not one of its writes is undecided.
    pub fn opened<'a>(&mut self, entry: &str, jobs: impl Iterator<Item = &'a JobId>) {
        if self.of.len() >= KNOWN {
            *self = Entries::default();
        }
        self.left.insert(entry.to_owned(), 0);
        for id in jobs {
            match self.of.insert(id.clone(), entry.to_owned()) {
                // Named twice in one call: it is one lease.
                Some(before) if before == entry => continue,
                Some(before) => self.one_less(&before),
                None => {}
            }
            *self.left.entry(entry.to_owned()).or_default() += 1;
        }
        self.settle_up(entry);
    }

    /// The lease of this job has ended.
    pub fn ended(&mut self, id: &JobId) {
        if let Some(entry) = self.of.remove(id) {
            self.one_less(&entry);
        }
    }

    fn one_less(&mut self, entry: &str) {
        if let Some(left) = self.left.get_mut(entry) {
            *left = left.saturating_sub(1);
        }
        self.settle_up(entry);
    }

    fn settle_up(&mut self, entry: &str) {
        if self.left.get(entry) == Some(&0) {
            self.left.remove(entry);
            self.spent.push(entry.to_owned());
        }
    }

    /// Entries that nothing needs any more.
    pub fn spent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> JobId {
        JobId::new(format!("job-{n}")).expect("an id")
    }

    #[test]
    fn an_entry_is_spent_with_its_last_lease() {
        let mut entries = Entries::default();
        entries.opened("a", [id(1), id(2)].iter());
        entries.ended(&id(1));
        assert_eq!(entries.spent(), [""; 0]);
        entries.ended(&id(1));
        assert_eq!(entries.spent(), [""; 0], "once ended is ended");
        entries.ended(&id(2));
        assert_eq!(entries.spent(), ["a"]);
        assert_eq!(entries.spent(), [""; 0]);
    }

    #[test]
    fn a_heartbeat_moves_leases_to_its_entry() {
        let mut entries = Entries::default();
        entries.opened("a", [id(1), id(2)].iter());
        entries.opened("b", [id(1)].iter());
        assert_eq!(entries.spent(), [""; 0]);
        entries.opened("c", [id(2)].iter());
        assert_eq!(entries.spent(), ["a"]);
        entries.ended(&id(1));
        assert_eq!(entries.spent(), ["b"]);
    }

    /// Two beats of one job in a call once made the entry of all of them look spent, while they ran.
    #[test]
    fn a_lease_that_is_named_twice_is_one_lease() {
        let mut entries = Entries::default();
        entries.opened("a", [id(1), id(1), id(2)].iter());
        assert_eq!(entries.spent(), [""; 0]);
        entries.opened("b", [id(1), id(1)].iter());
        entries.ended(&id(2));
        assert_eq!(entries.spent(), ["a"]);
        entries.ended(&id(1));
        assert_eq!(entries.spent(), ["b"]);
    }

    #[test]
    fn an_entry_without_a_lease_is_spent_at_once() {
        let mut entries = Entries::default();
        entries.opened("a", [].iter());
        assert_eq!(entries.spent(), ["a"]);
    }
}
