// SPDX-License-Identifier: MIT
//! `threelc/gossip.h`: Nodes of decentralised training, and graphs.

use super::*;
use std::os::raw::{c_char, c_int, c_uint, c_void};

c_constants! {
    TLC_GOSSIP_DCD: tlc_gossip_kind = 0;
    TLC_GOSSIP_ECD: tlc_gossip_kind = 1;
    TLC_GRAPH_RING: tlc_graph_kind = 0;
    TLC_GRAPH_TORUS: tlc_graph_kind = 1;
    TLC_GRAPH_COMPLETE: tlc_graph_kind = 2;
    TLC_GRAPH_RANDOM: tlc_graph_kind = 3;
}

pub type tlc_gossip_kind = c_uint;
pub type tlc_graph_kind = c_uint;

c_objects! { tlc_gossip }

c_structs! {
    struct tlc_graph {
        struct_size: usize,
        kind: tlc_graph_kind,
        nodes: u32,
        rows: u32,
        p: f64,
        seed: u64,
    }
}

c_functions! {
    fn tlc_gossip_create(
        out: *mut *mut tlc_gossip, cfg: *const tlc_exchange_config, kind: tlc_gossip_kind, node: u32,
        neighbours: *const u32, weights: *const f64, degree: usize, tensors: *const tlc_tensor, count: usize,
        model: *const *const f32,
    ) -> tlc_status;
    fn tlc_gossip_destroy(g: *mut tlc_gossip);
    fn tlc_gossip_hello(g: *mut tlc_gossip, full: c_int, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_gossip_greet(g: *mut tlc_gossip, from: *const tlc_message) -> tlc_status;
    fn tlc_gossip_mean(g: *mut tlc_gossip, tensor: usize) -> *const f32;
    fn tlc_gossip_model(g: *const tlc_gossip, tensor: usize) -> *const f32;
    fn tlc_gossip_push(g: *mut tlc_gossip, moved: *const *const f32, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_gossip_push_frames(
        g: *mut tlc_gossip, moved: *const *const f32, frames: *const tlc_message, to_all: *mut tlc_message,
    ) -> tlc_status;
    fn tlc_gossip_pushed_parts(g: *const tlc_gossip) -> usize;
    fn tlc_gossip_pushed_part(g: *const tlc_gossip, i: usize, part: *mut tlc_part) -> tlc_status;
    fn tlc_gossip_pull(g: *mut tlc_gossip, from: *const tlc_message) -> tlc_status;
    fn tlc_gossip_again(g: *const tlc_gossip, step: u64, to_all: *mut tlc_message) -> tlc_status;
    fn tlc_gossip_lose(g: *mut tlc_gossip, i: usize) -> tlc_status;
    fn tlc_gossip_lost(g: *const tlc_gossip, i: usize) -> c_int;
    fn tlc_gossip_join(g: *mut tlc_gossip, step: u64, model: *const *const f32) -> tlc_status;
    fn tlc_gossip_step(g: *const tlc_gossip) -> u64;
    fn tlc_gossip_message_bound(g: *const tlc_gossip) -> usize;
    fn tlc_gossip_set_codec(g: *mut tlc_gossip, tensor: usize, codec: *const c_char) -> tlc_status;
    fn tlc_gossip_outcome(g: *const tlc_gossip, outcome: *mut tlc_outcome) -> tlc_status;
    fn tlc_gossip_stats(g: *const tlc_gossip, stats: *mut tlc_exchange_stats) -> tlc_status;
    fn tlc_gossip_state_size(g: *const tlc_gossip) -> usize;
    fn tlc_gossip_state_save(g: *const tlc_gossip, dst: *mut c_void, cap: usize, written: *mut usize) -> tlc_status;
    fn tlc_gossip_state_load(g: *mut tlc_gossip, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_gossip_state_salvage(g: *mut tlc_gossip, states: *const tlc_message, count: usize) -> tlc_status;
    fn tlc_graph_init(graph: *mut tlc_graph, struct_size: usize) -> tlc_status;
    fn tlc_graph_neighbours(
        graph: *const tlc_graph, node: u32, neighbours: *mut u32, weights: *mut f64, cap: usize,
        degree: *mut usize,
    ) -> tlc_status;
}
