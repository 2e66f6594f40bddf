//! Elements moved, none computed.

/// Fills `dst` with the element of `size` bytes whose bits are given.
#[inline(always)]
pub(crate) fn fill(dst: &mut [u8], size: usize, bits: u64) {
    match size {
        1 => dst.fill(bits as u8),
        4 => bytemuck::cast_slice_mut::<u8, u32>(dst).fill(bits as u32),
        _ => bytemuck::cast_slice_mut::<u8, u64>(dst).fill(bits),
    }
}
