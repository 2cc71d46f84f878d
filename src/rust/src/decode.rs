// SPDX-License-Identifier: MIT
//! What becomes of frames, which may be any bytes.

use crate::element::{values, Dtype, Element, Isa};
use crate::error::{check, refuse, text, Result, Sentence};
use crate::parallel::{Parallel, Pool};
use crate::sys;
use std::sync::Arc;

/// Decodes frames. A frame is checked whole before the first value is written.
#[derive(Clone, Default)]
pub struct Decoder {
    /// The instructions.
    pub isa: Isa,
    /// The threads of each call.
    pub parallel: Option<Arc<dyn Parallel>>,
    /// `add` and `add_many` begin with a sum of +0, whatever `sum` holds.
    pub from_zero: bool,
}

impl Decoder {
    fn call(&self, call: impl FnOnce(&sys::tlc_decode_options) -> sys::tlc_status) -> Result<()> {
        let pool = Pool::new(&self.parallel);
        let mut sentence = Sentence::new();
        let mut options = sys::init(sys::tlc_decode_options_init);
        options.isa = self.isa as u32;
        options.parallel = Pool::parallel(&pool);
        options.from_zero = self.from_zero.into();
        options.message = sentence.place();
        options.message_cap = sys::TLC_MESSAGE_SIZE;
        let status = call(&options);
        Pool::resume(&pool);
        sentence.check(status)
    }

    /// `out[i]` = value i.
    pub fn decompress<T: Element>(&self, frame: &[u8], out: &mut [T]) -> Result<()> {
        let (dtype, n) = (T::DTYPE as u32, values(out));
        // SAFETY: n values of this dtype, of which any bits are one
        self.call(|options| unsafe {
            sys::tlc_decompress(frame.as_ptr().cast(), frame.len(), dtype, out.as_mut_ptr().cast(), n, options)
        })
    }

    /// `sum[i] += weight * value i`.
    pub fn add(&self, frame: &[u8], weight: f32, sum: &mut [f32]) -> Result<()> {
        // SAFETY: the sizes are those of the slices
        self.call(|options| unsafe {
            let (src, len) = (frame.as_ptr().cast(), frame.len());
            sys::tlc_decompress_add(src, len, weight, sum.as_mut_ptr(), sum.len(), options)
        })
    }

    /// `sum[i] += weights[j] * value i` of frame j, for all frames in their order, in one sweep. weights None: all
    /// are 1.
    pub fn add_many(&self, frames: &[&[u8]], weights: Option<&[f32]>, sum: &mut [f32]) -> Result<()> {
        if weights.map_or(false, |weights| weights.len() != frames.len()) {
            return refuse(format!("{} frames have {} weights", frames.len(), weights.unwrap_or_default().len()));
        }
        let messages = messages(frames);
        let weights = weights.map_or(std::ptr::null(), |weights| weights.as_ptr());
        // SAFETY: as many messages and weights as frames
        self.call(|options| unsafe {
            let (first, count, bad) = (messages.as_ptr(), messages.len(), std::ptr::null_mut());
            sys::tlc_decompress_add_many(first, weights, count, sum.as_mut_ptr(), sum.len(), bad, options)
        })
    }

    /// `momentum[i] = +0` where value i of the frame is not 0.
    pub fn mask(&self, frame: &[u8], momentum: &mut [f32]) -> Result<()> {
        // SAFETY: the sizes are those of the slices
        self.call(|options| unsafe {
            let (src, len) = (frame.as_ptr().cast(), frame.len());
            sys::tlc_mask(src, len, momentum.as_mut_ptr(), momentum.len(), options)
        })
    }
}

pub(crate) fn messages(bytes: &[&[u8]]) -> Vec<sys::tlc_message> {
    bytes.iter().map(|one| sys::tlc_message { data: one.as_ptr().cast(), len: one.len() }).collect()
}

/// What a frame tells of itself: `tlc_frame_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// Of the frame format.
    pub version: u32,
    /// Of the gradients that were compressed.
    pub dtype: Dtype,
    /// The frame has a checksum.
    pub checksum: bool,
    /// What a decoder must know of the codec.
    pub codec: String,
    /// Values.
    pub n: u64,
    /// Values in a block; 0: not blocked.
    pub block: u64,
    /// Symbols or values that are not 0. None: not known.
    pub nonzero: Option<u64>,
    /// Bytes before the payload.
    pub header_size: u64,
    /// Bytes of the payload.
    pub payload_size: u64,
    /// natural: values whose exponent was clipped. None: not known.
    pub clipped: Option<u64>,
}

type Describe = unsafe extern "C" fn(*const std::os::raw::c_void, usize, *mut sys::tlc_frame_info) -> sys::tlc_status;

fn describe(frame: &[u8], call: Describe) -> Result<FrameInfo> {
    let mut info = sys::init(sys::tlc_frame_info_init);
    // SAFETY: any bytes are safe
    let status = unsafe { call(frame.as_ptr().cast(), frame.len(), &mut info) };
    check(status, || explanation(frame, Format::Frame))?;
    let known = |number| (number != sys::TLC_UNKNOWN).then_some(number);
    Ok(FrameInfo {
        version: info.version,
        dtype: Dtype::of(info.dtype)?,
        checksum: info.checksum != 0,
        codec: text(info.codec.as_ptr()),
        n: info.n,
        block: info.block,
        nonzero: known(info.nonzero),
        header_size: info.header_size,
        payload_size: info.payload_size,
        clipped: known(info.clipped),
    })
}

/// Checks a whole frame, but for its n, and describes it.
pub fn inspect(frame: &[u8]) -> Result<FrameInfo> {
    describe(frame, sys::tlc_inspect)
}

/// Describes a frame by its header alone. Decoders may refuse it later.
pub fn peek(frame: &[u8]) -> Result<FrameInfo> {
    describe(frame, sys::tlc_peek)
}

/// What bytes should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Format {
    /// Of values.
    Frame = sys::TLC_FORMAT_FRAME,
    /// Of weights.
    Delta = sys::TLC_FORMAT_DELTA,
    /// Many frames in one message.
    Bundle = sys::TLC_FORMAT_BUNDLE,
    /// Of a context.
    State = sys::TLC_FORMAT_STATE,
}

/// Why bytes are refused: `tlc_explain`.
pub fn explain(bytes: &[u8], format: Format) -> Result<()> {
    let mut sentence = Sentence::new();
    let (src, at) = (bytes.as_ptr().cast(), sentence.place());
    // SAFETY: any bytes are safe
    let status = unsafe { sys::tlc_explain(src, bytes.len(), format as u32, at, sys::TLC_MESSAGE_SIZE) };
    sentence.check(status)
}

/// The sentence for bytes that a call refused which has no place for one.
pub(crate) fn explanation(bytes: &[u8], format: Format) -> String {
    explain(bytes, format).err().map_or_else(String::new, |error| error.sentence)
}
