// SPDX-License-Identifier: MIT
//! The server of a parameter server.

use super::{bytes, each_float, Config, Handle, Outcome, Part, PushInfo, Tensor};
use crate::error::{c_string, Result};
use crate::sys;
use std::ptr;

/// Averages what workers push, and answers: `tlc_server`.
pub struct Server {
    handle: Handle<sys::tlc_server>,
    /// The messages that the library looks at until the answer.
    pushes: Vec<Vec<u8>>,
    /// Values by part.
    part_sizes: Vec<usize>,
}

// SAFETY: an object serves any thread, one at a time; threads of the caller are Send
unsafe impl Send for Server {}

impl Server {
    /// Server 0 .. servers - 1. Residuals of tensors are not used.
    pub fn new(config: &Config, server: u32, mut tensors: Vec<Tensor<'_>>) -> Result<Server> {
        let handle = Handle::new(config, &mut tensors, sys::tlc_server_destroy, |out, c, tensors| {
            // SAFETY: all of it lives to the end of the call
            unsafe { sys::tlc_server_create(out, c, server, tensors.as_ptr(), tensors.len()) }
        })?;
        let mut made = Server { handle, pushes: Vec::new(), part_sizes: Vec::new() };
        // SAFETY: an object that lives
        let parts = unsafe { sys::tlc_server_parts(made.handle.get()) };
        made.part_sizes = (0..parts).map(|i| made.part_at(i).map(|part| part.n)).collect::<Result<_>>()?;
        Ok(made)
    }

    fn done(&self, status: sys::tlc_status) -> Result<()> {
        self.handle.done(status, || Ok(self.outcome()))
    }

    /// Takes a push; pushes come in any order. The message is the server's until the answer.
    pub fn push(&mut self, message: Vec<u8>) -> Result<PushInfo> {
        let mut info = sys::init(sys::tlc_push_info_init);
        let from = sys::tlc_message { data: message.as_ptr().cast(), len: message.len() };
        // SAFETY: the bytes stay where they are: below they are kept, unless the library has no use for them
        let status = unsafe { sys::tlc_server_push(self.handle.get(), from, &mut info) };
        let info =
            PushInfo { worker: info.worker, step: info.step, late: info.late != 0, repeated: info.repeated != 0 };
        if status == sys::TLC_OK && !info.late && !info.repeated {
            self.pushes.push(message);
        }
        self.done(status)?;
        Ok(info)
    }

    /// Enough workers have pushed, and waiting gains nothing. It is advice.
    pub fn is_ready(&self) -> bool {
        // SAFETY: an object that lives
        unsafe { sys::tlc_server_ready(self.handle.get()) != 0 }
    }

    /// Averages the pushes.
    ///
    /// `Status::Step`: all pushes failed, or a mean is not finite: leave the model as it is; the answer will say so.
    pub fn reduce(&mut self) -> Result<()> {
        // SAFETY: the messages are in `pushes`
        self.done(unsafe { sys::tlc_server_reduce(self.handle.get()) })
    }

    /// The parts of tensors that this server owns.
    pub fn parts(&self) -> usize {
        self.part_sizes.len()
    }

    fn part_at(&self, i: usize) -> Result<sys::tlc_part> {
        let mut part = sys::init(sys::tlc_part_init);
        // SAFETY: an object that lives
        self.done(unsafe { sys::tlc_server_part(self.handle.get(), i, &mut part) })?;
        Ok(part)
    }

    /// Part i, with the mean of the pushes after `reduce`.
    pub fn part(&self, i: usize) -> Result<Part<'_>> {
        // SAFETY: its arrays are the object's, and only calls with &mut self change them
        self.part_at(i).map(|part| unsafe { Part::of(&part) })
    }

    /// Ends the step, with one message for all workers. delta: the change of each part of the model; None: the means.
    pub fn answer(&mut self, delta: Option<&[&[f32]]>) -> Result<&[u8]> {
        let sizes = self.part_sizes.iter().copied();
        let delta = delta.map(|delta| each_float("delta", delta, sizes)).transpose()?;
        let delta = delta.as_ref().map_or(ptr::null(), |delta| delta.as_ptr());
        let mut to_all = sys::tlc_message { data: ptr::null(), len: 0 };
        // SAFETY: as many floats as each part has
        self.done(unsafe { sys::tlc_server_answer(self.handle.get(), delta, &mut to_all) })?;
        self.pushes.clear();
        // SAFETY: it stays for more answers than this one, which need &mut self
        Ok(unsafe { bytes(to_all) })
    }

    /// The answer of a step before.
    pub fn again(&self, step: u64) -> Result<&[u8]> {
        let mut answer = sys::tlc_message { data: ptr::null(), len: 0 };
        // SAFETY: an object that lives; the answer stays until calls with &mut self
        self.done(unsafe { sys::tlc_server_again(self.handle.get(), step, &mut answer) })?;
        Ok(unsafe { bytes(answer) })
    }

    /// The last step in which a push of this worker was taken; 0: none.
    pub fn taken(&self, worker: u32) -> Result<u64> {
        let mut step = 0;
        // SAFETY: an object that lives
        self.done(unsafe { sys::tlc_server_taken(self.handle.get(), worker, &mut step) })?;
        Ok(step)
    }

    /// Changes the codec of the answers of a tensor. None: of all that have the codec of the configuration.
    pub fn set_codec(&mut self, tensor: Option<usize>, codec: &str) -> Result<()> {
        let (tensor, codec) = (tensor.unwrap_or(sys::TLC_ALL), c_string("codec", codec)?);
        // SAFETY: the text is copied
        self.done(unsafe { sys::tlc_server_set_codec(self.handle.get(), tensor, codec.as_ptr()) })
    }

    /// What the last call found.
    pub fn outcome(&self) -> Outcome {
        // SAFETY: an object that lives. The call cannot fail
        let found = self.handle.outcome(|object, outcome| unsafe { sys::tlc_server_outcome(object, outcome) });
        found.expect("there is an outcome")
    }

    history_method!(tlc_server_history);

    object_methods!(
        tlc_server_step,
        tlc_server_message_bound,
        tlc_server_residual_scale,
        tlc_server_stats,
        tlc_server_state_size,
        tlc_server_state_save,
        tlc_server_state_load,
        tlc_server_state_salvage
    );
}
