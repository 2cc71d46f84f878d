// SPDX-License-Identifier: MIT
//! All ranks of an exchange in one process: what goes in comes out, and what the caller gave away stays alive.

use threelc::exchange::{pull_codec, AllReduce, Config, Server, Tensor, Worker};
use threelc::gossip::{Gossip, Graph, Kind};
use threelc::Status;

const N: usize = 1000;

/// Two tensors, one of which is so small that it is sent raw.
fn tensors() -> Vec<Tensor<'static>> {
    vec![Tensor::new("weight", N), Tensor::new("bias", 10)]
}

/// What a rank wants in a step.
fn gradient(rank: usize, step: usize) -> [Vec<f32>; 2] {
    let value = |i: usize| ((i * 7 + step * 3 + rank) % 101) as f32 / 100.0 - 0.5;
    [(0..N).map(value).collect(), (0..10).map(value).collect()]
}

fn zeros() -> [Vec<f32>; 2] {
    [vec![0.0; N], vec![0.0; 10]]
}

fn slices(of: &[Vec<f32>; 2]) -> [&[f32]; 2] {
    [&of[0], &of[1]]
}

/// A message of each rank, for those who take slices.
fn borrowed(messages: &[Vec<u8>]) -> Vec<&[u8]> {
    messages.iter().map(|one| one.as_slice()).collect()
}

fn add(sum: &mut [Vec<f32>; 2], more: &[Vec<f32>; 2], factor: f32) {
    for (sum, more) in sum.iter_mut().zip(more) {
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += factor * more);
    }
}

#[test]
fn all_reduce_gives_the_means_over_time() {
    for gather in [false, true] {
        let config = Config { workers: 3, gather, seed: 1, split_n: 64, ..Config::default() };
        let mut ranks: Vec<AllReduce> = (0..3)
            .map(|rank| AllReduce::new(&Config { seed: rank as u64, ..config.clone() }, rank, tensors()).unwrap())
            .collect();
        let (mut wanted, mut got) = (zeros(), zeros());
        for step in 0..60 {
            let mut inbox = vec![Vec::new(); 3]; // by receiver
            for (rank, object) in ranks.iter_mut().enumerate() {
                let grads = gradient(rank, if step < 50 { step } else { 0 });
                let grads = if step < 50 { grads } else { zeros() };
                add(&mut wanted, &grads, 1.0 / 3.0);
                let to = object.push(&slices(&grads), 1.0).unwrap();
                for (receiver, message) in to.into_iter().enumerate() {
                    // one's own is not asked for
                    inbox[receiver].push(if receiver == rank { Vec::new() } else { message.to_vec() });
                }
            }
            if !gather {
                let mut answers = Vec::new();
                for (object, from) in ranks.iter_mut().zip(&inbox) {
                    answers.push(object.reduce(&borrowed(from)).unwrap().to_vec());
                }
                inbox = (0..3)
                    .map(|me| (0..3).map(|i| if i == me { Vec::new() } else { answers[i].clone() }).collect())
                    .collect();
            }
            let mut all = Vec::new();
            for (object, from) in ranks.iter_mut().zip(&inbox) {
                let mut out = zeros();
                let [weight, bias] = &mut out;
                object.pull(&borrowed(from), &mut [weight, bias]).unwrap();
                all.push(out);
            }
            assert!(all[0] == all[1] && all[1] == all[2], "ranks differ in step {}", step);
            add(&mut got, &all[0], 1.0);
        }
        let far = wanted[0].iter().zip(&got[0]).map(|(w, g)| (w - g).abs()).fold(0.0, f32::max);
        assert!(far < 2.0 && far > 0.0, "gather {}: {}", gather, far); // the sums are up to 25
        assert_eq!(ranks[0].stats().steps, 60);
        assert_eq!(ranks[0].step(), 61);
        assert!(ranks.iter().all(|rank| rank.history() == ranks[0].history() && rank.history() != 0));
        let (state, sent) = (ranks[0].state().unwrap(), ranks[0].stats().sent);
        assert!(sent > 0 && sent < ranks[0].stats().float_bytes);
        let mut again = AllReduce::new(&config, 0, tensors()).unwrap();
        again.load_state(&[&state]).unwrap();
        assert_eq!((again.step(), again.state().unwrap()), (61, state));
    }
}

#[test]
fn owners_keep_what_they_were_given() {
    let config =
        Config { workers: 2, push: Some("raw".to_string()), pull: Some("raw".to_string()), ..Config::default() };
    let mut ranks: Vec<AllReduce> = (0..2).map(|rank| AllReduce::new(&config, rank, tensors()).unwrap()).collect();
    for step in 0..3 {
        let mut inbox = vec![Vec::new(); 2];
        for (rank, object) in ranks.iter_mut().enumerate() {
            let to = object.push(&slices(&gradient(rank, step)), 1.0).unwrap();
            to.into_iter().enumerate().for_each(|(i, message)| inbox[i].push(message.to_vec()));
        }
        let longest = inbox.iter().flatten().map(|message| message.len()).max().unwrap();
        assert!((longest..2 * longest).contains(&ranks[0].message_bound()), "{}", ranks[0].message_bound());
        let mut answers = Vec::new();
        for (object, from) in ranks.iter_mut().zip(inbox) {
            object.average(from).unwrap();
            // an optimizer that halves the means
            let half = |i| object.part(i).unwrap().mean.iter().map(|x| x / 2.0).collect();
            let deltas: Vec<Vec<f32>> = (0..object.parts()).map(half).collect();
            let refused = object.answer(Some(vec![vec![0.0; 3]; deltas.len() + 1])).unwrap_err();
            assert_eq!(refused.status, Status::Param);
            answers.push(object.answer(Some(deltas)).unwrap().to_vec());
        }
        for object in ranks.iter_mut() {
            let mut out = zeros();
            let [weight, bias] = &mut out;
            object.pull(&borrowed(&answers), &mut [weight, bias]).unwrap();
            let (a, b) = (gradient(0, step), gradient(1, step));
            assert!((0..N).all(|i| out[0][i] == (a[0][i] + b[0][i]) / 2.0 / 2.0), "step {}", step);
        }
    }
}

#[test]
fn a_step_that_fails_gives_deltas_back() {
    let config = Config { workers: 2, pull: Some("3lc".to_string()), split_n: 64, ..Config::default() };
    let mut ranks: Vec<AllReduce> =
        (0..2).map(|rank| AllReduce::new(&config, rank, vec![Tensor::new("weight", N)]).unwrap()).collect();
    let mut inbox = vec![Vec::new(); 2];
    for object in ranks.iter_mut() {
        let to = object.push(&[&gradient(0, 0)[0]], 1.0).unwrap();
        to.into_iter().enumerate().for_each(|(i, message)| inbox[i].push(message.to_vec()));
    }
    let mut answers = Vec::new();
    for (value, (object, from)) in [1.5, f32::NAN].into_iter().zip(ranks.iter_mut().zip(inbox)) {
        object.average(from).unwrap();
        let sizes: Vec<usize> = (0..object.parts()).map(|i| object.part(i).unwrap().mean.len()).collect();
        answers.push(object.answer(Some(sizes.iter().map(|n| vec![value; *n]).collect())).unwrap().to_vec());
    }
    for object in ranks.iter_mut() {
        let mut out = vec![0.0f32; N];
        assert_eq!(object.pull(&borrowed(&answers), &mut [&mut out]).unwrap_err().status, Status::Step);
        assert_eq!(object.outcome().rank, Some(1));
    }
    let residual = ranks[0].part(0).unwrap().residual.unwrap();
    assert!(residual.len() > 100 && residual.iter().all(|x| *x == 1.5), "{:?}", &residual[..9]);
}

#[test]
fn a_server_keeps_the_messages() {
    let config = Config { workers: 2, servers: 1, keep: 3, ..Config::default() };
    let mut server = Server::new(&config, 0, tensors()).unwrap();
    let mut workers: Vec<Worker> = (0..2).map(|i| Worker::new(&config, i, tensors()).unwrap()).collect();
    for step in 1..=3 {
        for (i, worker) in workers.iter_mut().enumerate() {
            let message = worker.push(&slices(&gradient(i, step)), 1.0).unwrap()[0].to_vec();
            let info = server.push(message.clone()).unwrap();
            assert_eq!((info.worker, info.step, info.late, info.repeated), (i as u32, step as u64, false, false));
            assert!(server.push(message).unwrap().repeated);
            assert_eq!(server.is_ready(), i == 1);
        }
        let error = server.answer(None).unwrap_err();
        assert_eq!((error.status, error.sentence.contains("answer")), (Status::Order, true), "{}", error);
        server.reduce().unwrap();
        assert_eq!(server.outcome().taken, Some(vec![true, true]));
        let means: f32 = (0..server.parts()).map(|i| server.part(i).unwrap().mean.len() as f32).sum();
        assert_eq!(means, (N + 10) as f32);
        let answer = server.answer(None).unwrap().to_vec();
        assert_eq!(server.again(step as u64).unwrap(), answer);
        for worker in workers.iter_mut() {
            let mut out = zeros();
            let [weight, bias] = &mut out;
            let error = worker.pull(&[&answer[..9]], &mut [weight, bias]).unwrap_err();
            assert!(error.sentence.contains("server 0"), "{}", error);
            let [weight, bias] = &mut out;
            worker.pull(&[&answer], &mut [weight, bias]).unwrap();
            assert!(out[0].iter().any(|x| *x != 0.0));
            worker.mask(&mut [&mut out[0], &mut []]).unwrap();
        }
        assert_eq!(server.taken(1).unwrap(), step as u64);
    }
    let late = workers[0].push_nothing().unwrap()[0].to_vec();
    assert!(!server.push(late).unwrap().late);
}

#[test]
fn a_residual_of_the_caller_is_used() {
    let mut residual = vec![0.0; N];
    let tensors = vec![Tensor { residual: Some(&mut residual), ..Tensor::new("weight", N) }];
    let config = Config { workers: 1, servers: 1, ..Config::default() };
    let mut worker = Worker::new(&config, 0, tensors).unwrap();
    worker.push(&[&gradient(0, 0)[0]], 1.0).unwrap();
    drop(worker);
    assert!(residual.iter().any(|x| *x != 0.0));
    let short = vec![Tensor { residual: Some(&mut residual), ..Tensor::new("weight", N + 1) }];
    assert_eq!(Worker::new(&config, 0, short).err().unwrap().status, Status::Param);
}

#[test]
fn calls_that_are_refused_say_why() {
    let config = Config { workers: 2, push: Some("3lv".to_string()), ..Config::default() };
    let error = AllReduce::new(&config, 0, tensors()).err().unwrap();
    assert!(error.status == Status::Param && error.sentence.contains("3lv"), "{}", error);
    let mut object = AllReduce::new(&Config { workers: 2, ..Config::default() }, 0, tensors()).unwrap();
    let short = [0.0f32; 3];
    for gradients in [&[&short[..]][..], &[&short, &short]] {
        assert_eq!(object.push(gradients, 1.0).unwrap_err().status, Status::Param);
    }
    let halves = [threelc::F16(0); N];
    assert!(object.push(&[&halves, &halves[..10]], 1.0).unwrap_err().sentence.contains("F16"));
    assert!(object.push(&[&[0.0f32; N], &[]], 1.0).unwrap_err().sentence.contains("bias"));
    assert_eq!(object.reduce(&[&[], &[]]).unwrap_err().status, Status::Order);
    assert_eq!(object.reduce(&[&[]]).unwrap_err().status, Status::Param);
    assert_eq!(pull_codec(Some("sbc")).unwrap(), "3lc-golomb");
    let starves =
        Config { workers: 2, push: Some("sbc".to_string()), pull: Some("sbc".to_string()), ..Config::default() };
    assert!(AllReduce::new(&starves, 0, tensors()).unwrap().warning().unwrap().contains("3lc-golomb"));
}

#[test]
fn nodes_of_a_ring_agree() {
    let config = Config { workers: 4, ..Config::default() };
    let start = zeros();
    let neighbours: Vec<_> = (0..4).map(|node| Graph::Ring.neighbours(4, node).unwrap()).collect();
    assert_eq!((&neighbours[0].nodes[..], neighbours[0].weights.len()), (&[1, 3][..], 3));
    let make = |node: usize| {
        Gossip::new(&config, Kind::Dcd, node as u32, &neighbours[node], tensors(), &slices(&start)).unwrap()
    };
    let mut nodes: Vec<Gossip> = (0..4).map(make).collect();
    let of_neighbours = |all: &[Vec<u8>], node: usize| -> Vec<Vec<u8>> {
        neighbours[node].nodes.iter().map(|i| all[*i as usize].clone()).collect()
    };
    let hellos: Vec<Vec<u8>> = nodes.iter_mut().map(|node| node.hello(false).unwrap().to_vec()).collect();
    for (i, node) in nodes.iter_mut().enumerate() {
        node.greet(&borrowed(&of_neighbours(&hellos, i))).unwrap();
    }
    for step in 1..=40 {
        let mut pushes = Vec::new();
        for (rank, node) in nodes.iter_mut().enumerate() {
            let mut moved = [node.mean(0).unwrap().to_vec(), node.mean(1).unwrap().to_vec()];
            let target = gradient(rank, 0);
            for (moved, target) in moved.iter_mut().zip(&target) {
                moved.iter_mut().zip(target).for_each(|(x, t)| *x -= 0.2 * (*x - t));
            }
            pushes.push(node.push(&slices(&moved)).unwrap().to_vec());
            assert_eq!(node.again(step).unwrap(), &pushes[rank][..]);
            assert!(node.mean(0).is_none());
        }
        for (i, node) in nodes.iter_mut().enumerate() {
            node.pull(&borrowed(&of_neighbours(&pushes, i))).unwrap();
        }
    }
    for i in 0..N {
        let mean: f32 = nodes.iter().map(|node| node.model(0).unwrap()[i] / 4.0).sum();
        let wanted: f32 = (0..4).map(|rank| gradient(rank, 0)[0][i] / 4.0).sum();
        assert!((mean - wanted).abs() < 0.05, "value {}: {} and {}", i, mean, wanted);
    }
    nodes[0].lose(1).unwrap();
    assert!(nodes[0].is_lost(1) && !nodes[0].is_lost(0));
}
