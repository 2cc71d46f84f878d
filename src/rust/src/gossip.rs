// SPDX-License-Identifier: MIT
//! Training without servers: nodes and their neighbours, without I/O: `threelc/gossip.h`.

use crate::error::{c_string, check, refuse, Result};
use crate::exchange::{bytes, each_float, object_methods, Config, Handle, Outcome, Tensor};
use crate::sys;
use std::ptr;
use std::slice;

/// The algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Differences of models are sent.
    Dcd = sys::TLC_GOSSIP_DCD,
    /// Extrapolations are sent.
    Ecd = sys::TLC_GOSSIP_ECD,
}

/// The neighbours of a node, and the weights of their models in its mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbours {
    /// In rising order.
    pub nodes: Vec<u32>,
    /// One for each neighbour, and the node's own last.
    pub weights: Vec<f64>,
}

/// The form of a graph: `tlc_graph`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Graph {
    /// Two neighbours each.
    Ring,
    /// So many rows, with 4 neighbours each; 0: the largest divisor that is at most the square root of the nodes.
    Torus(u32),
    /// All are neighbours of all.
    Complete,
    /// A ring, and each other pair with probability p, drawn from the seed.
    Random {
        /// 0 to 1.
        p: f64,
        /// The same on all nodes.
        seed: u64,
    },
}

impl Graph {
    /// The neighbours of a node, with Metropolis weights.
    pub fn neighbours(self, nodes: u32, node: u32) -> Result<Neighbours> {
        let mut graph = sys::init(sys::tlc_graph_init);
        graph.nodes = nodes;
        match self {
            Graph::Ring => graph.kind = sys::TLC_GRAPH_RING,
            Graph::Torus(rows) => (graph.kind, graph.rows) = (sys::TLC_GRAPH_TORUS, rows),
            Graph::Complete => graph.kind = sys::TLC_GRAPH_COMPLETE,
            Graph::Random { p, seed } => (graph.kind, graph.p, graph.seed) = (sys::TLC_GRAPH_RANDOM, p, seed),
        }
        let mut degree = 0;
        let call = |found: &mut Neighbours, degree: &mut usize| {
            let (nodes, cap) = (found.nodes.as_mut_ptr(), found.nodes.len());
            // SAFETY: cap nodes and cap + 1 weights
            unsafe { sys::tlc_graph_neighbours(&graph, node, nodes, found.weights.as_mut_ptr(), cap, degree) }
        };
        let none = call(&mut Neighbours { nodes: Vec::new(), weights: vec![0.0] }, &mut degree);
        if none != sys::TLC_ERR_CAPACITY {
            check(none, String::new)?;
        }
        let mut found = Neighbours { nodes: vec![0; degree], weights: vec![0.0; degree + 1] };
        check(call(&mut found, &mut degree), String::new)?;
        Ok(found)
    }
}

/// A node: it has a model, and a replica of the model of each neighbour: `tlc_gossip`.
pub struct Gossip {
    handle: Handle<sys::tlc_gossip>,
    degree: usize,
}

// SAFETY: an object serves any thread, one at a time; threads of the caller are Send
unsafe impl Send for Gossip {}

impl Gossip {
    /// Node 0 .. workers - 1. model: the values of each tensor to start with, the same on all nodes.
    pub fn new(
        config: &Config,
        kind: Kind,
        node: u32,
        neighbours: &Neighbours,
        mut tensors: Vec<Tensor<'_>>,
        model: &[&[f32]],
    ) -> Result<Gossip> {
        let degree = neighbours.nodes.len();
        if neighbours.weights.len() != degree + 1 {
            return refuse(format!("{} neighbours have {} weights", degree, neighbours.weights.len()));
        }
        let model = each_float("the model", model, tensors.iter().map(|tensor| tensor.n))?;
        let handle = Handle::new(config, &mut tensors, sys::tlc_gossip_destroy, |out, c, tensors| {
            let (nodes, weights) = (neighbours.nodes.as_ptr(), neighbours.weights.as_ptr());
            let (first, count, model) = (tensors.as_ptr(), tensors.len(), model.as_ptr());
            // SAFETY: all of it lives to the end of the call
            unsafe { sys::tlc_gossip_create(out, c, kind as u32, node, nodes, weights, degree, first, count, model) }
        })?;
        Ok(Gossip { handle, degree })
    }

    fn done(&self, status: sys::tlc_status) -> Result<()> {
        self.handle.done(status, || Ok(self.outcome()))
    }

    /// A message that `call` makes.
    fn message(
        &self,
        call: impl FnOnce(*mut sys::tlc_gossip, &mut sys::tlc_message) -> sys::tlc_status,
    ) -> Result<&[u8]> {
        let mut made = sys::tlc_message { data: ptr::null(), len: 0 };
        self.done(call(self.handle.get(), &mut made))?;
        // SAFETY: it stays until calls with &mut self
        Ok(unsafe { bytes(made) })
    }

    /// A message for the neighbours, between two steps: what `greet` compares. full: with the whole model, for those
    /// that lost their replica.
    pub fn hello(&mut self, full: bool) -> Result<&[u8]> {
        // SAFETY: an object that lives
        self.message(|object, made| unsafe { sys::tlc_gossip_hello(object, full.into(), made) })
    }

    /// Takes hellos, one of each neighbour; an empty one: none. A model in one becomes the replica.
    pub fn greet(&mut self, from: &[&[u8]]) -> Result<()> {
        let from = self.handle.from(from, self.degree)?;
        // SAFETY: a message of each neighbour
        self.done(unsafe { sys::tlc_gossip_greet(self.handle.get(), from.as_ptr()) })
    }

    fn floats(&self, tensor: usize, at: *const f32) -> Option<&[f32]> {
        // SAFETY: as many floats as the tensor has, which only calls with &mut self change
        (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, self.handle.sizes[tensor]) })
    }

    /// The weighted mean of the models of a tensor: the values to start the local step from. None: no such tensor, it
    /// has no values, or a push was not followed by a pull.
    pub fn mean(&self, tensor: usize) -> Option<&[f32]> {
        // SAFETY: an object that lives
        self.floats(tensor, unsafe { sys::tlc_gossip_mean(self.handle.get(), tensor) })
    }

    /// The model of this node. None: no such tensor, or it has no values.
    pub fn model(&self, tensor: usize) -> Option<&[f32]> {
        // SAFETY: an object that lives
        self.floats(tensor, unsafe { sys::tlc_gossip_model(self.handle.get(), tensor) })
    }

    /// Takes the result of the local step, and makes the message for all neighbours. If a value is not finite, the node
    /// stays where it is in this step.
    pub fn push(&mut self, moved: &[&[f32]]) -> Result<&[u8]> {
        let moved = each_float("moved", moved, self.handle.sizes.iter().copied())?;
        // SAFETY: the values of each tensor
        self.message(|object, made| unsafe { sys::tlc_gossip_push(object, moved.as_ptr(), made) })
    }

    /// Ends the step, with a message of each neighbour; that of a lost one is not read.
    pub fn pull(&mut self, from: &[&[u8]]) -> Result<()> {
        let from = self.handle.from(from, self.degree)?;
        // SAFETY: a message of each neighbour
        self.done(unsafe { sys::tlc_gossip_pull(self.handle.get(), from.as_ptr()) })
    }

    /// The push of a step before, or of the one under way.
    pub fn again(&self, step: u64) -> Result<&[u8]> {
        // SAFETY: an object that lives
        self.message(|object, made| unsafe { sys::tlc_gossip_again(object, step, made) })
    }

    /// Neighbour i is gone, until `greet` takes a full hello of it.
    pub fn lose(&mut self, i: usize) -> Result<()> {
        // SAFETY: an object that lives
        self.done(unsafe { sys::tlc_gossip_lose(self.handle.get(), i) })
    }

    /// Neighbour i is lost.
    pub fn is_lost(&self, i: usize) -> bool {
        // SAFETY: an object that lives
        unsafe { sys::tlc_gossip_lost(self.handle.get(), i) != 0 }
    }

    /// The node came late, or comes back: it goes on with `step`, from this model, or from its own.
    pub fn join(&mut self, step: u64, model: Option<&[&[f32]]>) -> Result<()> {
        let model = model.map(|model| each_float("the model", model, self.handle.sizes.iter().copied())).transpose()?;
        let model = model.as_ref().map_or(ptr::null(), |model| model.as_ptr());
        // SAFETY: the values of each tensor, or NULL
        self.done(unsafe { sys::tlc_gossip_join(self.handle.get(), step, model) })
    }

    /// Changes the codec of a tensor. None: of all that have the codec of the configuration.
    pub fn set_codec(&mut self, tensor: Option<usize>, codec: &str) -> Result<()> {
        let (tensor, codec) = (tensor.unwrap_or(sys::TLC_ALL), c_string("codec", codec)?);
        // SAFETY: the text is copied
        self.done(unsafe { sys::tlc_gossip_set_codec(self.handle.get(), tensor, codec.as_ptr()) })
    }

    /// What the last call found.
    pub fn outcome(&self) -> Outcome {
        // SAFETY: an object that lives. The call cannot fail
        let found = self.handle.outcome(|object, outcome| unsafe { sys::tlc_gossip_outcome(object, outcome) });
        found.expect("there is an outcome")
    }

    object_methods!(
        tlc_gossip_step,
        tlc_gossip_message_bound,
        none,
        tlc_gossip_stats,
        tlc_gossip_state_size,
        tlc_gossip_state_save,
        tlc_gossip_state_load,
        tlc_gossip_state_salvage
    );
}
