// SPDX-License-Identifier: MIT
//! What safe programs may do, and what threads of the caller may not break.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use threelc::exchange::{AllReduce, Server, Worker};
use threelc::gossip::Gossip;
use threelc::*;

/// As the headers say: objects serve any thread, one at a time.
#[test]
fn objects_are_send_and_not_sync() {
    fn send<T: Send>() {}
    macro_rules! one_thread_at_a_time {
        ($($object:ty),*) => {$({
            send::<$object>();
            // Two traits would fit an object that is Sync, so that this would not compile.
            trait IsSync<Which> { fn no() {} }
            struct ItIs;
            impl<T: ?Sized> IsSync<()> for T {}
            impl<T: ?Sized + Sync> IsSync<ItIs> for T {}
            <$object as IsSync<_>>::no();
        })*};
    }
    one_thread_at_a_time!(Context<'static>, AllReduce<'static>, Worker<'static>, Server, Gossip);
    fn both<T: Send + Sync>() {}
    both::<Decoder>();
    both::<delta::Delta>();
}

const N: usize = 200_000;

fn gradient() -> Vec<f32> {
    (0..N).map(|i| ((i * 7) % 1009) as f32 - 504.0).collect()
}

/// A frame, its values, and how often `run` was called.
fn with(parallel: Option<Arc<dyn Parallel>>) -> (Vec<u8>, Vec<f32>) {
    let config = Config { parallel: parallel.clone(), codec: "3lc:block=4096".to_string(), ..Config::default() };
    let mut context = Context::new(N, &config).unwrap();
    let (mut frame, mut out) = (Vec::new(), vec![0.0; N]);
    context.compress(&gradient(), &mut frame).unwrap();
    Decoder { parallel, ..Decoder::default() }.decompress(&frame, &mut out).unwrap();
    (frame, out)
}

struct Odd {
    calls: AtomicUsize,
    /// Calls of `piece` for each that is due.
    times: usize,
}

impl Parallel for Odd {
    fn run(&self, count: usize, piece: &(dyn Fn() -> bool + Sync)) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(count > 1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..count * self.times).for_each(|_| {
                        piece();
                    })
                });
            }
        });
    }
}

#[test]
fn threads_that_do_too_much_or_too_little_give_the_same_bytes() {
    let alone = with(None);
    assert!(with(Some(Arc::new(Threads(4)))) == alone);
    for times in [0, 1, 3] {
        let odd = Arc::new(Odd { calls: AtomicUsize::new(0), times });
        assert!(with(Some(odd.clone())) == alone, "{}", times);
        assert!(odd.calls.load(Ordering::Relaxed) >= 2, "threads were not asked");
    }
}

/// Panics after a piece was done.
struct Panics;

impl Parallel for Panics {
    fn run(&self, _: usize, piece: &(dyn Fn() -> bool + Sync)) {
        piece();
        panic!("on purpose");
    }
}

#[test]
fn a_panic_of_threads_comes_out_of_the_call_and_loses_nothing() {
    let (frame, values) = with(None);
    let config = Config { parallel: Some(Arc::new(Panics)), codec: "3lc:block=4096".to_string(), ..Config::default() };
    let mut context = Context::new(N, &config).unwrap();
    let (mut mine, grad) = (Vec::new(), gradient());
    let panic = catch_unwind(AssertUnwindSafe(|| context.compress(&grad, &mut mine))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
    assert!(mine == frame);
    let mut out = vec![0.0; N];
    let decoder = Decoder { parallel: config.parallel, ..Decoder::default() };
    assert!(catch_unwind(AssertUnwindSafe(|| decoder.decompress(&frame, &mut out))).is_err());
    assert!(out == values);
}

#[test]
fn a_residual_of_the_caller() {
    let mut residual = vec![0.0f32; 4];
    let mut frame = Vec::new();
    let mut context = Context::with_residual(&mut residual, &Config::default()).unwrap();
    context.accumulate(&[1.0f32, -2.0, 0.0, 0.5]).unwrap();
    assert_eq!(context.residual().unwrap(), [1.0, -2.0, 0.0, 0.5]);
    context.residual_scale(2.0).unwrap();
    context.compress_residual(&mut frame).unwrap();
    drop(context);
    assert_eq!(residual, [2.0, 0.0, 0.0, 1.0]);
}

#[test]
fn calls_that_are_refused_say_why() {
    let mut context = Context::new(3, &Config::default()).unwrap();
    let mut frame = vec![7];
    let error = context.compress(&[1.0f32, f32::NAN, 0.0], &mut frame).unwrap_err();
    assert_eq!((error.status, error.to_string().as_str()), (Status::NonFinite, "value 1 of the gradient is NaN"));
    assert!(context.compress(&[1.0f32; 4], &mut frame).unwrap_err().sentence.contains("4 values"));
    assert!(context.compress(&[BF16(0); 3], &mut frame).unwrap_err().sentence.contains("BF16"));
    assert!(context.set_codec("3lc\0").unwrap_err().sentence.contains("NUL"));
    assert!(Context::new(usize::MAX, &Config::default()).err().unwrap().status == Status::Size);
    assert!(check_codec("3lc:s=9").unwrap_err().sentence.starts_with("at "));
    assert!(explain(b"B\x01", Format::Bundle).unwrap_err().sentence.len() > 10);
    let many = Decoder::default().add_many(&[&[]], Some(&[]), &mut [0.0]).unwrap_err();
    assert_eq!(many.status, Status::Param);
    let delta = delta::Delta::default();
    assert!(delta.compress(Some(&[1u8, 2]), &[1, 2, 3], &mut frame).unwrap_err().sentence.contains("2 weights"));
    assert!(delta.fold::<f32>(&[], 3, &mut frame).is_err());
}

#[test]
fn a_shard_of_weights() {
    let base: Vec<BF16> = (0..1000u16).map(|i| BF16(0x3f80 + i)).collect();
    let mut next = base.clone();
    next[700].0 += 1;
    let (delta, mut frame) = (delta::Delta::default(), Vec::new());
    delta.compress(Some(&base), &next, &mut frame).unwrap();
    let mut shard = base[500..750].to_vec();
    delta.apply_range(&frame, &mut shard, 1000, 500).unwrap();
    assert!(shard == next[500..750]);
    assert_eq!(delta.apply_range(&frame, &mut shard, 1000, 900).unwrap_err().status, Status::Param);
    assert_eq!(delta.apply(&frame, &mut next).unwrap_err().status, Status::Base);
    let info = delta::inspect(&frame).unwrap();
    assert_eq!((info.changed, info.base_digest), (1, Some(delta.digest(&base).unwrap())));
}

/// meson.build has the version, and a release changes it there and in Cargo.toml.
#[test]
fn the_version_is_that_of_the_library() {
    let number = |name: &str| name.parse::<u32>().unwrap();
    let major = number(env!("CARGO_PKG_VERSION_MAJOR"));
    let (minor, patch) = (number(env!("CARGO_PKG_VERSION_MINOR")), number(env!("CARGO_PKG_VERSION_PATCH")));
    assert_eq!(version(), major * 10000 + minor * 100 + patch);
}
