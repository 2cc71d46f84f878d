// SPDX-License-Identifier: MIT
//! A rank of an all-reduce.

use super::config::pointer;
use super::{bytes, each_float, Config, Handle, Outcome, Part, Tensor};
use crate::element::Element;
use crate::error::{c_string, Result, Status};
use crate::sys;
use std::marker::PhantomData;
use std::ptr;

const NOTHING: sys::tlc_message = sys::tlc_message { data: ptr::null(), len: 0 };

/// A worker, and an owner of parts: `tlc_allreduce`.
///
/// Where a call takes a message of each rank, that of this rank is not looked at: the object has it.
///
/// Residuals of the caller's belong to the object while it lives:
///
/// ```compile_fail,E0502
/// use threelc::exchange::{AllReduce, Config, Tensor};
/// let mut residual = vec![0f32; 1000];
/// let tensor = Tensor { residual: Some(&mut residual), ..Tensor::new("w", 1000) };
/// let object = AllReduce::new(&Config { workers: 2, ..Config::default() }, 0, vec![tensor])?;
/// println!("{}", residual[0]);
/// drop(object);
/// # Ok::<(), threelc::Error>(())
/// ```
pub struct AllReduce<'residual> {
    handle: Handle<sys::tlc_allreduce>,
    rank: usize,
    ranks: usize,
    gather: bool,
    /// Values by part.
    part_sizes: Vec<usize>,
    /// What this rank sends to itself, in the memory of the object.
    own_push: sys::tlc_message,
    own_answer: sys::tlc_message,
    /// What the library looks at until the answer, and until the step has ended.
    pushes: Vec<Vec<u8>>,
    deltas: Vec<Vec<f32>>,
    _residuals: PhantomData<&'residual mut [f32]>,
}

// SAFETY: an object serves any thread, one at a time; memory and threads of the caller are Send
unsafe impl Send for AllReduce<'_> {}

impl<'residual> AllReduce<'residual> {
    /// Rank 0 .. workers - 1. Residuals of tensors are its own as long as it lives.
    pub fn new(config: &Config, rank: u32, mut tensors: Vec<Tensor<'residual>>) -> Result<Self> {
        let handle = Handle::new(config, &mut tensors, sys::tlc_allreduce_destroy, |out, c, tensors| {
            // SAFETY: all of it lives to the end of the call
            unsafe { sys::tlc_allreduce_create(out, c, rank, tensors.as_ptr(), tensors.len()) }
        })?;
        let mut made = AllReduce {
            handle,
            rank: rank as usize,
            ranks: config.workers as usize,
            gather: config.gather,
            part_sizes: Vec::new(),
            own_push: NOTHING,
            own_answer: NOTHING,
            pushes: Vec::new(),
            deltas: Vec::new(),
            _residuals: PhantomData,
        };
        // SAFETY: an object that lives
        let parts = unsafe { sys::tlc_allreduce_parts(made.handle.get()) };
        made.part_sizes = (0..parts).map(|i| made.part_at(i).map(|part| part.n)).collect::<Result<_>>()?;
        Ok(made)
    }

    /// What creation said of a codec of answers that starves, and of one that keeps up.
    pub fn warning(&self) -> Option<&str> {
        self.handle.warning.as_deref()
    }

    fn done(&self, status: sys::tlc_status) -> Result<()> {
        self.handle.done(status, || Ok(self.outcome()))
    }

    /// Makes the pushes of a step, as `Worker::push`: message i is for rank i. An empty one: rank i owns nothing and
    /// needs none. With gather all are the same.
    pub fn push<T: Element>(&mut self, gradients: &[&[T]], weight: f64) -> Result<Vec<&[u8]>> {
        let gradients = self.handle.gradients(gradients)?;
        let mut to = vec![NOTHING; self.ranks];
        // SAFETY: a gradient for each tensor, a place for each rank
        self.done(unsafe { sys::tlc_allreduce_push(self.handle.get(), gradients.as_ptr(), weight, to.as_mut_ptr()) })?;
        self.own_push = to[self.rank];
        // SAFETY: they stay until the next push, which needs &mut self
        Ok(to.into_iter().map(|message| unsafe { bytes(message) }).collect())
    }

    /// A message of each rank, the own one in its place.
    fn from(&self, given: &[&[u8]], own: sys::tlc_message) -> Result<Vec<sys::tlc_message>> {
        let mut from = self.handle.from(given, self.ranks)?;
        from[self.rank] = own;
        Ok(from)
    }

    /// Averages the parts that this rank owns, and makes the message for all ranks, which is empty if it owns nothing.
    /// Message i is the push of rank i; an empty one: nothing came. If a message is at fault, the answer says so: the
    /// step fails for all.
    pub fn reduce(&mut self, from: &[&[u8]]) -> Result<&[u8]> {
        let from = self.from(from, self.own_push)?;
        let mut to_all = NOTHING;
        // SAFETY: a message of each rank
        self.done(unsafe { sys::tlc_allreduce_reduce(self.handle.get(), from.as_ptr(), &mut to_all) })?;
        self.own_answer = to_all;
        // SAFETY: it stays for more answers than this one, which need &mut self
        Ok(unsafe { bytes(to_all) })
    }

    /// `reduce` in two calls, for owners with optimizers: the parts have their means, and `answer` takes what becomes
    /// of the model. The messages are the object's until then.
    ///
    /// `Status::Step`: leave the model as it is; the answer will say so.
    pub fn average(&mut self, from: Vec<Vec<u8>>) -> Result<()> {
        let slices: Vec<&[u8]> = from.iter().map(|one| one.as_slice()).collect();
        let messages = self.from(&slices, self.own_push)?;
        // SAFETY: the bytes stay where they are: below they are kept, unless the call was refused
        let status = unsafe { sys::tlc_allreduce_average(self.handle.get(), messages.as_ptr()) };
        if matches!(Status::of(status), None | Some(Status::Step)) {
            self.pushes = from;
        }
        self.done(status)
    }

    /// After `average`: the message for all ranks. deltas: the change of each part of the model, which are the object's
    /// until the step has ended; None: the means.
    pub fn answer(&mut self, deltas: Option<Vec<Vec<f32>>>) -> Result<&[u8]> {
        let deltas = deltas.map(|deltas| {
            let slices: Vec<&[f32]> = deltas.iter().map(|one| one.as_slice()).collect();
            each_float("deltas", &slices, self.part_sizes.iter().copied()).map(|pointers| (pointers, deltas))
        });
        let (pointers, deltas) =
            deltas.transpose()?.map_or((None, Vec::new()), |(pointers, kept)| (Some(pointers), kept));
        let first = pointers.as_ref().map_or(ptr::null(), |pointers| pointers.as_ptr());
        let mut to_all = NOTHING;
        // SAFETY: as many floats as each part has, which are kept below
        let status = unsafe { sys::tlc_allreduce_answer(self.handle.get(), first, &mut to_all) };
        if status == sys::TLC_OK {
            self.deltas = deltas;
            self.pushes.clear();
            self.own_answer = to_all;
        }
        self.done(status)?;
        // SAFETY: it stays for more answers than this one, which need &mut self
        Ok(unsafe { bytes(to_all) })
    }

    /// Ends the step. Message i is the answer of rank i, with gather its push. A slice for each tensor.
    ///
    /// `Status::Step`: the step failed, on all ranks, and `out` is not written. Other failures: a message is at fault;
    /// fetch it again, and repeat the call.
    pub fn pull<T: Element>(&mut self, from: &[&[u8]], out: &mut [&mut [T]]) -> Result<()> {
        let own = if self.gather { self.own_push } else { self.own_answer };
        let (from, out) = (self.from(from, own)?, self.handle.results(out)?);
        // SAFETY: a message of each rank, a place for each tensor
        let status = unsafe { sys::tlc_allreduce_pull(self.handle.get(), from.as_ptr(), out.as_ptr()) };
        if matches!(Status::of(status), None | Some(Status::Step)) {
            self.deltas.clear();
        }
        self.done(status)
    }

    /// The message that `pull` of others takes, of a step before.
    pub fn again(&self, step: u64) -> Result<&[u8]> {
        let mut answer = NOTHING;
        // SAFETY: an object that lives; the answer stays until calls with &mut self
        self.done(unsafe { sys::tlc_allreduce_again(self.handle.get(), step, &mut answer) })?;
        Ok(unsafe { bytes(answer) })
    }

    /// Ends a step that cannot end, as a rank is gone. Either all ranks that are left call it, or none.
    pub fn cancel(&mut self) -> Result<()> {
        // SAFETY: an object that lives
        self.done(unsafe { sys::tlc_allreduce_cancel(self.handle.get()) })?;
        self.pushes.clear();
        self.deltas.clear();
        Ok(())
    }

    /// The parts of tensors that this rank owns, none with gather.
    pub fn parts(&self) -> usize {
        self.part_sizes.len()
    }

    fn part_at(&self, i: usize) -> Result<sys::tlc_part> {
        let mut part = sys::init(sys::tlc_part_init);
        // SAFETY: an object that lives
        self.done(unsafe { sys::tlc_allreduce_part(self.handle.get(), i, &mut part) })?;
        Ok(part)
    }

    /// Part i, with the mean of the pushes after `average`.
    pub fn part(&self, i: usize) -> Result<Part<'_>> {
        // SAFETY: its arrays are the object's, and only calls with &mut self change them
        self.part_at(i).map(|part| unsafe { Part::of(&part) })
    }

    /// `momentum[t][i] = +0` where the last push sent a value that an owner took. An empty slice is left out.
    pub fn mask(&mut self, momentum: &mut [&mut [f32]]) -> Result<()> {
        let momentum = self.handle.momentum(momentum)?;
        // SAFETY: a place for each tensor, or NULL
        self.done(unsafe { sys::tlc_allreduce_mask(self.handle.get(), momentum.as_ptr()) })
    }

    /// Changes the codecs of a tensor. tensor None: of all that have those of the configuration. A codec that is None
    /// stays as it is.
    pub fn set_codec(&mut self, tensor: Option<usize>, push: Option<&str>, pull: Option<&str>) -> Result<()> {
        let c = |what, text: Option<&str>| text.map(|text| c_string(what, text)).transpose();
        let (tensor, push, pull) = (tensor.unwrap_or(sys::TLC_ALL), c("push", push)?, c("pull", pull)?);
        let (new_push, new_pull) = (pointer(&push), pointer(&pull));
        // SAFETY: the texts are copied
        self.done(unsafe { sys::tlc_allreduce_set_codec(self.handle.get(), tensor, new_push, new_pull) })
    }

    /// What the last call found.
    pub fn outcome(&self) -> Outcome {
        // SAFETY: an object that lives. The call cannot fail
        let found = self.handle.outcome(|object, outcome| unsafe { sys::tlc_allreduce_outcome(object, outcome) });
        found.expect("there is an outcome")
    }

    history_method!(tlc_allreduce_history);

    object_methods!(
        tlc_allreduce_step,
        tlc_allreduce_message_bound,
        tlc_allreduce_residual_scale,
        tlc_allreduce_stats,
        tlc_allreduce_state_size,
        tlc_allreduce_state_save,
        tlc_allreduce_state_load,
        tlc_allreduce_state_salvage
    );
}
