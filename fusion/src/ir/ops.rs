//! **The op table.** One row per op; everything else about an op follows from its row and its class.
//!
//! A row gives: opcode, dialect and mnemonic, the Rust method, class, admitted dtypes, lane function, what happens to
//! NaN payloads, and accuracy. [`op_table!`](crate::op_table) hands the rows to a macro of the caller's choice, so that
//! other crates (public methods, generated docs) grow from the same rows. Adding an elementwise op is one row here and
//! one lane kernel in `systole-kernels`: see docs/adding-an-op.md.

use systole_kernels::DType;
use systole_kernels::program::LaneOp;

/// Calls `$callback! { rows }` with the whole table.
#[macro_export]
macro_rules! op_table {
    ($callback:path) => {
        $callback! {
            /// A constant: dense elements, or one element splat over a shape.
            Constant "stablehlo.constant" constant: Source, dtypes Any, lane None, nan Preserved, Exact;
            /// The index along one dimension.
            Iota "stablehlo.iota" iota: Source, dtypes Number, lane None, nan Preserved, Exact;

            /// Absolute value; clears the sign bit of a float, wraps for the least integer.
            Abs "stablehlo.abs" abs: Unary, dtypes Signed, lane Abs, nan Preserved, Exact;
            /// Negation; flips the sign bit of a float, wraps for integers.
            Negate "stablehlo.negate" neg: Unary, dtypes Number, lane Negate, nan Preserved, Exact;
            /// −1, 0 or 1 as the sign of the operand; keeps −0, +0 and NaN.
            Sign "stablehlo.sign" sign: Unary, dtypes Signed, lane Sign, nan Canonical, Exact;
            /// e to the power of the operand.
            Exponential "stablehlo.exponential" exp: Unary, dtypes Float, lane Exponential, nan Canonical, CorrectlyRounded;
            /// Natural logarithm.
            Log "stablehlo.log" log: Unary, dtypes Float, lane Log, nan Canonical, CorrectlyRounded;
            /// Hyperbolic tangent.
            Tanh "stablehlo.tanh" tanh: Unary, dtypes Float, lane Tanh, nan Canonical, CorrectlyRounded;
            /// The logistic function, 1 / (1 + e^−x).
            Logistic "stablehlo.logistic" logistic: Unary, dtypes Float, lane Logistic, nan Canonical, CorrectlyRounded;
            /// The error function, 2/√π · ∫₀ˣ e^−t² dt.
            Erf "chlo.erf" erf: Unary, dtypes Float, lane Erf, nan Canonical, CorrectlyRounded;
            /// e to the power of the operand, minus 1; exact also near 0.
            ExponentialMinusOne "stablehlo.exponential_minus_one" expm1: Unary, dtypes Float, lane ExponentialMinusOne, nan Canonical, CorrectlyRounded;
            /// Natural logarithm of 1 plus the operand; exact also near 0.
            LogPlusOne "stablehlo.log_plus_one" log1p: Unary, dtypes Float, lane LogPlusOne, nan Canonical, CorrectlyRounded;
            /// Sine of an angle in radians.
            Sine "stablehlo.sine" sin: Unary, dtypes Float, lane Sine, nan Canonical, CorrectlyRounded;
            /// Cosine of an angle in radians.
            Cosine "stablehlo.cosine" cos: Unary, dtypes Float, lane Cosine, nan Canonical, CorrectlyRounded;
            /// Cube root, with the operand's sign.
            Cbrt "stablehlo.cbrt" cbrt: Unary, dtypes Float, lane Cbrt, nan Canonical, CorrectlyRounded;
            /// Square root.
            Sqrt "stablehlo.sqrt" sqrt: Unary, dtypes Float, lane Sqrt, nan Canonical, CorrectlyRounded;
            /// Reciprocal square root.
            Rsqrt "stablehlo.rsqrt" rsqrt: Unary, dtypes Float, lane Rsqrt, nan Canonical, CorrectlyRounded;
            /// The largest integer not above the operand.
            Floor "stablehlo.floor" floor: Unary, dtypes Float, lane Floor, nan Canonical, Exact;
            /// The smallest integer not below the operand.
            Ceil "stablehlo.ceil" ceil: Unary, dtypes Float, lane Ceil, nan Canonical, Exact;
            /// Whether the operand is neither infinite nor NaN; the result is bool.
            IsFinite "stablehlo.is_finite" is_finite: Predicate, dtypes Float, lane IsFinite, nan Preserved, Exact;
            /// Bitwise complement; logical complement of bools.
            Not "stablehlo.not" not: Unary, dtypes Bits, lane Not, nan Preserved, Exact;

            /// Sum; logical or of bools.
            Add "stablehlo.add" add: Binary, dtypes Any, lane Add, nan Canonical, CorrectlyRounded;
            /// Difference.
            Subtract "stablehlo.subtract" sub: Binary, dtypes Number, lane Subtract, nan Canonical, CorrectlyRounded;
            /// Product; logical and of bools.
            Multiply "stablehlo.multiply" mul: Binary, dtypes Any, lane Multiply, nan Canonical, CorrectlyRounded;
            /// Quotient; integers truncate, x / 0 is −1 (all bits set), MIN / −1 wraps to MIN.
            Divide "stablehlo.divide" div: Binary, dtypes Number, lane Divide, nan Canonical, CorrectlyRounded;
            /// The larger; NaN wins over numbers, +0 over −0; logical or of bools.
            Maximum "stablehlo.maximum" maximum: Binary, dtypes Any, lane Maximum, nan Canonical, Exact;
            /// The smaller; NaN wins over numbers, −0 over +0; logical and of bools.
            Minimum "stablehlo.minimum" minimum: Binary, dtypes Any, lane Minimum, nan Canonical, Exact;
            /// The first to the power of the second; integers wrap, and a negative exponent gives 0 but for bases 1 and −1.
            Power "stablehlo.power" pow: Binary, dtypes Number, lane Power, nan Canonical, CorrectlyRounded;
            /// Remainder of the truncated quotient, with the dividend's sign; x rem 0 is x for integers, NaN for floats.
            Remainder "stablehlo.remainder" rem: Binary, dtypes Number, lane Remainder, nan Canonical, Exact;
            /// The angle of the point (second, first) in −π … π.
            Atan2 "stablehlo.atan2" atan2: Binary, dtypes Float, lane Atan2, nan Canonical, CorrectlyRounded;
            /// Bitwise and; logical and of bools.
            And "stablehlo.and" and: Binary, dtypes Bits, lane And, nan Preserved, Exact;
            /// Bitwise or; logical or of bools.
            Or "stablehlo.or" or: Binary, dtypes Bits, lane Or, nan Preserved, Exact;
            /// Bitwise exclusive or; logical exclusive or of bools.
            Xor "stablehlo.xor" xor: Binary, dtypes Bits, lane Xor, nan Preserved, Exact;

            /// Elementwise comparison; the result is bool.
            Compare "stablehlo.compare" compare: Compare, dtypes Any, lane None, nan Preserved, Exact;
            /// The second operand where the first (bool, same shape or scalar) holds, else the third.
            Select "stablehlo.select" select: Select, dtypes Any, lane Select, nan Preserved, Exact;
            /// `minimum(maximum(operand, min), max)`; bounds of the operand's shape or scalars.
            Clamp "stablehlo.clamp" clamp: Select, dtypes Any, lane Clamp, nan Canonical, Exact;
            /// Another dtype: floats to integers truncate and saturate (NaN to 0), to bool `x != 0`, integers wrap.
            Convert "stablehlo.convert" convert: Convert, dtypes Any, lane Convert, nan Canonical, CorrectlyRounded;
            /// The operand's bits as another dtype of the same width.
            BitcastConvert "stablehlo.bitcast_convert" bitcast_convert: Convert, dtypes Any, lane Bitcast, nan Preserved, Exact;

            /// The operand's dimensions placed into a larger shape; extent 1 and absent dimensions repeat.
            BroadcastInDim "stablehlo.broadcast_in_dim" broadcast_in_dim: View, dtypes Any, lane None, nan Preserved, Exact;
            /// The same elements in row-major order under another shape.
            Reshape "stablehlo.reshape" reshape: View, dtypes Any, lane None, nan Preserved, Exact;
            /// Dimensions permuted.
            Transpose "stablehlo.transpose" transpose: View, dtypes Any, lane None, nan Preserved, Exact;
            /// A strided box of the operand.
            Slice "stablehlo.slice" slice: View, dtypes Any, lane None, nan Preserved, Exact;
            /// The order of elements along some dimensions reversed.
            Reverse "stablehlo.reverse" reverse: View, dtypes Any, lane None, nan Preserved, Exact;
            /// Operands one after another along one dimension.
            Concatenate "stablehlo.concatenate" concatenate: Overlay, dtypes Any, lane None, nan Preserved, Exact;
            /// The operand with padding around and between its elements; negative amounts cut.
            Pad "stablehlo.pad" pad: Overlay, dtypes Any, lane None, nan Preserved, Exact;
            /// The operand with a box of it exchanged for the update, at a start that is data; the start clamps so that the box fits.
            DynamicUpdateSlice "stablehlo.dynamic_update_slice" dynamic_update_slice: Overlay, dtypes Any, lane None, nan Preserved, Exact;

            /// Combines along dimensions with a body and an initial value, in the contract's order.
            Reduce "stablehlo.reduce" reduce: Reduce, dtypes Any, lane None, nan Canonical, ByOrder;
            /// Generalised matrix product, in the contract's order.
            DotGeneral "stablehlo.dot_general" dot_general: Contract, dtypes Number, lane None, nan Canonical, ByOrder;
            /// Slices of the operand at start indices from a tensor; indices out of range clamp.
            Gather "stablehlo.gather" gather: Gather, dtypes Any, lane None, nan Preserved, Exact;
            /// A box of the operand at a start that is data; the start clamps so that the box fits.
            DynamicSlice "stablehlo.dynamic_slice" dynamic_slice: Gather, dtypes Any, lane None, nan Preserved, Exact;
        }
    };
}

/// What ops have in common; carries inference, legality, loop shape and lowering.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpClass {
    /// No operands: constants and index sequences.
    Source,
    /// One operand, element by element.
    Unary,
    /// One operand, element by element, to bool.
    Predicate,
    /// Two operands of one type, element by element.
    Binary,
    /// Two operands of one type to bool.
    Compare,
    /// Three operands, of which some may be scalars: `select`, `clamp`.
    Select,
    /// Element by element to another dtype.
    Convert,
    /// One operand's elements seen otherwise: every result element is one of the operand's, at affine coordinates.
    View,
    /// Operands laid over one another or over a background.
    Overlay,
    /// Dimensions combined away.
    Reduce,
    /// Sums of products over contracted dimensions.
    Contract,
    /// Elements moved by indices that are data.
    Gather,
}

/// Sets of dtypes that a row admits for its data operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dtypes {
    /// All.
    Any,
    /// Integers and floats.
    Number,
    /// Signed integers and floats.
    Signed,
    /// Floats.
    Float,
    /// Bool and integers.
    Bits,
}

impl Dtypes {
    /// Whether the set has `dtype`.
    pub fn admits(self, dtype: DType) -> bool {
        match self {
            Dtypes::Any => true,
            Dtypes::Number => dtype.is_integer() || dtype.is_float(),
            Dtypes::Signed => dtype.is_signed(),
            Dtypes::Float => dtype.is_float(),
            Dtypes::Bits => dtype.is_integer() || dtype == DType::Bool,
        }
    }

    /// The set in words, for errors.
    pub fn describe(self) -> &'static str {
        match self {
            Dtypes::Any => "any dtype",
            Dtypes::Number => "an integer or float dtype",
            Dtypes::Signed => "a signed integer or float dtype",
            Dtypes::Float => "a float dtype",
            Dtypes::Bits => "bool or an integer dtype",
        }
    }
}

/// What an op does with NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Nan {
    /// Arithmetic: a NaN result is the canonical quiet NaN of its type.
    Canonical,
    /// Bit-preserving: payloads pass through.
    Preserved,
}

/// How exact a float result is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Accuracy {
    /// No rounding takes place.
    Exact,
    /// The real result, rounded once to nearest even.
    CorrectlyRounded,
    /// Rounded at each step, in the order that docs/numerics.md fixes.
    ByOrder,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Dialect and mnemonic, as in text: `stablehlo.add`.
    pub name: &'static str,
    /// Name of the Rust method on `Tensor`.
    pub method: &'static str,
    /// First sentence of the row's documentation.
    pub doc: &'static str,
    /// Class.
    pub class: OpClass,
    /// Dtypes admitted for data operands.
    pub dtypes: Dtypes,
    /// Lane function, where the op is one.
    pub lane: Option<LaneOp>,
    /// NaN rule.
    pub nan: Nan,
    /// Accuracy for floats.
    pub accuracy: Accuracy,
}

macro_rules! lane {
    (None) => {
        None
    };
    ($lane:ident) => {
        Some(LaneOp::$lane)
    };
}

macro_rules! define_opcodes {
    ($(#[doc = $doc:literal] $opcode:ident $name:literal $method:ident: $class:ident, dtypes $dtypes:ident,
        lane $lane:ident, nan $nan:ident, $accuracy:ident;)*) => {
        /// An operation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Opcode {
            $(#[doc = $doc] $opcode,)*
        }

        const TABLE: &[OpInfo] = &[$(OpInfo {
            opcode: Opcode::$opcode,
            name: $name,
            method: stringify!($method),
            doc: $doc.trim_ascii(),
            class: OpClass::$class,
            dtypes: Dtypes::$dtypes,
            lane: lane!($lane),
            nan: Nan::$nan,
            accuracy: Accuracy::$accuracy,
        },)*];

        impl Opcode {
            /// Every op, in table order.
            pub const ALL: &[Opcode] = &[$(Opcode::$opcode,)*];
        }
    };
}

op_table!(define_opcodes);

impl Opcode {
    /// The op's row.
    pub fn info(self) -> &'static OpInfo {
        &TABLE[self as usize]
    }

    /// Class of the op.
    pub fn class(self) -> OpClass {
        self.info().class
    }

    /// Dialect and mnemonic: `stablehlo.add`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Name without the dialect: `add`.
    pub fn mnemonic(self) -> &'static str {
        self.name().split_once('.').map_or(self.name(), |(_, mnemonic)| mnemonic)
    }

    /// The op of that full name (`stablehlo.add`).
    pub fn from_name(name: &str) -> Option<Opcode> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.opcode)
    }
}

impl std::fmt::Display for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.mnemonic())
    }
}
