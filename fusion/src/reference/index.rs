//! Index vectors in row-major order.

/// Every index vector within the extents, the last dimension counting fastest. Rank 0 has one, the empty one.
pub(super) fn all(extents: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let extents = extents.to_vec();
    let mut next = (!extents.contains(&0)).then(|| vec![0; extents.len()]);
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut successor = current.clone();
        for d in (0..extents.len()).rev() {
            successor[d] += 1;
            if successor[d] < extents[d] {
                next = Some(successor);
                break;
            }
            successor[d] = 0;
        }
        Some(current)
    })
}

/// The position of an index vector in row-major order.
pub(super) fn flatten(extents: &[usize], index: &[usize]) -> usize {
    assert_eq!(extents.len(), index.len(), "an index vector has one entry per dimension");
    let mut position = 0;
    for (&extent, &i) in extents.iter().zip(index) {
        assert!(i < extent, "an index lies within its extent");
        position = position * extent + i;
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_major() {
        let indices: Vec<_> = all(&[2, 2]).collect();
        assert_eq!(indices, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(all(&[]).count(), 1);
        assert_eq!(all(&[3, 0]).count(), 0);
        for (position, index) in all(&[2, 3, 4]).enumerate() {
            assert_eq!(flatten(&[2, 3, 4], &index), position);
        }
    }
}
