// SPDX-License-Identifier: MIT
//! What calls of the exchange tell.

use crate::error::{text, Status};
use crate::sys;
use std::slice;

/// What the last call found: `tlc_outcome`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the call failed. None: it did not.
    pub status: Option<Status>,
    /// Why a step failed, or went on without somebody, or why the call failed.
    pub cause: Option<Status>,
    /// The step of the call.
    pub step: u64,
    /// Who is at fault.
    pub rank: Option<u32>,
    /// The index of the tensor at fault.
    pub tensor: Option<usize>,
    /// By worker: whether its push was taken. None: not known.
    pub taken: Option<Vec<bool>>,
    /// After states were loaded: entries that have no place.
    pub unknown: usize,
    /// After states were loaded: tensors that are in no state.
    pub missing: usize,
    /// Never empty.
    pub sentence: String,
}

impl Outcome {
    /// `found` points to what its object has, and no call has changed it.
    pub(super) unsafe fn of(found: &sys::tlc_outcome) -> Outcome {
        let taken = (!found.taken.is_null()).then(|| {
            let bits = slice::from_raw_parts(found.taken, (found.workers as usize + 7) / 8);
            (0..found.workers as usize).map(|i| bits[i / 8] >> (i % 8) & 1 != 0).collect()
        });
        Outcome {
            status: Status::of(found.status),
            cause: Status::of(found.cause),
            step: found.step,
            rank: (found.rank != sys::TLC_NOBODY).then_some(found.rank),
            tensor: (found.tensor != sys::TLC_ALL).then_some(found.tensor),
            taken,
            unknown: found.unknown,
            missing: found.missing,
            sentence: text(found.sentence.as_ptr()),
        }
    }
}

/// Since the object was made: `tlc_exchange_stats`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// That ended.
    pub steps: u64,
    /// Of them.
    pub failed: u64,
    /// Server: pushes that came late. Worker: pushes that a server did not take.
    pub late: u64,
    /// What `sent` would be with the codec raw.
    pub float_bytes: u64,
    /// Bytes of messages to others.
    pub sent: u64,
    /// Bytes of messages from others.
    pub received: u64,
    /// Values whose part of a failed step could not go back.
    pub dropped: u64,
    /// Residual over signal of pushes in the last step, as 2-norms. 0: nothing was sent.
    pub push_residual_ratio: f64,
    /// The same of answers. If it stays above `sys::TLC_STARVES_FROM`, most of the means come too late.
    pub pull_residual_ratio: f64,
}

impl Stats {
    pub(super) fn of(c: &sys::tlc_exchange_stats) -> Stats {
        let ratio = |residual: f64, signal: f64| if signal > 0.0 { (residual / signal).sqrt() } else { 0.0 };
        Stats {
            steps: c.steps,
            failed: c.failed,
            late: c.late,
            float_bytes: c.float_bytes,
            sent: c.sent,
            received: c.received,
            dropped: c.dropped,
            push_residual_ratio: ratio(c.push_residual_squares, c.push_signal_squares),
            pull_residual_ratio: ratio(c.pull_residual_squares, c.pull_signal_squares),
        }
    }
}

/// A part of a tensor that a server or rank owns: `tlc_part`.
#[derive(Clone, Copy, Debug)]
pub struct Part<'object> {
    /// The index of the tensor.
    pub tensor: usize,
    /// Where the part begins in it.
    pub first: usize,
    /// Of the pushes, after they were averaged.
    pub mean: &'object [f32],
    /// What answers did not send yet. None: the codec keeps no residual.
    pub residual: Option<&'object [f32]>,
}

impl Part<'_> {
    /// The arrays of `part` live as long as the lifetime that the caller chooses.
    pub(super) unsafe fn of<'object>(part: &sys::tlc_part) -> Part<'object> {
        let floats = |at| if part.n == 0 { &[][..] } else { slice::from_raw_parts(at, part.n) };
        Part {
            tensor: part.tensor,
            first: part.first,
            mean: floats(part.mean),
            residual: (!part.residual.is_null()).then(|| floats(part.residual)),
        }
    }
}

/// Of a message that a server took: `tlc_push_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushInfo {
    /// Who sent it.
    pub worker: u32,
    /// Its step.
    pub step: u64,
    /// Its step has been reduced.
    pub late: bool,
    /// The same message came before.
    pub repeated: bool,
}
