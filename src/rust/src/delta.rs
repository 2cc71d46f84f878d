// SPDX-License-Identifier: MIT
//! Lossless deltas of weights: `threelc/delta.h`.

use crate::context::written_to;
use crate::decode::{explanation, Format};
use crate::element::{values, Dtype, Element, Isa};
use crate::error::{check, refuse, Error, Result, Sentence, Status};
use crate::parallel::{Parallel, Pool};
use crate::sys;
use std::os::raw::c_void;
use std::ptr;
use std::sync::Arc;

/// The digests of a frame that `Delta::compress` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Digests {
    /// None, so it cannot be told whether the base is right.
    None,
    /// Of the base, and of the result.
    #[default]
    Whole,
    /// Of each 65,536 weights, too: `Delta::repair` needs them.
    Blocks,
}

/// Makes deltas, and applies them.
#[derive(Clone, Default)]
pub struct Delta {
    /// The instructions.
    pub isa: Isa,
    /// The threads of each call.
    pub parallel: Option<Arc<dyn Parallel>>,
    /// Of frames that are made.
    pub digests: Digests,
}

impl Delta {
    fn call(&self, call: impl FnOnce(&sys::tlc_delta_options) -> sys::tlc_status) -> Result<()> {
        let pool = Pool::new(&self.parallel);
        let mut sentence = Sentence::new();
        let mut options = sys::init(sys::tlc_delta_options_init);
        options.isa = self.isa as u32;
        options.parallel = Pool::parallel(&pool);
        options.without_digests = (self.digests == Digests::None).into();
        options.block_digests = (self.digests == Digests::Blocks).into();
        options.message = sentence.place();
        options.message_cap = sys::TLC_MESSAGE_SIZE;
        let status = call(&options);
        Pool::resume(&pool);
        sentence.check(status)
    }

    /// Writes a frame that makes `next` of `base`. base None: the frame has all weights. The frame takes the place of
    /// what `frame` has.
    pub fn compress<T: Element>(&self, base: Option<&[T]>, next: &[T], frame: &mut Vec<u8>) -> Result<()> {
        if base.map_or(false, |base| base.len() != next.len()) {
            let base = values(base.unwrap_or_default());
            return refuse(format!("the base has {} weights, the next ones are {}", base, values(next)));
        }
        let (dtype, n, mut bound) = (T::DTYPE as u32, values(next), 0);
        let base = base.map_or(ptr::null(), |base| base.as_ptr());
        // SAFETY: numbers
        check(unsafe { sys::tlc_delta_bound(dtype, n, &mut bound) }, String::new)?;
        written_to(frame, bound, |dst, cap, written| {
            // SAFETY: n weights of this dtype each, and cap bytes apart from them
            self.call(|options| unsafe {
                sys::tlc_delta_compress(dtype, base.cast(), next.as_ptr().cast(), n, dst, cap, written, options)
            })
        })
    }

    /// Makes the next weights of the base, in place. Frame and base are checked before the first write.
    pub fn apply<T: Element>(&self, frame: &[u8], weights: &mut [T]) -> Result<()> {
        let (src, n, at) = (frame.as_ptr().cast(), values(weights), weights.as_mut_ptr().cast());
        // SAFETY: n weights of this dtype, of which any bits are one
        self.call(|options| unsafe { sys::tlc_delta_apply(src, frame.len(), T::DTYPE as u32, at, n, options) })
    }

    /// The same of a part of n weights, such as a shard, which begins with the weight `first`.
    pub fn apply_range<T: Element>(&self, frame: &[u8], part: &mut [T], n: usize, first: usize) -> Result<()> {
        let (src, count, at) = (frame.as_ptr().cast(), values(part), part.as_mut_ptr().cast::<c_void>());
        let dtype = T::DTYPE as u32;
        // SAFETY: count weights of this dtype, the base and the place for the next ones
        self.call(|options| unsafe {
            sys::tlc_delta_apply_range(src, frame.len(), dtype, at, at, n, first, count, options)
        })
    }

    /// All that `apply` checks.
    pub fn check<T: Element>(&self, frame: &[u8], weights: &[T]) -> Result<()> {
        let (src, n, at) = (frame.as_ptr().cast(), values(weights), weights.as_ptr().cast());
        // SAFETY: n weights of this dtype
        self.call(|options| unsafe { sys::tlc_delta_check(src, frame.len(), T::DTYPE as u32, at, n, options) })
    }

    /// Completes a call of `apply` that was broken off, as when a process was killed. Returns how many blocks were at
    /// the result, at the base, and between them.
    pub fn repair<T: Element>(&self, frame: &[u8], weights: &mut [T]) -> Result<[u64; 3]> {
        let (src, n, at) = (frame.as_ptr().cast(), values(weights), weights.as_mut_ptr().cast());
        let (dtype, mut found) = (T::DTYPE as u32, [0; 3]);
        // SAFETY: n weights of this dtype, and 3 numbers
        self.call(|options| unsafe {
            sys::tlc_delta_repair(src, frame.len(), dtype, at, n, found.as_mut_ptr(), options)
        })?;
        Ok(found)
    }

    /// Makes one frame of a chain of frames of n weights. It takes the place of what `frame` has.
    pub fn fold<T: Element>(&self, chain: &[&[u8]], n: usize, frame: &mut Vec<u8>) -> Result<()> {
        let (dtype, mut bound) = (T::DTYPE as u32, 0);
        if let Some(first) = chain.first() {
            let head = peek(first)?;
            if head.dtype != T::DTYPE || head.n != n as u64 {
                let sentence = format!("frame 0 is of {} {:?}, not of {} {:?}", head.n, head.dtype, n, T::DTYPE);
                return Err(Error { status: Status::Size, sentence });
            }
        }
        // SAFETY: numbers
        check(unsafe { sys::tlc_delta_fold_bound(dtype, n, chain.len(), &mut bound) }, String::new)?;
        let frames: Vec<*const c_void> = chain.iter().map(|one| one.as_ptr().cast()).collect();
        let lens: Vec<usize> = chain.iter().map(|one| one.len()).collect();
        written_to(frame, bound, |dst, cap, written| {
            // SAFETY: as many frames as lengths, and cap bytes apart from them
            self.call(|options| unsafe {
                sys::tlc_delta_fold(frames.as_ptr(), lens.as_ptr(), lens.len(), dst, cap, written, options)
            })
        })
    }

    /// What frames carry of weights, by which a machine finds the delta that it needs.
    pub fn digest<T: Element>(&self, weights: &[T]) -> Result<u64> {
        self.digest_part(weights, 0)
    }

    /// The same of a part of the weights, from number `first` on, a multiple of 4,096. Those of parts add up, modulo
    /// 2^64, to that of all.
    pub fn digest_part<T: Element>(&self, weights: &[T], first: u64) -> Result<u64> {
        let (n, at, mut digest) = (values(weights), weights.as_ptr().cast(), 0);
        // SAFETY: n weights of this dtype
        self.call(|options| unsafe {
            sys::tlc_delta_digest_part(T::DTYPE as u32, at, n, first, &mut digest, options)
        })?;
        Ok(digest)
    }
}

/// What a frame tells of itself: `tlc_delta_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaInfo {
    /// Of the format.
    pub version: u32,
    /// Of the weights.
    pub dtype: Dtype,
    /// Weights.
    pub n: u64,
    /// The digest of the weights before, 0 without digests. None: the frame has all weights.
    pub base_digest: Option<u64>,
    /// The digest of the weights after. None: the frame has no digests.
    pub result_digest: Option<u64>,
    /// How many blocks are unchanged, sparse, dense, raw. 0 of `peek`.
    pub blocks: [u64; 4],
    /// Weights that differ in sparse blocks. 0 of `peek`.
    pub changed: u64,
}

type Describe = unsafe extern "C" fn(*const c_void, usize, *mut sys::tlc_delta_info) -> sys::tlc_status;

fn describe(frame: &[u8], call: Describe) -> Result<DeltaInfo> {
    let mut info = sys::init(sys::tlc_delta_info_init);
    // SAFETY: any bytes are safe
    let status = unsafe { call(frame.as_ptr().cast(), frame.len(), &mut info) };
    check(status, || explanation(frame, Format::Delta))?;
    Ok(DeltaInfo {
        version: info.version,
        dtype: Dtype::of(info.dtype)?,
        n: info.n,
        base_digest: (info.has_base != 0).then_some(info.base_digest),
        result_digest: (info.has_digests != 0).then_some(info.result_digest),
        blocks: info.blocks,
        changed: info.changed,
    })
}

/// What the head of a frame tells. The rest may not have come yet.
pub fn peek(frame: &[u8]) -> Result<DeltaInfo> {
    describe(frame, sys::tlc_delta_peek)
}

/// Checks a whole frame, but for n and dtype, and describes it.
pub fn inspect(frame: &[u8]) -> Result<DeltaInfo> {
    describe(frame, sys::tlc_delta_inspect)
}
