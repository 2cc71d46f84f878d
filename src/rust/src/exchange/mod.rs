// SPDX-License-Identifier: MIT
//! The exchange: who sends what to whom, without I/O. The caller carries the bytes: `threelc/exchange.h`.
//!
//! Messages that an object made are borrowed from it, so they must be sent, or copied, before its next call. Messages
//! that it takes are borrowed for the call; those that it keeps for longer are given to it.

#[macro_use]
mod common;

mod allreduce;
mod config;
mod outcome;
mod server;
mod worker;

pub use allreduce::AllReduce;
pub use config::{pull_codec, Config, Tensor};
pub use outcome::{Outcome, Part, PushInfo, Stats};
pub use server::Server;
pub use worker::Worker;

pub(crate) use common::{bytes, each_float, object_methods, Handle};
