// SPDX-License-Identifier: MIT
//! What values are, and the instructions that kernels use.

use crate::error::{refuse, Result};
use crate::sys;

/// What values are: `tlc_dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
#[allow(missing_docs)] // as in the header
pub enum Dtype {
    #[default]
    F32 = sys::TLC_F32,
    F16 = sys::TLC_F16,
    BF16 = sys::TLC_BF16,
    F8E4M3 = sys::TLC_F8_E4M3,
    F8E5M2 = sys::TLC_F8_E5M2,
    F4E2M1 = sys::TLC_F4_E2M1,
    U8 = sys::TLC_U8,
    U4 = sys::TLC_U4,
    I32 = sys::TLC_I32,
    I64 = sys::TLC_I64,
    F64 = sys::TLC_F64,
}

impl Dtype {
    const ALL: [Dtype; 11] = [
        Dtype::F32,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F8E4M3,
        Dtype::F8E5M2,
        Dtype::F4E2M1,
        Dtype::U8,
        Dtype::U4,
        Dtype::I32,
        Dtype::I64,
        Dtype::F64,
    ];

    pub(crate) fn of(number: sys::tlc_dtype) -> Result<Dtype> {
        let found = Dtype::ALL.into_iter().find(|dtype| *dtype as u32 == number);
        found.map_or_else(|| refuse(format!("dtype {} is that of a newer library", number)), Ok)
    }
}

/// The instructions that kernels use. All have the same results: `tlc_isa`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
#[allow(missing_docs)] // as in the header
pub enum Isa {
    #[default]
    Auto = sys::TLC_ISA_AUTO,
    Scalar = sys::TLC_ISA_SCALAR,
    Avx2 = sys::TLC_ISA_AVX2,
    Avx512 = sys::TLC_ISA_AVX512,
    Neon = sys::TLC_ISA_NEON,
}

impl Isa {
    /// All of them, whether this machine has them or not.
    pub const ALL: [Isa; 5] = [Isa::Auto, Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Neon];

    /// It is built in, and this machine can run it.
    pub fn is_supported(self) -> bool {
        // SAFETY: any number is allowed
        unsafe { sys::tlc_isa_supported(self as u32) != 0 }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A value, or two that share a byte. Any bits are one.
///
/// Other crates cannot implement it: slices of these types go to the library as they are.
pub trait Element: sealed::Sealed + Copy {
    /// What it is.
    const DTYPE: Dtype;
    /// How many values one has: 1, or 2 of 4 bits.
    const VALUES: usize = 1;
}

/// How many values a slice has.
pub(crate) fn values<T: Element>(slice: &[T]) -> usize {
    slice.len() * T::VALUES
}

macro_rules! plain {
    ($($name:ty: $dtype:ident;)*) => {
        $(
            impl sealed::Sealed for $name {}
            impl Element for $name {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
    };
}

/// Bits that are no type of Rust.
macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident($bits:ty): $dtype:ident, $values:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            #[repr(transparent)]
            pub struct $name(pub $bits);

            impl sealed::Sealed for $name {}
            impl Element for $name {
                const DTYPE: Dtype = Dtype::$dtype;
                const VALUES: usize = $values;
            }
        )*
    };
}

plain! {
    f32: F32;
    f64: F64;
    i32: I32;
    i64: I64;
    u8: U8;
}

bits! {
    /// The bits of an IEEE binary16.
    F16(u16): F16, 1;
    /// The bits of a bfloat16: the upper half of an `f32`.
    BF16(u16): BF16, 1;
    /// 8 bits: sign, 4 of the exponent, 3 of the mantissa.
    F8E4M3(u8): F8E4M3, 1;
    /// 8 bits: sign, 5 of the exponent, 2 of the mantissa.
    F8E5M2(u8): F8E5M2, 1;
    /// Two values: sign, 2 bits of the exponent, 1 of the mantissa; the first in the lower half.
    F4E2M1Pair(u8): F4E2M1, 2;
    /// Two integers of 4 bits, the first in the lower half.
    U4Pair(u8): U4, 2;
}
