// SPDX-License-Identifier: MIT
//! The C interface, header by header, written by hand. The comments of the headers are its documentation.
//!
//! `bundle.h`, `frames.h`, `local.h`, `stages.h` and `mpi.h` are left out.

#![allow(non_camel_case_types, missing_docs)]

#[macro_use]
mod declare;

mod delta;
mod exchange;
mod gossip;
mod threelc;
mod weights;

pub use self::threelc::*;
pub use delta::*;
pub use exchange::*;
pub use gossip::*;
pub use weights::*;

#[cfg(test)]
mod same_as_c;

/// A struct as its `_init` sets it.
pub(crate) fn init<T: Copy>(init: unsafe extern "C" fn(*mut T, usize) -> tlc_status) -> T {
    let mut made = std::mem::MaybeUninit::zeroed();
    // SAFETY: T is a struct of this module, in which zeros are allowed, and init knows its size
    unsafe {
        let status = init(made.as_mut_ptr(), std::mem::size_of::<T>());
        assert_eq!(status, TLC_OK);
        made.assume_init()
    }
}
