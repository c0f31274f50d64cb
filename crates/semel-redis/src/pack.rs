//! Members of the order of dispatch: one job, or several that came together.
//!
//! A job by itself is its arrival and its id, 24 bytes. Jobs that were admitted by one call, due at once and in the same
//! moment, share a member, a pack: that of the first, for each other one the last two bytes of its arrival and its id,
//! and a last byte that tells a pack from a job by itself. Of whoever is in a pack and has no head nothing has happened
//! since it was born, and neither a lease nor time changes what it has of its key.
//!
//! Nobody stands between the first and the last of a pack at the same moment: `apply.lua` parts a pack before it puts
//! somebody there. So members are in the order of their jobs.

use crate::jobs::{member, parse_member};
use crate::keys::Id;

/// Bytes of a job by itself.
const ALONE: usize = 24;
/// Bytes of each other job in a pack.
const NEXT: usize = 18;
/// What a pack ends with.
const PACKED: u8 = b'p';
/// Arrivals that two bytes tell apart.
const SPAN: i64 = 1 << 16;

/// A member for jobs in the order of their arrival; none if there are none, or if they are too far apart.
pub fn pack(jobs: impl IntoIterator<Item = (i64, Id)>) -> Option<Vec<u8>> {
    let mut jobs = jobs.into_iter();
    let (first, id) = jobs.next()?;
    let mut pack = member(first, &id).to_vec();
    for (seq, id) in jobs {
        if !(1..SPAN).contains(&(seq - first)) {
            return None;
        }
        // The last two bytes of the arrival, and the id.
        pack.extend_from_slice(&member(seq, &id)[6..]);
    }
    pack.push(PACKED);
    Some(pack)
}

/// The jobs of a member, in the order of their arrival; none if it is no member of the order of dispatch.
pub fn jobs_in(member: &[u8]) -> Option<Vec<(i64, Id)>> {
    let (first, rest) = member.split_at_checked(ALONE)?;
    let first = parse_member(first)?;
    let Some((&PACKED, rest)) = rest.split_last() else {
        return rest.is_empty().then(|| vec![first]);
    };
    let (others, []) = rest.as_chunks::<NEXT>() else {
        return None;
    };
    let mut jobs = Vec::with_capacity(1 + others.len());
    jobs.push(first);
    for other in others {
        let (last, id) = other.split_first_chunk::<2>()?;
        let later = (i64::from(u16::from_be_bytes(*last)) - first.0).rem_euclid(SPAN);
        jobs.push((first.0 + later, Id(id.try_into().ok()?)));
    }
    Some(jobs)
}

/// How many jobs a member stands for.
pub fn count(member: &[u8]) -> usize {
    1 + member.len().saturating_sub(ALONE) / NEXT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Id {
        Id([n; 16])
    }

    #[test]
    fn what_is_packed_is_found_again() {
        for jobs in [
            vec![(7, id(1))],
            vec![(7, id(1)), (8, id(2))],
            vec![(255, id(3)), (300, id(4)), (1_255, id(5))],
            vec![(65_530, id(6)), (65_535, id(7)), (65_536, id(8)), (70_000, id(9))],
        ] {
            let packed = pack(jobs.iter().copied()).unwrap();
            assert_eq!(count(&packed), jobs.len());
            assert_eq!(packed.len(), 25 + 18 * (jobs.len() - 1));
            assert_eq!(jobs_in(&packed), Some(jobs));
        }
        assert_eq!(jobs_in(&member(9, &id(6))), Some(vec![(9, id(6))]));
        assert_eq!(count(&member(9, &id(6))), 1);
    }

    #[test]
    fn what_cannot_be_a_member_is_none() {
        let whole = pack([(7, id(1)), (8, id(2))]).unwrap();
        for broken in [&whole[..23], &whole[..30], &whole[..whole.len() - 1]] {
            assert_eq!(jobs_in(broken), None);
        }
        assert_eq!(pack([(1, id(1)), (70_000, id(2))]), None);
        assert_eq!(pack([]), None);
    }

    #[test]
    fn members_are_in_the_order_of_arrival() {
        let packed = pack([(7, id(9)), (8, id(2))]).unwrap();
        assert!(member(6, &id(255)).as_slice() < packed.as_slice());
        assert!(packed.as_slice() < member(9, &id(0)).as_slice());
    }
}
