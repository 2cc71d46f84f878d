// SPDX-License-Identifier: MIT
//! `threelc/exchange.h`: Workers, servers and all-reduce.

use super::*;
use std::os::raw::{c_char, c_int, c_void};

c_constants! {
    TLC_MESSAGE_VERSION: u32 = 1;
    TLC_NOBODY: u32 = u32::MAX;
    TLC_ALL: usize = usize::MAX;
    TLC_STARVES_FROM: u32 = 15;
}

c_objects! { tlc_worker, tlc_server, tlc_allreduce }

c_structs! {
    struct tlc_tensor {
        struct_size: usize,
        name: *const c_char,
        n: usize,
        push: *const c_char,
        pull: *const c_char,
        residual: *mut f32,
        only: u32,
    }
    struct tlc_outcome {
        struct_size: usize,
        status: tlc_status,
        cause: tlc_status,
        step: u64,
        rank: u32,
        tensor: usize,
        taken: *const u8,
        workers: u32,
        unknown: usize,
        missing: usize,
        sentence: [c_char; 200],
    }
    struct tlc_exchange_config {
        struct_size: usize,
        workers: u32,
        servers: u32,
        owners: u32,
        keep: u32,
        backup: u32,
        gather: c_int,
        sum: c_int,
        push: *const c_char,
        pull: *const c_char,
        reserve: *const c_char,
        min_n: usize,
        split_n: usize,
        assume_finite: c_int,
        dtype: tlc_dtype,
        seed: u64,
        isa: tlc_isa,
        alloc: tlc_allocator,
        parallel: tlc_parallel,
        outcome: *mut tlc_outcome,
    }
    struct tlc_exchange_stats {
        struct_size: usize,
        steps: u64,
        failed: u64,
        late: u64,
        float_bytes: u64,
        sent: u64,
        received: u64,
        dropped: u64,
        push_signal_squares: f64,
        push_residual_squares: f64,
        pull_signal_squares: f64,
        pull_residual_squares: f64,
    }
    struct tlc_part {
        struct_size: usize,
        tensor: usize,
        first: usize,
        n: usize,
        mean: *const f32,
        residual: *const f32,
        seed: u64,
    }
    struct tlc_push_info {
        struct_size: usize,
        worker: u32,
        step: u64,
        late: c_int,
        repeated: c_int,
    }
}

c_functions! {
    fn tlc_tensor_pointers(
        base: *mut c_void, dtype: tlc_dtype, tensors: *const tlc_tensor, count: usize, pointers: *mut *mut c_void,
    ) -> tlc_status;
    fn tlc_tensor_init(tensor: *mut tlc_tensor, struct_size: usize) -> tlc_status;
    fn tlc_outcome_init(outcome: *mut tlc_outcome, struct_size: usize) -> tlc_status;
    fn tlc_pull_codec(push: *const c_char) -> *const c_char;
    fn tlc_exchange_stats_init(stats: *mut tlc_exchange_stats, struct_size: usize) -> tlc_status;
    fn tlc_part_init(part: *mut tlc_part, struct_size: usize) -> tlc_status;
    fn tlc_push_info_init(info: *mut tlc_push_info, struct_size: usize) -> tlc_status;
    fn tlc_exchange_config_init(cfg: *mut tlc_exchange_config, struct_size: usize) -> tlc_status;
    fn tlc_worker_create(
        out: *mut *mut tlc_worker, cfg: *const tlc_exchange_config, worker: u32, tensors: *const tlc_tensor,
        count: usize,
    ) -> tlc_status;
    fn tlc_worker_destroy(w: *mut tlc_worker);
    fn tlc_worker_push(
        w: *mut tlc_worker, grads: *const *const c_void, weight: f64, to: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_worker_push_frames(
        w: *mut tlc_worker, grads: *const *const c_void, frames: *const tlc_message, weight: f64, to: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_worker_pushed_parts(w: *const tlc_worker) -> usize;
    fn tlc_worker_pushed_part(w: *const tlc_worker, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_worker_pull(w: *mut tlc_worker, from: *const tlc_message, out: *const *mut c_void) -> tlc_status;
    fn tlc_worker_pull_frames(
        w: *mut tlc_worker, from: *const tlc_message, out: *const *mut c_void, frames: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_worker_pulled_parts(w: *const tlc_worker) -> usize;
    fn tlc_worker_pulled_part(w: *const tlc_worker, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_worker_mask(w: *mut tlc_worker, momentum: *const *mut f32) -> tlc_status;
    fn tlc_worker_join(w: *mut tlc_worker, step: u64, taken: *const u64) -> tlc_status;
    fn tlc_worker_step(w: *const tlc_worker) -> u64;
    fn tlc_worker_history(w: *const tlc_worker) -> u64;
    fn tlc_worker_message_bound(w: *const tlc_worker) -> usize;
    fn tlc_worker_set_codec(w: *mut tlc_worker, tensor: usize, codec: *const c_char) -> tlc_status;
    fn tlc_worker_residual_scale(w: *mut tlc_worker, factor: f32) -> tlc_status;
    fn tlc_worker_outcome(w: *const tlc_worker, server: u32, outcome: *mut tlc_outcome) -> tlc_status;
    fn tlc_worker_stats(w: *const tlc_worker, stats: *mut tlc_exchange_stats) -> tlc_status;
    fn tlc_worker_state_size(w: *const tlc_worker) -> usize;
    fn tlc_worker_state_save(w: *const tlc_worker, dst: *mut c_void, cap: usize, written: *mut usize) -> tlc_status;
    fn tlc_worker_state_load(w: *mut tlc_worker, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_worker_state_salvage(w: *mut tlc_worker, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_server_create(
        out: *mut *mut tlc_server, cfg: *const tlc_exchange_config, server: u32, tensors: *const tlc_tensor,
        count: usize,
    ) -> tlc_status;
    fn tlc_server_destroy(s: *mut tlc_server);
    fn tlc_server_push(s: *mut tlc_server, from: tlc_message, info: *mut tlc_push_info) -> tlc_status;
    fn tlc_server_ready(s: *const tlc_server) -> c_int;
    fn tlc_server_reduce(s: *mut tlc_server) -> tlc_status;
    fn tlc_server_parts(s: *const tlc_server) -> usize;
    fn tlc_server_part(s: *const tlc_server, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_server_answer(s: *mut tlc_server, delta: *const *const f32, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_server_owned_frames(s: *mut tlc_server, frames: *mut tlc_message, factors: *mut f32) -> tlc_status;
    fn tlc_server_reduce_rest(s: *mut tlc_server, elsewhere: *const u8) -> tlc_status;
    fn tlc_server_answer_frames(
        s: *mut tlc_server, delta: *const *const f32, frames: *const tlc_message, to_all: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_server_again(s: *const tlc_server, step: u64, answer: *mut tlc_message) -> tlc_status;
    fn tlc_server_taken(s: *const tlc_server, worker: u32, step: *mut u64) -> tlc_status;
    fn tlc_server_step(s: *const tlc_server) -> u64;
    fn tlc_server_history(s: *const tlc_server) -> u64;
    fn tlc_server_message_bound(s: *const tlc_server) -> usize;
    fn tlc_server_set_codec(s: *mut tlc_server, tensor: usize, codec: *const c_char) -> tlc_status;
    fn tlc_server_residual_scale(s: *mut tlc_server, factor: f32) -> tlc_status;
    fn tlc_server_outcome(s: *const tlc_server, outcome: *mut tlc_outcome) -> tlc_status;
    fn tlc_server_stats(s: *const tlc_server, stats: *mut tlc_exchange_stats) -> tlc_status;
    fn tlc_server_state_size(s: *const tlc_server) -> usize;
    fn tlc_server_state_save(s: *const tlc_server, dst: *mut c_void, cap: usize, written: *mut usize) -> tlc_status;
    fn tlc_server_state_load(s: *mut tlc_server, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_server_state_salvage(s: *mut tlc_server, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_allreduce_create(
        out: *mut *mut tlc_allreduce, cfg: *const tlc_exchange_config, rank: u32, tensors: *const tlc_tensor,
        count: usize,
    ) -> tlc_status;
    fn tlc_allreduce_destroy(a: *mut tlc_allreduce);
    fn tlc_allreduce_push(
        a: *mut tlc_allreduce, grads: *const *const c_void, weight: f64, to: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_allreduce_push_frames(
        a: *mut tlc_allreduce, grads: *const *const c_void, frames: *const tlc_message, weight: f64,
        to: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_allreduce_pushed_parts(a: *const tlc_allreduce) -> usize;
    fn tlc_allreduce_pushed_part(a: *const tlc_allreduce, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_allreduce_reduce(a: *mut tlc_allreduce, from: *const tlc_message, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_allreduce_owned_frames(
        a: *mut tlc_allreduce, from: *const tlc_message, frames: *mut tlc_message, factors: *mut f32,
    ) -> tlc_status;
    fn tlc_allreduce_reduce_frames(
        a: *mut tlc_allreduce, from: *const tlc_message, frames: *const tlc_message, to_all: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_allreduce_average(a: *mut tlc_allreduce, from: *const tlc_message) -> tlc_status;
    fn tlc_allreduce_answer(a: *mut tlc_allreduce, delta: *const *const f32, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_allreduce_pull(a: *mut tlc_allreduce, from: *const tlc_message, out: *const *mut c_void) -> tlc_status;
    fn tlc_allreduce_pull_frames(
        a: *mut tlc_allreduce, from: *const tlc_message, out: *const *mut c_void, frames: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_allreduce_pulled_parts(a: *const tlc_allreduce) -> usize;
    fn tlc_allreduce_pulled_part(a: *const tlc_allreduce, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_allreduce_again(a: *const tlc_allreduce, step: u64, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_allreduce_cancel(a: *mut tlc_allreduce) -> tlc_status;
    fn tlc_allreduce_parts(a: *const tlc_allreduce) -> usize;
    fn tlc_allreduce_part(a: *const tlc_allreduce, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_allreduce_mask(a: *mut tlc_allreduce, momentum: *const *mut f32) -> tlc_status;
    fn tlc_allreduce_step(a: *const tlc_allreduce) -> u64;
    fn tlc_allreduce_history(a: *const tlc_allreduce) -> u64;
    fn tlc_allreduce_message_bound(a: *const tlc_allreduce) -> usize;
    fn tlc_allreduce_set_codec(
        a: *mut tlc_allreduce, tensor: usize, push: *const c_char, pull: *const c_char,
    ) -> tlc_status;
    fn tlc_allreduce_residual_scale(a: *mut tlc_allreduce, factor: f32) -> tlc_status;
    fn tlc_allreduce_outcome(a: *const tlc_allreduce, outcome: *mut tlc_outcome) -> tlc_status;
    fn tlc_allreduce_stats(a: *const tlc_allreduce, stats: *mut tlc_exchange_stats) -> tlc_status;
    fn tlc_allreduce_state_size(a: *const tlc_allreduce) -> usize;
    fn tlc_allreduce_state_save(
        a: *const tlc_allreduce, dst: *mut c_void, cap: usize, written: *mut usize,
    ) -> tlc_status;
    fn tlc_allreduce_state_load(a: *mut tlc_allreduce, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_allreduce_state_salvage(a: *mut tlc_allreduce, states: *const tlc_message, count: usize) -> tlc_status;
}
