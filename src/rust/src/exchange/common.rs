// SPDX-License-Identifier: MIT
//! What all objects of the exchange have: how they are made, and what goes in and out.

use super::config::{pointer, Config, Tensor};
use super::outcome::{Outcome, Stats};
use crate::context::written_to;
use crate::decode::messages;
use crate::element::{values, Dtype, Element};
use crate::error::{c_string, check, refuse, text, Result};
use crate::parallel::Pool;
use crate::sys;
use std::ffi::CString;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

/// The bytes of a message, which live as long as the lifetime that the caller chooses.
pub(crate) unsafe fn bytes<'object>(message: sys::tlc_message) -> &'object [u8] {
    if message.len == 0 {
        return &[];
    }
    slice::from_raw_parts(message.data.cast(), message.len)
}

/// An object of the library, and what the caller gave it.
pub(crate) struct Handle<O> {
    object: NonNull<O>,
    destroy: unsafe extern "C" fn(*mut O),
    pub sizes: Vec<usize>,
    dtype: Dtype,
    pool: Option<Arc<Pool>>,
    /// What creation said though it succeeded.
    pub warning: Option<String>,
}

impl<O> Handle<O> {
    /// Makes an object by `create`, whose configuration and tensors live for the call. Residuals in `tensors` must
    /// outlive the handle.
    pub fn new(
        config: &Config,
        tensors: &mut [Tensor<'_>],
        destroy: unsafe extern "C" fn(*mut O),
        create: impl FnOnce(*mut *mut O, &sys::tlc_exchange_config, &[sys::tlc_tensor]) -> sys::tlc_status,
    ) -> Result<Handle<O>> {
        let optional = |what, text: &Option<String>| text.as_ref().map(|text| c_string(what, text)).transpose();
        let mut texts: Vec<[Option<CString>; 3]> = Vec::new();
        let mut places = Vec::new();
        for tensor in tensors.iter_mut() {
            let name = c_string("the name of a tensor", &tensor.name)?;
            texts.push([Some(name), optional("push", &tensor.push)?, optional("pull", &tensor.pull)?]);
            let [name, push, pull] = texts.last().expect("one was added");
            let mut place = sys::init(sys::tlc_tensor_init);
            place.name = pointer(name);
            place.n = tensor.n;
            place.push = pointer(push);
            place.pull = pointer(pull);
            if let Some(residual) = &mut tensor.residual {
                if residual.len() != tensor.n {
                    let (name, given, n) = (&tensor.name, residual.len(), tensor.n);
                    return refuse(format!("the residual of \"{}\" has {} values, not {}", name, given, n));
                }
                place.residual = residual.as_mut_ptr();
            }
            place.only = tensor.only.unwrap_or(sys::TLC_NOBODY);
            places.push(place);
        }
        let (push, pull) = (optional("push", &config.push)?, optional("pull", &config.pull)?);
        let reserve = c_string("reserve", &config.reserve)?;
        let pool = Pool::new(&config.parallel);
        let mut outcome = sys::init(sys::tlc_outcome_init);
        let mut c = sys::init(sys::tlc_exchange_config_init);
        c.workers = config.workers;
        c.servers = config.servers;
        c.owners = config.owners;
        c.keep = config.keep;
        c.backup = config.backup;
        c.gather = config.gather.into();
        c.sum = config.sum.into();
        c.push = pointer(&push);
        c.pull = pointer(&pull);
        c.reserve = reserve.as_ptr();
        c.min_n = config.min_n;
        c.split_n = config.split_n;
        c.assume_finite = config.assume_finite.into();
        c.dtype = config.dtype as u32;
        c.seed = config.seed;
        c.isa = config.isa as u32;
        c.parallel = Pool::parallel(&pool);
        c.outcome = &mut outcome;
        let mut object = ptr::null_mut();
        check(create(&mut object, &c, &places), || text(outcome.sentence.as_ptr()))?;
        let object = NonNull::new(object).expect("the object was made");
        let sizes = tensors.iter().map(|tensor| tensor.n).collect();
        let warning = Some(text(outcome.sentence.as_ptr())).filter(|warning| !warning.is_empty());
        Ok(Handle { object, destroy, sizes, dtype: config.dtype, pool, warning })
    }

    pub fn get(&self) -> *mut O {
        self.object.as_ptr()
    }

    /// The result of a call; `outcome` tells why it failed.
    pub fn done(&self, status: sys::tlc_status, outcome: impl FnOnce() -> Result<Outcome>) -> Result<()> {
        Pool::resume(&self.pool);
        check(status, || outcome().map_or_else(|_| String::new(), |outcome| outcome.sentence))
    }

    fn tensors_are<T>(&self, what: &str, given: &[T]) -> Result<()> {
        if given.len() != self.sizes.len() {
            return refuse(format!("{} are for {} tensors, not {}", what, given.len(), self.sizes.len()));
        }
        Ok(())
    }

    fn tensor_is<T: Element>(&self, what: &str, t: usize, given: &[T]) -> Result<()> {
        if T::DTYPE != self.dtype {
            return refuse(format!("{} are {:?}, the object was made for {:?}", what, T::DTYPE, self.dtype));
        }
        if values(given) != self.sizes[t] {
            return refuse(format!("{}: tensor {} has {} values, not {}", what, t, self.sizes[t], values(given)));
        }
        Ok(())
    }

    /// One pointer for each tensor, NULL for a slice that is empty.
    pub fn gradients<T: Element>(&self, given: &[&[T]]) -> Result<Vec<*const c_void>> {
        self.tensors_are("gradients", given)?;
        let pointer = |(t, one): (usize, &&[T])| {
            if one.is_empty() {
                return Ok(ptr::null());
            }
            self.tensor_is("gradients", t, one).map(|()| one.as_ptr().cast())
        };
        given.iter().enumerate().map(pointer).collect()
    }

    /// One pointer for each tensor, for results.
    pub fn results<T: Element>(&self, given: &mut [&mut [T]]) -> Result<Vec<*mut c_void>> {
        self.tensors_are("results", given)?;
        let place =
            |(t, one): (usize, &mut &mut [T])| self.tensor_is("results", t, one).map(|()| one.as_mut_ptr().cast());
        given.iter_mut().enumerate().map(place).collect()
    }

    /// One pointer for each tensor, NULL for a slice that is empty.
    pub fn momentum(&self, given: &mut [&mut [f32]]) -> Result<Vec<*mut f32>> {
        self.tensors_are("momentum", given)?;
        let place = |(one, n): (&mut &mut [f32], &usize)| {
            if one.is_empty() {
                return Ok(ptr::null_mut());
            }
            if one.len() != *n {
                return refuse(format!("momentum: a tensor has {} values, not {}", n, one.len()));
            }
            Ok(one.as_mut_ptr())
        };
        given.iter_mut().zip(&self.sizes).map(place).collect()
    }

    /// As many messages as the object takes.
    pub fn from(&self, given: &[&[u8]], count: usize) -> Result<Vec<sys::tlc_message>> {
        if given.len() != count {
            return refuse(format!("{} messages were given, not {}", given.len(), count));
        }
        Ok(messages(given))
    }

    /// The state that `save` writes.
    pub fn state(
        &self,
        size: usize,
        save: impl FnOnce(*mut c_void, usize, &mut usize) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let mut state = Vec::new();
        written_to(&mut state, size, save)?;
        Ok(state)
    }

    /// What `call` counts.
    pub fn stats(
        &self,
        call: unsafe extern "C" fn(*const O, *mut sys::tlc_exchange_stats) -> sys::tlc_status,
    ) -> Stats {
        let mut stats = sys::init(sys::tlc_exchange_stats_init);
        // SAFETY: an object that lives. The call cannot fail
        unsafe { call(self.get(), &mut stats) };
        Stats::of(&stats)
    }

    /// What `call` tells.
    pub fn outcome(&self, call: impl FnOnce(*const O, &mut sys::tlc_outcome) -> sys::tlc_status) -> Result<Outcome> {
        let mut outcome = sys::init(sys::tlc_outcome_init);
        check(call(self.get(), &mut outcome), String::new)?;
        // SAFETY: no call came between
        Ok(unsafe { Outcome::of(&outcome) })
    }
}

impl<O> Drop for Handle<O> {
    fn drop(&mut self) {
        // SAFETY: nothing of the object is used after this
        unsafe { (self.destroy)(self.get()) }
    }
}

/// A pointer for each slice, whose lengths are checked.
pub(crate) fn each_float(
    what: &str,
    given: &[&[f32]],
    sizes: impl ExactSizeIterator<Item = usize>,
) -> Result<Vec<*const f32>> {
    if given.len() != sizes.len() {
        return refuse(format!("{}: {} were given, not {}", what, given.len(), sizes.len()));
    }
    let pointer = |(one, n): (&&[f32], usize)| {
        if one.len() != n {
            return refuse(format!("{}: {} values were given, not {}", what, one.len(), n));
        }
        Ok(one.as_ptr())
    };
    given.iter().zip(sizes).map(pointer).collect()
}

/// The history of objects but nodes of gossip.
macro_rules! history_method {
    ($history:ident) => {
        /// A hash of the answers of the last step that did not fail, which all who take part in a run have in common;
        /// those of servers add up to it (wrapping). It tells whether states that were loaded are of one run. 0: not
        /// known.
        pub fn history(&self) -> u64 {
            // SAFETY: an object that lives
            unsafe { sys::$history(self.handle.get()) }
        }
    };
}

/// The calls that all objects have, by their functions of the C interface.
macro_rules! object_methods {
    ($step:ident, $bound:ident, $scale:ident, $stats:ident, $size:ident, $save:ident, $load:ident, $salvage:ident) => {
        /// The step under way.
        pub fn step(&self) -> u64 {
            // SAFETY: an object that lives
            unsafe { sys::$step(self.handle.get()) }
        }

        /// The most bytes of a message to this object: refuse a longer one before you take memory for it.
        pub fn message_bound(&self) -> usize {
            // SAFETY: an object that lives
            unsafe { sys::$bound(self.handle.get()) }
        }

        /// What was sent, received and lost since the object was made.
        pub fn stats(&self) -> $crate::exchange::Stats {
            self.handle.stats(sys::$stats)
        }

        /// Step, codecs and residuals, in the same bytes on every machine.
        pub fn state(&self) -> Result<Vec<u8>> {
            // SAFETY: an object that lives
            let size = unsafe { sys::$size(self.handle.get()) };
            self.handle.state(size, |dst, cap, written| {
                // SAFETY: cap bytes
                self.done(unsafe { sys::$save(self.handle.get(), dst, cap, written) })
            })
        }

        /// Takes its own state, or those of a whole run, which may have had another number of ranks.
        pub fn load_state(&mut self, states: &[&[u8]]) -> Result<()> {
            let messages = $crate::decode::messages(states);
            // SAFETY: any bytes are safe
            self.done(unsafe { sys::$load(self.handle.get(), messages.as_ptr(), messages.len()) })
        }

        /// The same for a run of which states are lost: what they had is taken for 0.
        pub fn salvage_state(&mut self, states: &[&[u8]]) -> Result<()> {
            let messages = $crate::decode::messages(states);
            // SAFETY: any bytes are safe
            self.done(unsafe { sys::$salvage(self.handle.get(), messages.as_ptr(), messages.len()) })
        }

        object_methods!(@scale $scale);
    };
    (@scale none) => {};
    (@scale $scale:ident) => {
        /// All residuals `*= factor`, for a new loss scale or learning rate.
        pub fn residual_scale(&mut self, factor: f32) -> Result<()> {
            // SAFETY: an object that lives
            self.done(unsafe { sys::$scale(self.handle.get(), factor) })
        }
    };
}
pub(crate) use object_methods;
