//! Label values are bounded: a client that makes up names makes no new series.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Values of one label.
const MOST: usize = 500;

/// The value, or `other` once there are too many.
pub fn bounded(label: &'static str, value: &str) -> String {
    static KNOWN: OnceLock<Mutex<HashMap<&'static str, HashSet<String>>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let values = known.entry(label).or_default();
    if values.contains(value) {
        return value.to_owned();
    }
    if values.len() >= MOST {
        return "other".to_owned();
    }
    values.insert(value.to_owned());
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_make_no_new_series_for_ever() {
        for n in 0..MOST {
            assert_eq!(bounded("test", &n.to_string()), n.to_string());
        }
        assert_eq!(bounded("test", "one more"), "other");
        assert_eq!(bounded("test", "7"), "7");
    }
}
