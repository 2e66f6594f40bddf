//! The macro that the families' tables are written in.

/// The storage form of a dtype.
macro_rules! cell {
    (Bool) => {
        u8
    };
    (I32) => {
        i32
    };
    (U32) => {
        u32
    };
    (I64) => {
        i64
    };
    (F32) => {
        f32
    };
}

/// Defines lane functions whose operands and result share one dtype:
///
/// ```text
/// /// What it computes.
/// fn add(a, b) { Bool => a | b; I32, U32, I64 => a.wrapping_add(b); F32 => canonical(a + b); }
/// fn floor(x) { F32 => …; } without Bool, I32, U32, I64
/// ```
///
/// Each becomes `fn add(operands: &[DType], result: DType) -> Option<Lane>`. The arms must name every dtype once, so a
/// new dtype does not compile until each function either has it or declares that it has not.
macro_rules! lanes {
    ($($(#[$doc:meta])* fn $name:ident $args:tt { $($($dtype:ident),+ => $body:expr;)+ } $(without $($absent:ident),+)?)+) => {$(
        $(#[$doc])*
        pub(super) fn $name(operands: &[DType], result: DType) -> Option<Lane> {
            match uniform(operands, result, lanes!(@arity $args))? {
                $($(DType::$dtype => Some(lanes!(@lane $args, cell!($dtype), $body)),)+)+
                $($(DType::$absent => None,)+)?
            }
        }
    )+};
    (@arity ($a:ident)) => { 1 };
    (@arity ($a:ident, $b:ident)) => { 2 };
    (@arity ($a:ident, $b:ident, $c:ident)) => { 3 };
    (@lane ($a:ident), $ty:ty, $body:expr) => {{
        struct Element;
        impl Unary for Element {
            type A = $ty;
            type R = $ty;
            #[inline(always)]
            fn apply($a: $ty) -> $ty {
                $body
            }
        }
        Lane::unary::<Element>()
    }};
    (@lane ($a:ident, $b:ident), $ty:ty, $body:expr) => {{
        struct Element;
        impl Binary for Element {
            type A = $ty;
            type B = $ty;
            type R = $ty;
            #[inline(always)]
            fn apply($a: $ty, $b: $ty) -> $ty {
                $body
            }
        }
        Lane::binary::<Element>()
    }};
    (@lane ($a:ident, $b:ident, $c:ident), $ty:ty, $body:expr) => {{
        struct Element;
        impl Ternary for Element {
            type A = $ty;
            type B = $ty;
            type C = $ty;
            type R = $ty;
            #[inline(always)]
            fn apply($a: $ty, $b: $ty, $c: $ty) -> $ty {
                $body
            }
        }
        Lane::ternary::<Element>()
    }};
}

pub(super) use {cell, lanes};
