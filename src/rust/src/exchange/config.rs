// SPDX-License-Identifier: MIT
//! What an exchange is made of: `tlc_exchange_config` and `tlc_tensor`.

use crate::element::{Dtype, Isa};
use crate::error::{c_string, text, Result};
use crate::parallel::Parallel;
use crate::sys;
use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr;
use std::sync::Arc;

/// What all machines of an exchange agree on; dtype, seed, isa, keep, backup and parallel may differ. The header says
/// more of each field.
#[derive(Clone)]
pub struct Config {
    /// At least 1.
    pub workers: u32,
    /// 0: every rank is worker and owner (all-reduce).
    pub servers: u32,
    /// All-reduce: at most this many ranks own parts; 0: all.
    pub owners: u32,
    /// The answers that an owner keeps for those who fell behind.
    pub keep: u32,
    /// A server is ready when `workers - backup` have pushed.
    pub backup: u32,
    /// All-reduce: every rank sends its frames to all, and there is no second lossy step.
    pub gather: bool,
    /// Results are sums, not means.
    pub sum: bool,
    /// The codec of pushes. None: the default.
    pub push: Option<String>,
    /// The codec of answers. None: `pull_codec` of push.
    pub pull: Option<String>,
    /// Codecs that `set_codec` must be able to switch to, with ';' between them.
    pub reserve: String,
    /// Smaller tensors are sent raw, if they name no codec.
    pub min_n: usize,
    /// Tensors from this size on may be split among owners.
    pub split_n: usize,
    /// The caller has checked the gradients.
    pub assume_finite: bool,
    /// Of gradients and results.
    pub dtype: Dtype,
    /// Of stochastic codecs.
    pub seed: u64,
    /// The instructions.
    pub isa: Isa,
    /// The threads of the calls.
    pub parallel: Option<Arc<dyn Parallel>>,
}

impl Default for Config {
    fn default() -> Config {
        let c = sys::init(sys::tlc_exchange_config_init);
        Config {
            workers: c.workers,
            servers: c.servers,
            owners: c.owners,
            keep: c.keep,
            backup: c.backup,
            gather: c.gather != 0,
            sum: c.sum != 0,
            push: None,
            pull: None,
            reserve: String::new(),
            min_n: c.min_n,
            split_n: c.split_n,
            assume_finite: c.assume_finite != 0,
            dtype: Dtype::F32,
            seed: c.seed,
            isa: Isa::Auto,
            parallel: None,
        }
    }
}

/// A tensor of the exchange.
pub struct Tensor<'residual> {
    /// Not empty, unique in the object: states find their tensor by it.
    pub name: String,
    /// Values.
    pub n: usize,
    /// The codec of pushes. None: that of the configuration, or raw if `n < min_n`.
    pub push: Option<String>,
    /// The same of answers.
    pub pull: Option<String>,
    /// The residual of pushes: n values of the caller's, used as they are while the object lives. None: its own.
    pub residual: Option<&'residual mut [f32]>,
    /// The worker whose pushes alone count. None: those of all.
    pub only: Option<u32>,
}

impl Tensor<'_> {
    /// With the codecs of the configuration.
    pub fn new(name: &str, n: usize) -> Self {
        Tensor { name: name.to_string(), n, push: None, pull: None, residual: None, only: None }
    }
}

/// The codec of answers where none is given, for that of pushes; None: the default.
pub fn pull_codec(push: Option<&str>) -> Result<String> {
    let push = push.map(|push| c_string("push", push)).transpose()?;
    // SAFETY: a text or NULL; it returns one of the two, or a constant
    Ok(text(unsafe { sys::tlc_pull_codec(pointer(&push)) }))
}

pub(super) fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}
