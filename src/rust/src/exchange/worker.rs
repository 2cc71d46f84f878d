// SPDX-License-Identifier: MIT
//! The worker of a parameter server.

use super::{bytes, Config, Handle, Outcome, Tensor};
use crate::element::Element;
use crate::error::{c_string, refuse, Result};
use crate::sys;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr;

/// Pushes gradients, pulls answers: `tlc_worker`.
///
/// What `push` returns is the object's until the next push, so the compiler refuses to keep it:
///
/// ```compile_fail,E0499
/// # fn f(worker: &mut threelc::exchange::Worker) -> threelc::Result<()> {
/// let messages = worker.push(&[&[0f32; 4]], 1.0)?;
/// worker.push(&[&[0f32; 4]], 1.0)?;
/// println!("{}", messages.len());
/// # Ok(()) }
/// ```
pub struct Worker<'residual> {
    handle: Handle<sys::tlc_worker>,
    servers: u32,
    _residuals: PhantomData<&'residual mut [f32]>,
}

// SAFETY: an object serves any thread, one at a time; memory and threads of the caller are Send
unsafe impl Send for Worker<'_> {}

impl<'residual> Worker<'residual> {
    /// Worker 0 .. workers - 1. Residuals of tensors are its own as long as it lives.
    pub fn new(config: &Config, worker: u32, mut tensors: Vec<Tensor<'residual>>) -> Result<Self> {
        let handle = Handle::new(config, &mut tensors, sys::tlc_worker_destroy, |out, c, tensors| {
            // SAFETY: all of it lives to the end of the call
            unsafe { sys::tlc_worker_create(out, c, worker, tensors.as_ptr(), tensors.len()) }
        })?;
        Ok(Worker { handle, servers: config.servers, _residuals: PhantomData })
    }

    fn done(&self, status: sys::tlc_status) -> Result<()> {
        self.handle.done(status, || {
            // that of the server that the call failed for
            let mut outcomes = (0..self.servers).filter_map(|server| self.outcome(server).ok());
            let failed = outcomes.find(|outcome| outcome.status.is_some());
            failed.map_or_else(|| self.outcome(0), Ok)
        })
    }

    /// Makes the pushes of a step: message i is for server i. A slice for each tensor; it may be empty where the tensor
    /// is another worker's. weight: in the mean, usually 1. If a gradient is not finite, the messages say so, and the
    /// whole gradient is dropped.
    pub fn push<T: Element>(&mut self, gradients: &[&[T]], weight: f64) -> Result<Vec<&[u8]>> {
        let gradients = self.handle.gradients(gradients)?;
        self.push_from(gradients.as_ptr(), weight)
    }

    /// The messages of a worker that is not in the round.
    pub fn push_nothing(&mut self) -> Result<Vec<&[u8]>> {
        self.push_from(ptr::null(), 1.0)
    }

    fn push_from(&mut self, gradients: *const *const c_void, weight: f64) -> Result<Vec<&[u8]>> {
        let mut to = vec![sys::tlc_message { data: ptr::null(), len: 0 }; self.servers as usize];
        // SAFETY: a gradient for each tensor, a place for each server
        self.done(unsafe { sys::tlc_worker_push(self.handle.get(), gradients, weight, to.as_mut_ptr()) })?;
        // SAFETY: they stay until the next push, which needs &mut self
        Ok(to.into_iter().map(|message| unsafe { bytes(message) }).collect())
    }

    /// Ends the step. Message i came from server i. A slice for each tensor.
    ///
    /// `Status::Step`: the step failed on a server: its parts of `out` are not written. Other failures: a message is at
    /// fault; fetch it again, and repeat the call.
    pub fn pull<T: Element>(&mut self, from: &[&[u8]], out: &mut [&mut [T]]) -> Result<()> {
        let (from, out) = (self.handle.from(from, self.servers as usize)?, self.handle.results(out)?);
        // SAFETY: a message of each server, a place for each tensor
        self.done(unsafe { sys::tlc_worker_pull(self.handle.get(), from.as_ptr(), out.as_ptr()) })
    }

    /// `momentum[t][i] = +0` where the last push sent a value that the server took. An empty slice is left out.
    pub fn mask(&mut self, momentum: &mut [&mut [f32]]) -> Result<()> {
        let momentum = self.handle.momentum(momentum)?;
        // SAFETY: a place for each tensor, or NULL
        self.done(unsafe { sys::tlc_worker_mask(self.handle.get(), momentum.as_ptr()) })
    }

    /// The worker came late, or comes back: it goes on with `step`. taken: what `Server::taken` of each server says of
    /// it. None: its last push counts as taken.
    pub fn join(&mut self, step: u64, taken: Option<&[u64]>) -> Result<()> {
        if taken.map_or(false, |taken| taken.len() != self.servers as usize) {
            return refuse(format!("taken is not of {} servers", self.servers));
        }
        let taken = taken.map_or(ptr::null(), |taken| taken.as_ptr());
        // SAFETY: a number for each server, or NULL
        self.done(unsafe { sys::tlc_worker_join(self.handle.get(), step, taken) })
    }

    /// Changes the codec of the pushes of a tensor. None: of all that have the codec of the configuration.
    pub fn set_codec(&mut self, tensor: Option<usize>, codec: &str) -> Result<()> {
        let (tensor, codec) = (tensor.unwrap_or(sys::TLC_ALL), c_string("codec", codec)?);
        // SAFETY: the text is copied
        self.done(unsafe { sys::tlc_worker_set_codec(self.handle.get(), tensor, codec.as_ptr()) })
    }

    /// What the last call found of a server.
    pub fn outcome(&self, server: u32) -> Result<Outcome> {
        // SAFETY: an object that lives
        self.handle.outcome(|object, outcome| unsafe { sys::tlc_worker_outcome(object, server, outcome) })
    }

    history_method!(tlc_worker_history);

    object_methods!(
        tlc_worker_step,
        tlc_worker_message_bound,
        tlc_worker_residual_scale,
        tlc_worker_stats,
        tlc_worker_state_size,
        tlc_worker_state_save,
        tlc_worker_state_load,
        tlc_worker_state_salvage
    );
}
