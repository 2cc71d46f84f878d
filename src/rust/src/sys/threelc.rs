// SPDX-License-Identifier: MIT
//! `threelc/threelc.h`: Contexts, frames, codecs, states.

use std::os::raw::{c_char, c_int, c_uint, c_void};

c_constants! {
    TLC_FRAME_VERSION: u32 = 1;
    TLC_MESSAGE_SIZE: usize = 512;
    TLC_UNKNOWN: u64 = u64::MAX;
    TLC_OK: tlc_status = 0;
    TLC_ERR_PARAM: tlc_status = 1;
    TLC_ERR_NOMEM: tlc_status = 2;
    TLC_ERR_CAPACITY: tlc_status = 3;
    TLC_ERR_NONFINITE: tlc_status = 4;
    TLC_ERR_CORRUPT: tlc_status = 5;
    TLC_ERR_CHECKSUM: tlc_status = 6;
    TLC_ERR_VERSION: tlc_status = 7;
    TLC_ERR_SIZE: tlc_status = 8;
    TLC_ERR_UNSUPPORTED: tlc_status = 9;
    TLC_ERR_STEP: tlc_status = 10;
    TLC_ERR_ORDER: tlc_status = 11;
    TLC_ERR_TRANSPORT: tlc_status = 12;
    TLC_ERR_BASE: tlc_status = 13;
    TLC_F32: tlc_dtype = 0;
    TLC_F16: tlc_dtype = 1;
    TLC_BF16: tlc_dtype = 2;
    TLC_F8_E4M3: tlc_dtype = 3;
    TLC_F8_E5M2: tlc_dtype = 4;
    TLC_F4_E2M1: tlc_dtype = 5;
    TLC_U8: tlc_dtype = 6;
    TLC_U4: tlc_dtype = 7;
    TLC_I32: tlc_dtype = 8;
    TLC_I64: tlc_dtype = 9;
    TLC_F64: tlc_dtype = 10;
    TLC_ISA_AUTO: tlc_isa = 0;
    TLC_ISA_SCALAR: tlc_isa = 1;
    TLC_ISA_AVX2: tlc_isa = 2;
    TLC_ISA_AVX512: tlc_isa = 3;
    TLC_ISA_NEON: tlc_isa = 4;
    TLC_ENTRY_SHORT_NAME: tlc_entry_kind = 0;
    TLC_ENTRY_QUANTIZER: tlc_entry_kind = 1;
    TLC_ENTRY_PACKER: tlc_entry_kind = 2;
    TLC_ENTRY_SHRINKER: tlc_entry_kind = 3;
    TLC_FORMAT_FRAME: tlc_format = 0;
    TLC_FORMAT_DELTA: tlc_format = 1;
    TLC_FORMAT_BUNDLE: tlc_format = 2;
    TLC_FORMAT_STATE: tlc_format = 3;
}

pub type tlc_status = c_uint;
pub type tlc_dtype = c_uint;
pub type tlc_isa = c_uint;
pub type tlc_entry_kind = c_uint;
pub type tlc_format = c_uint;

/// What `tlc_parallel.run` calls. The library never passes a null pointer.
pub type tlc_task = unsafe extern "C" fn(arg: *mut c_void, i: usize);

c_objects! { tlc_ctx }

c_structs! {
    struct tlc_allocator {
        alloc: Option<unsafe extern "C" fn(opaque: *mut c_void, size: usize) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(opaque: *mut c_void, ptr: *mut c_void)>,
        opaque: *mut c_void,
    }
    struct tlc_parallel {
        run: Option<unsafe extern "C" fn(opaque: *mut c_void, count: usize, task: tlc_task, arg: *mut c_void)>,
        opaque: *mut c_void,
    }
    struct tlc_config {
        struct_size: usize,
        codec: *const c_char,
        reserve: *const c_char,
        dtype: tlc_dtype,
        feedback: c_int,
        seed: u64,
        isa: tlc_isa,
        checksum: c_int,
        assume_finite: c_int,
        residual: *mut f32,
        alloc: tlc_allocator,
        parallel: tlc_parallel,
        message: *mut c_char,
        message_cap: usize,
    }
    struct tlc_decode_options {
        struct_size: usize,
        isa: tlc_isa,
        parallel: tlc_parallel,
        from_zero: c_int,
        message: *mut c_char,
        message_cap: usize,
    }
    struct tlc_frame_info {
        struct_size: usize,
        version: u32,
        dtype: tlc_dtype,
        checksum: c_int,
        codec: [c_char; 128],
        n: u64,
        block: u64,
        nonzero: u64,
        header_size: u64,
        payload_size: u64,
        clipped: u64,
    }
    struct tlc_message {
        data: *const c_void,
        len: usize,
    }
    struct tlc_codec_param {
        key: *const c_char,
        range: *const c_char,
        meaning: *const c_char,
    }
    struct tlc_codec_entry {
        struct_size: usize,
        name: *const c_char,
        list: *const c_char,
        takes: *const c_char,
        gives: *const c_char,
        meaning: *const c_char,
        source: *const c_char,
        feedback: c_int,
        param_count: usize,
        param: [tlc_codec_param; 4],
        kind: tlc_entry_kind,
        codec: c_int,
        symbols: c_int,
        sparse: c_int,
    }
}

c_functions! {
    fn tlc_decode_options_init(opt: *mut tlc_decode_options, struct_size: usize) -> tlc_status;
    fn tlc_frame_info_init(info: *mut tlc_frame_info, struct_size: usize) -> tlc_status;
    fn tlc_version() -> u32;
    fn tlc_version_string() -> *const c_char;
    fn tlc_status_string(s: tlc_status) -> *const c_char;
    fn tlc_isa_supported(isa: tlc_isa) -> c_int;
    fn tlc_isa_name(isa: tlc_isa) -> *const c_char;
    fn tlc_config_init(cfg: *mut tlc_config, struct_size: usize) -> tlc_status;
    fn tlc_create(out: *mut *mut tlc_ctx, cfg: *const tlc_config, n: usize) -> tlc_status;
    fn tlc_destroy(ctx: *mut tlc_ctx);
    fn tlc_last_error(ctx: *const tlc_ctx) -> *const c_char;
    fn tlc_bound(ctx: *const tlc_ctx) -> usize;
    fn tlc_codec_bound(codec: *const c_char, dtype: tlc_dtype, n: usize, bound: *mut usize) -> tlc_status;
    fn tlc_codec_check(codec: *const c_char, message: *mut c_char, cap: usize) -> tlc_status;
    fn tlc_codec_entry_init(entry: *mut tlc_codec_entry, struct_size: usize) -> tlc_status;
    fn tlc_codec_list(i: usize, entry: *mut tlc_codec_entry) -> tlc_status;
    fn tlc_accumulate(ctx: *mut tlc_ctx, grad: *const c_void) -> tlc_status;
    fn tlc_compress(
        ctx: *mut tlc_ctx, grad: *const c_void, dst: *mut c_void, cap: usize, written: *mut usize,
    ) -> tlc_status;
    fn tlc_set_codec(ctx: *mut tlc_ctx, codec: *const c_char) -> tlc_status;
    fn tlc_residual(ctx: *mut tlc_ctx) -> *mut f32;
    fn tlc_residual_scale(ctx: *mut tlc_ctx, factor: f32) -> tlc_status;
    fn tlc_reset(ctx: *mut tlc_ctx);
    fn tlc_isa_used(ctx: *const tlc_ctx) -> tlc_isa;
    fn tlc_state_size(ctx: *const tlc_ctx) -> usize;
    fn tlc_state_save(ctx: *const tlc_ctx, dst: *mut c_void, cap: usize, written: *mut usize) -> tlc_status;
    fn tlc_state_load(ctx: *mut tlc_ctx, src: *const c_void, len: usize) -> tlc_status;
    fn tlc_decompress(
        src: *const c_void, len: usize, dtype: tlc_dtype, out: *mut c_void, n: usize,
        opt: *const tlc_decode_options,
    ) -> tlc_status;
    fn tlc_decompress_add(
        src: *const c_void, len: usize, weight: f32, sum: *mut f32, n: usize, opt: *const tlc_decode_options,
    ) -> tlc_status;
    fn tlc_decompress_add_many(
        frames: *const tlc_message, weights: *const f32, count: usize, sum: *mut f32, n: usize, bad: *mut usize,
        opt: *const tlc_decode_options,
    ) -> tlc_status;
    fn tlc_mask(
        src: *const c_void, len: usize, momentum: *mut f32, n: usize, opt: *const tlc_decode_options,
    ) -> tlc_status;
    fn tlc_inspect(src: *const c_void, len: usize, info: *mut tlc_frame_info) -> tlc_status;
    fn tlc_peek(src: *const c_void, len: usize, info: *mut tlc_frame_info) -> tlc_status;
    fn tlc_explain(src: *const c_void, len: usize, format: tlc_format, message: *mut c_char, cap: usize) -> tlc_status;
}
