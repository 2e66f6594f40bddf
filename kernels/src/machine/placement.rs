//! Where overlaid buffers lie, and what the indices of gathers clamp to, in one launch.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::program::{Extent, Low, Placement, Reg};

use super::error::RunError;
use super::resolve::{Group, Merged};

/// An overlaid buffer along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Index of coordinate 0.
    pub(crate) low: i64,
    /// Indices from one coordinate to the next.
    pub(crate) step: i64,
    /// Number of coordinates.
    pub(crate) count: i64,
    /// Elements from one coordinate to the next.
    pub(crate) stride: i64,
}

impl Placed {
    /// Along an axis that the buffer has no dimension for, it shows everywhere.
    const EVERYWHERE: Placed = Placed { low: 0, step: 1, count: i64::MAX, stride: 0 };

    /// Offset of what lies at `index`, if something does.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> Option<i64> {
        let from = index as i64 - self.low;
        let hit = from >= 0 && (self.step == 1 || from % self.step == 0);
        let coordinate = if self.step == 1 { from } else { from / self.step };
        (hit && coordinate < self.count).then_some(coordinate * self.stride)
    }
}

/// Where an overlaid buffer lies, per axis of each group.
#[derive(Clone, Debug)]
pub(crate) struct Overlaid {
    /// Offset that axes of one index contribute; `None` where one of them is not covered.
    pub(crate) base: Option<i64>,
    pub(crate) outer: SmallVec<[Placed; 2]>,
    pub(crate) rows: SmallVec<[Placed; 2]>,
    pub(crate) cols: SmallVec<[Placed; 2]>,
    /// Axes along which the place is a number of the launch's data; they have the place 0 above.
    moving: SmallVec<[Moving; 2]>,
}

/// An axis along which an overlaid buffer's place is in a register.
#[derive(Clone, Copy, Debug)]
struct Moving {
    group: Group,
    /// Among the group's axes.
    position: usize,
    number: Reg,
    /// The greatest place at which the buffer fits.
    greatest: i64,
}

impl Overlaid {
    /// Resolves the placements of a buffer of that shape.
    pub(crate) fn new(
        placement: &[Placement],
        shape: &[Extent],
        params: &[i64],
        kept: &[Merged],
    ) -> Result<Self, RunError> {
        let everywhere = |group: Group| -> SmallVec<[Placed; 2]> {
            kept.iter().filter(|axis| axis.group == group).map(|_| Placed::EVERYWHERE).collect()
        };
        let mut overlaid = Overlaid {
            base: Some(0),
            outer: everywhere(Group::Outer),
            rows: everywhere(Group::Rows),
            cols: everywhere(Group::Cols),
            moving: SmallVec::new(),
        };
        let mut stride = 1i64;
        for (place, extent) in placement.iter().zip(shape).rev() {
            let count = extent.resolve(params);
            let interior = place.interior.resolve(params);
            if interior < 0 {
                return Err(RunError::arguments(format!("interior padding of {interior}")));
            }
            let step = interior.saturating_add(1);
            let (low, number) = match place.low {
                Low::At(low) => (low.resolve(params), None),
                Low::Clamped(number) => (0, Some(number)),
            };
            overlaid.place(usize::from(place.axis), Placed { low, step, count, stride }, number, kept)?;
            stride = stride.wrapping_mul(count);
        }
        Ok(overlaid)
    }

    fn place(&mut self, axis: usize, placed: Placed, number: Option<Reg>, kept: &[Merged]) -> Result<(), RunError> {
        let found = kept.iter().position(|kept| kept.axis == axis);
        let extent = found.map_or(1, |found| kept[found].extent as i64);
        if number.is_some() && placed.count > extent {
            return Err(RunError::arguments(format!("{} coordinates laid over {extent}", placed.count)));
        }
        let Some(found) = found else {
            // The axes of an overlay are not merged, so it has one index, and a number clamps to that.
            self.base = self.base.zip(placed.at(0)).map(|(base, offset)| base + offset);
            return Ok(());
        };
        let group = kept[found].group;
        let position = kept[..found].iter().filter(|other| other.group == group).count();
        self.along(group)[position] = placed;
        if let Some(number) = number {
            self.moving.push(Moving { group, position, number, greatest: extent - placed.count });
        }
        Ok(())
    }

    fn along(&mut self, group: Group) -> &mut SmallVec<[Placed; 2]> {
        match group {
            Group::Outer => &mut self.outer,
            Group::Rows => &mut self.rows,
            Group::Cols => &mut self.cols,
            Group::Contract => unreachable!("an overlay lies in the domain"),
        }
    }

    /// The placement with the numbers of registers in it.
    pub(crate) fn moved(&self, number: impl Fn(Reg) -> i64) -> Cow<'_, Overlaid> {
        let mut placed = Cow::Borrowed(self);
        for &Moving { group, position, number: register, greatest } in &self.moving {
            placed.to_mut().along(group)[position].low = number(register).clamp(0, greatest);
        }
        placed
    }
}

/// What each component of a gather clamps to and its stride, and the greatest offset that all together can add; `None`
/// where a slice exceeds its dimension.
pub(crate) fn components(
    parts: impl Iterator<Item = (usize, Extent)>,
    shape: &[Extent],
    params: &[i64],
    out: &mut SmallVec<[(i64, i64); 1]>,
) -> Option<i64> {
    let mut most = Some(0i64);
    for (dim, slice) in parts {
        let stride = shape[dim + 1..].iter().fold(1i64, |stride, extent| stride.wrapping_mul(extent.resolve(params)));
        let greatest = shape[dim].resolve(params).wrapping_sub(slice.resolve(params));
        let along = greatest.checked_mul(stride).filter(|_| greatest >= 0);
        most = most.zip(along).and_then(|(most, along)| most.checked_add(along));
        out.push((greatest, stride));
    }
    most
}
