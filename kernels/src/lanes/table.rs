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
    (F16) => {
        half::f16
    };
    (BF16) => {
        half::bf16
    };
    (F32) => {
        f32
    };
    (Float) => {
        f32
    };
    (CostlyFloat) => {
        f32
    };
    (HalfBits) => {
        u16
    };
}

/// The dtypes that a name in a table stands for.
macro_rules! dtypes {
    (Float) => {
        DType::F32 | DType::F16 | DType::BF16
    };
    (CostlyFloat) => {
        DType::F32 | DType::F16 | DType::BF16
    };
    (HalfBits) => {
        DType::F16 | DType::BF16
    };
    ($dtype:ident) => {
        DType::$dtype
    };
}

/// Defines lane functions whose operands and result share one dtype:
///
/// ```text
/// /// What it computes.
/// fn add(a, b) { Bool => a | b; I32, U32, I64 => a.wrapping_add(b); Float => canonical(a + b); }
/// fn exponential(x) { CostlyFloat => …; } without Bool, I32, U32, I64
/// fn negate(x) { …; HalfBits => x ^ 0x8000; F32 => …; } without Bool
/// ```
///
/// Each becomes `fn add(operands: &[DType], result: DType) -> Option<Lane>`. The arms must name every dtype once, so a
/// new dtype does not compile until each function either has it or declares that it has not.
///
/// `Float` and `CostlyFloat` are a function of `f32` that serves `F16` and `BF16` too, see `halves`. `HalfBits` is a
/// function of the bits of these two.
macro_rules! lanes {
    ($($(#[$doc:meta])* fn $name:ident $args:tt { $($($dtype:ident),+ => $body:expr;)+ } $(without $($absent:ident),+)?)+) => {$(
        $(#[$doc])*
        pub(super) fn $name(operands: &[DType], result: DType) -> Option<Lane> {
            let dtype = uniform(operands, result, lanes!(@arity $args))?;
            match dtype {
                $($(dtypes!($dtype) => Some(lanes!(@lane $args, $dtype, dtype, $body)),)+)+
                $($(dtypes!($absent) => None,)+)?
            }
        }
    )+};
    (@arity ($a:ident)) => { 1 };
    (@arity ($a:ident, $b:ident)) => { 2 };
    (@arity ($a:ident, $b:ident, $c:ident)) => { 3 };
    (@lane ($a:ident), $name:ident, $dtype:ident, $body:expr) => {{
        struct Element;
        impl Unary for Element {
            type A = cell!($name);
            type R = cell!($name);
            #[inline(always)]
            fn apply($a: cell!($name)) -> cell!($name) {
                $body
            }
        }
        lanes!(@of Element, $name, $dtype, unary, unary_float, costly_unary)
    }};
    (@lane ($a:ident, $b:ident), $name:ident, $dtype:ident, $body:expr) => {{
        struct Element;
        impl Binary for Element {
            type A = cell!($name);
            type B = cell!($name);
            type R = cell!($name);
            #[inline(always)]
            fn apply($a: cell!($name), $b: cell!($name)) -> cell!($name) {
                $body
            }
        }
        lanes!(@of Element, $name, $dtype, binary, binary_float, costly_binary)
    }};
    (@lane ($a:ident, $b:ident, $c:ident), $name:ident, $dtype:ident, $body:expr) => {{
        struct Element;
        impl Ternary for Element {
            type A = cell!($name);
            type B = cell!($name);
            type C = cell!($name);
            type R = cell!($name);
            #[inline(always)]
            fn apply($a: cell!($name), $b: cell!($name), $c: cell!($name)) -> cell!($name) {
                $body
            }
        }
        lanes!(@of Element, $name, $dtype, ternary, ternary_float, costly_ternary)
    }};
    (@of $element:ident, Float, $dtype:ident, $any:ident, $float:ident, $costly:ident) => {
        Lane::$float::<$element>($dtype)
    };
    (@of $element:ident, CostlyFloat, $dtype:ident, $any:ident, $float:ident, $costly:ident) => {
        Lane::$costly::<$element>($dtype)
    };
    (@of $element:ident, $name:ident, $dtype:ident, $any:ident, $float:ident, $costly:ident) => {
        Lane::$any::<$element>()
    };
}

pub(super) use {cell, dtypes, lanes};
