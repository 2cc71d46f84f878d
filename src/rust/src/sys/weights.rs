// SPDX-License-Identifier: MIT
//! `threelc/weights.h`: Messages of weights.

use super::*;
use std::os::raw::{c_char, c_int, c_void};

c_constants! {
    TLC_WEIGHTS_NAME_MAX: usize = 4096;
    TLC_WEIGHTS_DIMS_MAX: usize = 64;
    TLC_WEIGHTS_NOTE_MAX: usize = 16 << 20;
    TLC_WEIGHTS_TRAINER_SIZE: usize = 16;
}

pub type tlc_weights_write = Option<unsafe extern "C" fn(opaque: *mut c_void, src: *const c_void, len: usize) -> c_int>;
pub type tlc_weights_read =
    Option<unsafe extern "C" fn(opaque: *mut c_void, offset: u64, dst: *mut c_void, len: usize) -> c_int>;
pub type tlc_weights_find = Option<
    unsafe extern "C" fn(opaque: *mut c_void, entry: *const tlc_weights_entry, place: *mut tlc_weights_place) -> c_int,
>;

c_objects! { tlc_weights_writer, tlc_weights_reader }

c_structs! {
    struct tlc_weights_entry {
        struct_size: usize,
        name: *const c_char,
        dtype: tlc_dtype,
        dims: usize,
        shape: *const u64,
        n: u64,
        frame_len: u64,
        has_base: c_int,
        base_digest: u64,
        result_digest: u64,
        is_view: c_int,
        root: u64,
        root_dims: usize,
        root_strides: *const u64,
        strides: *const u64,
        first: u64,
    }
    struct tlc_weights_writer_config {
        struct_size: usize,
        write: tlc_weights_write,
        opaque: *mut c_void,
        trainer: [u8; TLC_WEIGHTS_TRAINER_SIZE],
        sequence: u64,
        count: u64,
        note: *const c_void,
        note_len: usize,
        alloc: tlc_allocator,
        message: *mut c_char,
        message_cap: usize,
    }
    struct tlc_weights_reader_config {
        struct_size: usize,
        src: *const c_void,
        read: tlc_weights_read,
        opaque: *mut c_void,
        size: u64,
        isa: tlc_isa,
        parallel: tlc_parallel,
        alloc: tlc_allocator,
        message: *mut c_char,
        message_cap: usize,
    }
    struct tlc_weights_info {
        struct_size: usize,
        version: u32,
        trainer: [u8; TLC_WEIGHTS_TRAINER_SIZE],
        sequence: u64,
        count: u64,
        note_len: u64,
        size: u64,
        full: c_int,
        base_digest: u64,
        result_digest: u64,
        frame_max: u64,
    }
    struct tlc_weights_place {
        base: *const c_void,
        out: *mut c_void,
        first: usize,
        count: usize,
    }
    struct tlc_weights_heard {
        trainer: [u8; TLC_WEIGHTS_TRAINER_SIZE],
        sequence: u64,
    }
}

c_functions! {
    fn tlc_weights_entry_init(entry: *mut tlc_weights_entry, struct_size: usize) -> tlc_status;
    fn tlc_weights_writer_config_init(config: *mut tlc_weights_writer_config, struct_size: usize) -> tlc_status;
    fn tlc_weights_writer_create(
        out: *mut *mut tlc_weights_writer, config: *const tlc_weights_writer_config,
    ) -> tlc_status;
    fn tlc_weights_add(
        w: *mut tlc_weights_writer, entry: *const tlc_weights_entry, frame: *const c_void, len: usize,
    ) -> tlc_status;
    fn tlc_weights_finish(w: *mut tlc_weights_writer) -> tlc_status;
    fn tlc_weights_writer_destroy(w: *mut tlc_weights_writer);
    fn tlc_weights_reader_config_init(config: *mut tlc_weights_reader_config, struct_size: usize) -> tlc_status;
    fn tlc_weights_info_init(info: *mut tlc_weights_info, struct_size: usize) -> tlc_status;
    fn tlc_weights_open(out: *mut *mut tlc_weights_reader, config: *const tlc_weights_reader_config) -> tlc_status;
    fn tlc_weights_describe(r: *const tlc_weights_reader, info: *mut tlc_weights_info) -> tlc_status;
    fn tlc_weights_close(r: *mut tlc_weights_reader);
    fn tlc_weights_note(r: *mut tlc_weights_reader, dst: *mut c_void, cap: usize) -> tlc_status;
    fn tlc_weights_at(r: *mut tlc_weights_reader, i: u64, entry: *mut tlc_weights_entry) -> tlc_status;
    fn tlc_weights_frame(
        r: *mut tlc_weights_reader, i: u64, dst: *mut c_void, cap: usize, frame: *mut *const c_void,
    ) -> tlc_status;
    fn tlc_weights_copy_view(r: *mut tlc_weights_reader, i: u64, values: *const c_void, out: *mut c_void) -> tlc_status;
    fn tlc_weights_apply(
        r: *mut tlc_weights_reader, find: tlc_weights_find, opaque: *mut c_void, frame: *mut c_void, cap: usize,
    ) -> tlc_status;
    fn tlc_weights_follows(
        info: *const tlc_weights_info, heard: *const tlc_weights_heard, message: *mut c_char,
        message_cap: usize,
    ) -> tlc_status;
}
