// SPDX-License-Identifier: MIT
//! Contexts: they compress one tensor, step after step, and keep its residual.

use crate::element::{values, Dtype, Element, Isa};
use crate::error::{c_string, check, refuse, text, Error, Result, Sentence, Status};
use crate::parallel::{Parallel, Pool};
use crate::sys;
use std::ffi::CString;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

/// The configuration of a context: `tlc_config`.
#[derive(Clone)]
pub struct Config {
    /// "3lc:s=1.75", "sbc:p=0.001", "natural", ...
    pub codec: String,
    /// Codecs that `set_codec` must be able to switch to, with ';' between them.
    pub reserve: String,
    /// Of the gradients.
    pub dtype: Dtype,
    /// Error feedback. None: as the codec has it.
    pub feedback: Option<bool>,
    /// For stochastic codecs. Give every machine and every tensor its own.
    pub seed: u64,
    /// The instructions.
    pub isa: Isa,
    /// Frames end with a checksum.
    pub checksum: bool,
    /// The caller has checked the gradients.
    pub assume_finite: bool,
    /// The threads of `accumulate` and `compress`.
    pub parallel: Option<Arc<dyn Parallel>>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            codec: "3lc".to_string(),
            reserve: String::new(),
            dtype: Dtype::F32,
            feedback: None,
            seed: 0,
            isa: Isa::Auto,
            checksum: false,
            assume_finite: false,
            parallel: None,
        }
    }
}

/// Compresses one tensor, step after step, and keeps its residual: `tlc_ctx`.
///
/// It may move to another thread, but serves one at a time.
pub struct Context<'residual> {
    ctx: NonNull<sys::tlc_ctx>,
    n: usize,
    dtype: Dtype,
    pool: Option<Arc<Pool>>,
    _residual: PhantomData<&'residual mut [f32]>,
}

// SAFETY: a context serves any thread, one at a time; memory and threads of the caller are Send
unsafe impl Send for Context<'_> {}

impl Context<'static> {
    /// For a tensor of n values, with a residual of its own.
    pub fn new(n: usize, config: &Config) -> Result<Context<'static>> {
        Context::create(n, config, ptr::null_mut())
    }
}

impl<'residual> Context<'residual> {
    /// With a residual of the caller's, which is used as it is, and whose length is that of the tensor. `residual()`
    /// gives it back between calls.
    pub fn with_residual(residual: &'residual mut [f32], config: &Config) -> Result<Context<'residual>> {
        Context::create(residual.len(), config, residual.as_mut_ptr())
    }

    fn create(n: usize, config: &Config, residual: *mut f32) -> Result<Self> {
        let (codec, reserve) = (c_string("codec", &config.codec)?, c_string("reserve", &config.reserve)?);
        let pool = Pool::new(&config.parallel);
        let mut sentence = Sentence::new();
        let mut ctx = ptr::null_mut();
        let mut c = sys::init(sys::tlc_config_init);
        c.codec = codec.as_ptr();
        c.reserve = reserve.as_ptr();
        c.dtype = config.dtype as u32;
        c.feedback = config.feedback.map_or(-1, i32::from);
        c.seed = config.seed;
        c.isa = config.isa as u32;
        c.checksum = config.checksum.into();
        c.assume_finite = config.assume_finite.into();
        c.residual = residual;
        c.parallel = Pool::parallel(&pool);
        c.message = sentence.place();
        c.message_cap = sys::TLC_MESSAGE_SIZE;
        // SAFETY: what c points to lives to the end of the call, the residual and the pool as long as the context
        sentence.check(unsafe { sys::tlc_create(&mut ctx, &c, n) })?;
        let ctx = NonNull::new(ctx).expect("tlc_create succeeded");
        Ok(Context { ctx, n, dtype: config.dtype, pool, _residual: PhantomData })
    }

    /// The result of a call with this context.
    fn done(&self, status: sys::tlc_status) -> Result<()> {
        // SAFETY: the text is in the context
        check(status, || text(unsafe { sys::tlc_last_error(self.ctx.as_ptr()) }))
    }

    fn gradient<T: Element>(&self, grad: &[T]) -> Result<*const c_void> {
        if T::DTYPE != self.dtype {
            return refuse(format!("the gradient is {:?}, the context was made for {:?}", T::DTYPE, self.dtype));
        }
        if values(grad) != self.n {
            return refuse(format!("the gradient has {} values, the context was made for {}", values(grad), self.n));
        }
        Ok(grad.as_ptr().cast())
    }

    /// The values of the tensor.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The largest frame, in bytes.
    pub fn bound(&self) -> usize {
        // SAFETY: a context that lives
        unsafe { sys::tlc_bound(self.ctx.as_ptr()) }
    }

    /// The instructions that are used.
    pub fn isa(&self) -> Isa {
        // SAFETY: a context that lives
        let isa = unsafe { sys::tlc_isa_used(self.ctx.as_ptr()) };
        Isa::ALL.into_iter().find(|one| *one as u32 == isa).unwrap_or_default()
    }

    /// `residual += grad`, and nothing is sent.
    pub fn accumulate<T: Element>(&mut self, grad: &[T]) -> Result<()> {
        let grad = self.gradient(grad)?;
        // SAFETY: n values of the context's dtype
        let status = unsafe { sys::tlc_accumulate(self.ctx.as_ptr(), grad) };
        Pool::resume(&self.pool);
        self.done(status)
    }

    /// Compresses `residual + grad`, or `grad` alone without error feedback. What was not sent stays in the residual.
    /// The frame takes the place of what `frame` has; its memory is used again.
    pub fn compress<T: Element>(&mut self, grad: &[T], frame: &mut Vec<u8>) -> Result<()> {
        let grad = self.gradient(grad)?;
        self.compress_from(grad, frame)
    }

    /// Compresses the residual alone.
    pub fn compress_residual(&mut self, frame: &mut Vec<u8>) -> Result<()> {
        self.compress_from(ptr::null(), frame)
    }

    fn compress_from(&mut self, grad: *const c_void, frame: &mut Vec<u8>) -> Result<()> {
        let bound = self.bound();
        let result = written_to(frame, bound, |dst, cap, written| {
            // SAFETY: n values of the context's dtype or NULL, and cap bytes apart from them
            self.done(unsafe { sys::tlc_compress(self.ctx.as_ptr(), grad, dst, cap, written) })
        });
        Pool::resume(&self.pool); // the frame is not lost
        result
    }

    /// Changes the codec between two compressions. The residual stays.
    pub fn set_codec(&mut self, codec: &str) -> Result<()> {
        let codec = c_string("codec", codec)?;
        // SAFETY: the text is copied
        self.done(unsafe { sys::tlc_set_codec(self.ctx.as_ptr(), codec.as_ptr()) })
    }

    /// The residual. None without error feedback.
    pub fn residual(&self) -> Option<&[f32]> {
        // SAFETY: n floats that only calls with &mut self change
        unsafe { self.residual_at().map(|at| slice::from_raw_parts(at, self.n)) }
    }

    /// The residual, to be changed.
    pub fn residual_mut(&mut self) -> Option<&mut [f32]> {
        // SAFETY: as above, and nobody else has it
        unsafe { self.residual_at().map(|at| slice::from_raw_parts_mut(at, self.n)) }
    }

    /// Without values it may be anywhere.
    fn residual_at(&self) -> Option<*mut f32> {
        // SAFETY: a context that lives
        let at = unsafe { sys::tlc_residual(self.ctx.as_ptr()) };
        let empty = NonNull::dangling().as_ptr();
        (!at.is_null()).then_some(if self.n == 0 { empty } else { at })
    }

    /// `residual *= factor`, for a new loss scale or learning rate.
    pub fn residual_scale(&mut self, factor: f32) -> Result<()> {
        // SAFETY: a context that lives
        self.done(unsafe { sys::tlc_residual_scale(self.ctx.as_ptr(), factor) })
    }

    /// Residual and step become 0.
    pub fn reset(&mut self) {
        // SAFETY: a context that lives
        unsafe { sys::tlc_reset(self.ctx.as_ptr()) }
    }

    /// Codec, seed, step and residual, in the same bytes on every machine.
    pub fn state(&self) -> Result<Vec<u8>> {
        let mut state = Vec::new();
        // SAFETY: a context that lives
        let size = unsafe { sys::tlc_state_size(self.ctx.as_ptr()) };
        written_to(&mut state, size, |dst, cap, written| {
            // SAFETY: cap bytes
            self.done(unsafe { sys::tlc_state_save(self.ctx.as_ptr(), dst, cap, written) })
        })?;
        Ok(state)
    }

    /// Goes on from a state, which may be any bytes.
    pub fn load_state(&mut self, state: &[u8]) -> Result<()> {
        // SAFETY: any bytes are safe
        self.done(unsafe { sys::tlc_state_load(self.ctx.as_ptr(), state.as_ptr().cast(), state.len()) })
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing of the context is used after this
        unsafe { sys::tlc_destroy(self.ctx.as_ptr()) }
    }
}

/// Empties `to`, makes room for `bound` bytes, and takes the bytes that `call` has written as its content.
pub(crate) fn written_to(
    to: &mut Vec<u8>,
    bound: usize,
    call: impl FnOnce(*mut c_void, usize, &mut usize) -> Result<()>,
) -> Result<()> {
    let mut written = 0;
    to.clear();
    to.try_reserve_exact(bound)
        .map_err(|_| Error { status: Status::NoMem, sentence: format!("there is no memory for {} bytes", bound) })?;
    call(to.as_mut_ptr().cast(), to.capacity(), &mut written)?;
    assert!(written <= to.capacity());
    // SAFETY: the call has written these bytes, from the first on
    unsafe { to.set_len(written) };
    Ok(())
}

/// Why a text is no codec: `tlc_codec_check`.
pub fn check_codec(codec: &str) -> Result<()> {
    let codec: CString = c_string("codec", codec)?;
    let mut sentence = Sentence::new();
    // SAFETY: a text, and room for the sentence
    let status = unsafe { sys::tlc_codec_check(codec.as_ptr(), sentence.place(), sys::TLC_MESSAGE_SIZE) };
    sentence.check(status)
}

/// The largest frame of a codec, in bytes, for receivers: it includes a checksum.
pub fn codec_bound(codec: &str, dtype: Dtype, n: usize) -> Result<usize> {
    check_codec(codec)?;
    let codec = c_string("codec", codec)?;
    let mut bound = 0;
    // SAFETY: a text
    let status = unsafe { sys::tlc_codec_bound(codec.as_ptr(), dtype as u32, n, &mut bound) };
    check(status, String::new)?;
    Ok(bound)
}
