// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod delta;
pub mod exchange;
pub mod gossip;
pub mod sys;

mod context;
mod decode;
mod element;
mod error;
mod parallel;

pub use context::{check_codec, codec_bound, Config, Context};
pub use decode::{explain, inspect, peek, Decoder, Format, FrameInfo};
pub use element::{Dtype, Element, F4E2M1Pair, Isa, U4Pair, BF16, F16, F8E4M3, F8E5M2};
pub use error::{Error, Result, Status};
pub use parallel::{Parallel, Threads};

/// The version of the library that runs: major * 10000 + minor * 100 + patch.
pub fn version() -> u32 {
    // SAFETY: it takes nothing
    unsafe { sys::tlc_version() }
}
