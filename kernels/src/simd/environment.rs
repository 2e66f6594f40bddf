//! The floating-point environment.

/// Runs `op` with round-to-nearest, no flushing of subnormals and no traps, whatever the calling thread had set, and
/// puts the caller's setting back afterwards. Programs run inside this, so that a host which flushes subnormals on its
/// threads (and passes that on to threads it starts) cannot change a bit.
#[inline]
pub fn with_default_float_environment<R>(op: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        /// All exceptions masked, round to nearest, no flush-to-zero, no denormals-are-zero.
        const DEFAULT_MXCSR: u32 = 0x1f80;
        struct Restore(u32);
        impl Drop for Restore {
            fn drop(&mut self) {
                // SAFETY: `self.0` was read from MXCSR, so it sets no reserved bit.
                unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &self.0, options(nostack, readonly)) };
            }
        }
        let mut caller = 0u32;
        // SAFETY: SSE is in the x86-64 baseline; stores four bytes to `caller`.
        unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &mut caller, options(nostack)) };
        if caller & !0x3f == DEFAULT_MXCSR {
            return op();
        }
        let _restore = Restore(caller);
        // SAFETY: the default value sets no reserved bit.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &DEFAULT_MXCSR, options(nostack, readonly)) };
        op()
    }
    #[cfg(not(target_arch = "x86_64"))]
    op()
}
