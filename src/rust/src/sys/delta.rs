// SPDX-License-Identifier: MIT
//! `threelc/delta.h`: Deltas of weights.

use super::*;
use std::os::raw::{c_char, c_int, c_void};

c_constants! {
    TLC_DELTA_HEAD_MAX: usize = 30;
}

c_structs! {
    struct tlc_delta_options {
        struct_size: usize,
        isa: tlc_isa,
        without_digests: c_int,
        parallel: tlc_parallel,
        message: *mut c_char,
        message_cap: usize,
        block_digests: c_int,
        check_result: c_int,
    }
    struct tlc_delta_info {
        struct_size: usize,
        version: u32,
        dtype: tlc_dtype,
        n: u64,
        has_base: c_int,
        has_digests: c_int,
        base_digest: u64,
        result_digest: u64,
        blocks: [u64; 4],
        changed: u64,
    }
    struct tlc_delta_piece {
        struct_size: usize,
        next: u64,
        end: u64,
        state: u64,
        positions: *mut u64,
        values: *mut c_void,
        cap: usize,
        k: usize,
        are_values: c_int,
    }
}

c_functions! {
    fn tlc_delta_options_init(opt: *mut tlc_delta_options, struct_size: usize) -> tlc_status;
    fn tlc_delta_info_init(info: *mut tlc_delta_info, struct_size: usize) -> tlc_status;
    fn tlc_delta_bound(dtype: tlc_dtype, n: usize, bound: *mut usize) -> tlc_status;
    fn tlc_delta_compress(
        dtype: tlc_dtype, base: *const c_void, next: *const c_void, n: usize, dst: *mut c_void, cap: usize,
        written: *mut usize, opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_apply(
        src: *const c_void, len: usize, dtype: tlc_dtype, weights: *mut c_void, n: usize,
        opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_apply_range(
        src: *const c_void, len: usize, dtype: tlc_dtype, base: *const c_void, out: *mut c_void, n: usize,
        first: usize, count: usize, opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_check(
        src: *const c_void, len: usize, dtype: tlc_dtype, weights: *const c_void, n: usize,
        opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_repair(
        src: *const c_void, len: usize, dtype: tlc_dtype, weights: *mut c_void, n: usize, found: *mut u64,
        opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_changes_bound(dtype: tlc_dtype, k: usize, n: usize, bound: *mut usize) -> tlc_status;
    fn tlc_delta_from_changes(
        dtype: tlc_dtype, positions: *const u64, before: *const c_void, after: *const c_void, k: usize,
        n: usize, digests: *const u64, dst: *mut c_void, cap: usize, written: *mut usize,
        opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_piece_init(piece: *mut tlc_delta_piece, struct_size: usize) -> tlc_status;
    fn tlc_delta_changes(
        src: *const c_void, len: usize, dtype: tlc_dtype, n: usize, piece: *mut tlc_delta_piece,
        opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_fold_bound(dtype: tlc_dtype, n: usize, count: usize, bound: *mut usize) -> tlc_status;
    fn tlc_delta_fold(
        frames: *const *const c_void, lens: *const usize, count: usize, dst: *mut c_void, cap: usize,
        written: *mut usize, opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_peek(src: *const c_void, len: usize, info: *mut tlc_delta_info) -> tlc_status;
    fn tlc_delta_inspect(src: *const c_void, len: usize, info: *mut tlc_delta_info) -> tlc_status;
    fn tlc_delta_digest(
        dtype: tlc_dtype, weights: *const c_void, n: usize, digest: *mut u64, opt: *const tlc_delta_options,
    ) -> tlc_status;
    fn tlc_delta_digest_part(
        dtype: tlc_dtype, weights: *const c_void, n: usize, first: u64, digest: *mut u64,
        opt: *const tlc_delta_options,
    ) -> tlc_status;
}
