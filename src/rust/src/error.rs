// SPDX-License-Identifier: MIT
//! Calls that fail: a status, and the sentence of the library.

use crate::sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::c_char;

/// Why a call failed: `tlc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// An argument is out of its range.
    Param,
    /// There is no memory.
    NoMem,
    /// A buffer is too small, or a context was made for smaller frames.
    Capacity,
    /// NaN or infinity.
    NonFinite,
    /// The bytes are no frame, state or message: truncated or altered.
    Corrupt,
    /// The checksum does not match.
    Checksum,
    /// Written by another version of the format, or not of this format at all.
    Version,
    /// The frame or state has another n, or a size overflows.
    Size,
    /// A codec, ISA or operation that is not available here.
    Unsupported,
    /// Exchange: the step failed, for all; nothing is lost.
    Step,
    /// Exchange: a call out of turn, or a message of another step.
    Order,
    /// What carries messages failed.
    Transport,
    /// Delta: the weights are not those that it begins with.
    Base,
    /// A status of a newer library.
    Unknown(u32),
}

impl Status {
    /// None: `TLC_OK`.
    pub(crate) fn of(status: sys::tlc_status) -> Option<Status> {
        Some(match status {
            sys::TLC_OK => return None,
            sys::TLC_ERR_PARAM => Status::Param,
            sys::TLC_ERR_NOMEM => Status::NoMem,
            sys::TLC_ERR_CAPACITY => Status::Capacity,
            sys::TLC_ERR_NONFINITE => Status::NonFinite,
            sys::TLC_ERR_CORRUPT => Status::Corrupt,
            sys::TLC_ERR_CHECKSUM => Status::Checksum,
            sys::TLC_ERR_VERSION => Status::Version,
            sys::TLC_ERR_SIZE => Status::Size,
            sys::TLC_ERR_UNSUPPORTED => Status::Unsupported,
            sys::TLC_ERR_STEP => Status::Step,
            sys::TLC_ERR_ORDER => Status::Order,
            sys::TLC_ERR_TRANSPORT => Status::Transport,
            sys::TLC_ERR_BASE => Status::Base,
            number => Status::Unknown(number),
        })
    }
}

/// A call that failed. It changed nothing, but where its documentation says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub status: Status,
    /// Which argument, what was given and what is allowed.
    pub sentence: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

/// The result of a call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An argument that was refused before the library was called.
pub(crate) fn refuse<T>(sentence: String) -> Result<T> {
    Err(Error { status: Status::Param, sentence })
}

/// Where the sentence is empty, that of the status.
pub(crate) fn check(status: sys::tlc_status, sentence: impl FnOnce() -> String) -> Result<()> {
    let kind = match Status::of(status) {
        Some(kind) => kind,
        None => return Ok(()),
    };
    let mut sentence = sentence();
    if sentence.is_empty() {
        // SAFETY: a constant text for any number
        sentence = text(unsafe { sys::tlc_status_string(status) });
    }
    Err(Error { status: kind, sentence })
}

/// A copy of a text of the library's, or "" for NULL.
pub(crate) fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: every `const char *` that the library returns is a text with a NUL, which no call changes meanwhile
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

pub(crate) fn c_string(what: &str, text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| refuse(format!("{} has a NUL: {:?}", what, text)))
}

/// Room for a sentence.
pub(crate) struct Sentence([c_char; sys::TLC_MESSAGE_SIZE]);

impl Sentence {
    pub fn new() -> Sentence {
        Sentence([0; sys::TLC_MESSAGE_SIZE])
    }

    pub fn place(&mut self) -> *mut c_char {
        self.0.as_mut_ptr()
    }

    pub fn check(&self, status: sys::tlc_status) -> Result<()> {
        check(status, || text(self.0.as_ptr()))
    }
}
