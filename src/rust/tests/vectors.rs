// SPDX-License-Identifier: MIT
//! The golden vectors of the repository, in tests/vectors, by way of the safe interface.

use std::path::Path;
use threelc::delta::{self, Delta, Digests};
use threelc::*;

/// Lines of a key and a value.
struct Record<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Record<'t> {
    fn find(&self, key: &str) -> Option<&'t str> {
        self.0.iter().find(|line| line.0 == key).map(|line| line.1)
    }

    fn get(&self, key: &str) -> &'t str {
        self.find(key).unwrap_or_else(|| panic!("{}: no {}", self.name(), key))
    }

    fn name(&self) -> &'t str {
        self.0[0].1
    }

    fn number(&self, key: &str) -> u64 {
        self.get(key).parse().unwrap()
    }

    fn dtype(&self) -> Dtype {
        match self.get("dtype") {
            "f32" => Dtype::F32,
            "f16" => Dtype::F16,
            "bf16" => Dtype::BF16,
            "f8_e4m3" => Dtype::F8E4M3,
            "f8_e5m2" => Dtype::F8E5M2,
            "f4_e2m1" => Dtype::F4E2M1,
            "u8" => Dtype::U8,
            "u4" => Dtype::U4,
            "i32" => Dtype::I32,
            "i64" => Dtype::I64,
            "f64" => Dtype::F64,
            other => panic!("{}: what is {}?", self.name(), other),
        }
    }

    /// None: OK.
    fn status(&self, key: &str) -> Option<Status> {
        match self.get(key) {
            "OK" => None,
            "PARAM" => Some(Status::Param),
            "CORRUPT" => Some(Status::Corrupt),
            "CHECKSUM" => Some(Status::Checksum),
            "VERSION" => Some(Status::Version),
            "SIZE" => Some(Status::Size),
            "UNSUPPORTED" => Some(Status::Unsupported),
            "BASE" => Some(Status::Base),
            other => panic!("{}: what is {}?", self.name(), other),
        }
    }
}

/// Calls `test` for each record of a file, and returns how many there are.
fn each_record(file: &str, mut test: impl FnMut(&Record)) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {}", path.display(), e));
    let mut count = 0;
    for block in text.split("\n\n") {
        let lines = block.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let record = Record(lines.map(|line| line.split_once(' ').unwrap()).collect());
        if !record.0.is_empty() {
            test(&record);
            count += 1;
        }
    }
    count
}

fn unhex(hex: &str) -> Vec<u8> {
    let hex = if hex == "-" { "" } else { hex };
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Elements and their bytes in the files, which are little-endian.
trait Bits: Element {
    fn read(bytes: &[u8]) -> Vec<Self>;
    fn write(of: &[Self]) -> Vec<u8>;
}

macro_rules! bits {
    ($($name:ty, $bits:ty, $make:expr, $take:expr;)*) => {
        $(impl Bits for $name {
            fn read(bytes: &[u8]) -> Vec<Self> {
                let bits = |one: &[u8]| <$bits>::from_le_bytes(one.try_into().unwrap());
                bytes.chunks_exact(std::mem::size_of::<$bits>()).map(|one| $make(bits(one))).collect()
            }
            fn write(of: &[Self]) -> Vec<u8> {
                of.iter().flat_map(|one| { let bits: $bits = $take(*one); bits.to_le_bytes() }).collect()
            }
        })*
    };
}

bits! {
    f32, u32, f32::from_bits, f32::to_bits;
    f64, u64, f64::from_bits, f64::to_bits;
    i32, i32, |bits| bits, |one| one;
    i64, i64, |bits| bits, |one| one;
    u8, u8, |bits| bits, |one| one;
    F16, u16, F16, |one: F16| one.0;
    BF16, u16, BF16, |one: BF16| one.0;
    F8E4M3, u8, F8E4M3, |one: F8E4M3| one.0;
    F8E5M2, u8, F8E5M2, |one: F8E5M2| one.0;
    F4E2M1Pair, u8, F4E2M1Pair, |one: F4E2M1Pair| one.0;
    U4Pair, u8, U4Pair, |one: U4Pair| one.0;
}

/// `function` for the type that a dtype has here.
macro_rules! with_dtype {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            Dtype::F32 => $function::<f32>($($argument),*),
            Dtype::F16 => $function::<F16>($($argument),*),
            Dtype::BF16 => $function::<BF16>($($argument),*),
            Dtype::F8E4M3 => $function::<F8E4M3>($($argument),*),
            Dtype::F8E5M2 => $function::<F8E5M2>($($argument),*),
            Dtype::F4E2M1 => $function::<F4E2M1Pair>($($argument),*),
            Dtype::U8 => $function::<u8>($($argument),*),
            Dtype::U4 => $function::<U4Pair>($($argument),*),
            Dtype::I32 => $function::<i32>($($argument),*),
            Dtype::I64 => $function::<i64>($($argument),*),
            Dtype::F64 => $function::<f64>($($argument),*),
        }
    };
}

fn decoded<T: Bits + Default>(name: &str, frame: &[u8], hex: &str, n: usize) {
    let mut out = vec![T::default(); n];
    Decoder::default().decompress(frame, &mut out).unwrap();
    assert!(T::write(&out) == unhex(hex), "{}: {:?}", name, T::DTYPE);
}

fn good<T: Bits>(r: &Record) {
    let (name, n, dtype) = (r.name(), r.number("n") as usize, T::DTYPE);
    let config = Config {
        codec: r.get("codec").to_string(),
        dtype,
        checksum: r.number("checksum") != 0,
        feedback: Some(r.number("feedback") != 0),
        seed: r.number("seed"),
        ..Config::default()
    };
    let mut context = Context::new(n, &config).unwrap();
    if let Some(residual) = r.find("residual0") {
        context.residual_mut().unwrap().copy_from_slice(&f32::read(&unhex(residual)));
    }
    let mut frame = Vec::new();
    for (i, line) in r.0.iter().enumerate().filter(|(_, line)| line.0 == "grad") {
        match line.1 {
            "null" => context.compress_residual(&mut frame).unwrap(),
            hex => context.compress(&T::read(&unhex(hex)), &mut frame).unwrap(),
        }
        assert!(frame == unhex(r.0[i + 1].1), "{}: the frame", name);
        assert!(frame.len() <= context.bound() && context.bound() <= codec_bound(&config.codec, dtype, n).unwrap());
        decoded::<f32>(name, &frame, r.0[i + 2].1, n);
    }
    match context.residual() {
        Some(residual) => assert!(f32::write(residual) == unhex(r.get("residual")), "{}: the residual", name),
        None => assert_eq!(config.feedback, Some(false), "{}", name),
    }
    let state = unhex(r.get("state"));
    assert!(context.state().unwrap() == state, "{}: the state", name);
    let mut fresh = Context::new(n, &Config { seed: 77, ..config }).unwrap();
    fresh.load_state(&state).unwrap();
    assert!(fresh.state().unwrap() == state, "{}: the state again", name);

    if let Some(hex) = r.find("decoded_f16") {
        decoded::<F16>(name, &frame, hex, n);
        decoded::<BF16>(name, &frame, r.get("decoded_bf16"), n);
    }
    if let Some(hex) = r.find("add_sum") {
        let weight = f32::read(&unhex(r.get("add_weight")))[0];
        let sum0 = f32::read(&unhex(r.get("add_sum0")));
        for many in [false, true] {
            let mut sum = sum0.clone();
            match many {
                false => Decoder::default().add(&frame, weight, &mut sum).unwrap(),
                true => Decoder::default().add_many(&[&frame], Some(&[weight]), &mut sum).unwrap(),
            }
            assert!(f32::write(&sum) == unhex(hex), "{}: the sum", name);
        }
        let mut momentum = sum0;
        match (Decoder::default().mask(&frame, &mut momentum), r.find("mask")) {
            (Ok(()), Some(hex)) => assert!(f32::write(&momentum) == unhex(hex), "{}: the mask", name),
            (Err(error), None) => assert_eq!(error.status, Status::Unsupported, "{}", name),
            other => panic!("{}: {:?}", name, other),
        }
    }
    let info = inspect(&frame).unwrap();
    assert_eq!((info.dtype, info.n, info.codec.as_str()), (dtype, n as u64, r.get("info")), "{}", name);
    assert_eq!(info.nonzero.map_or("unknown".to_string(), |k| k.to_string()), r.get("nonzero"), "{}", name);
    assert_eq!(info.clipped, Some(r.number("clipped")), "{}", name);
    let ahead = peek(&frame).unwrap();
    assert_eq!(FrameInfo { nonzero: info.nonzero, clipped: info.clipped, ..ahead }, info, "{}", name);
}

#[test]
fn frames_are_those_of_the_vectors() {
    let count = each_record("good.txt", |r| match r.dtype() {
        Dtype::F32 => good::<f32>(r),
        Dtype::F16 => good::<F16>(r),
        _ => good::<BF16>(r),
    });
    assert!(count > 1000, "{} records", count);
}

#[test]
fn bad_frames_are_refused_with_a_sentence() {
    let count = each_record("bad.txt", |r| {
        let (name, n, frame) = (r.name(), r.number("n"), unhex(r.get("frame")));
        if n > 1 << 20 {
            return; // a frame that lies about n
        }
        let mut out = vec![-1.5f32; n as usize];
        let result = Decoder::default().decompress(&frame, &mut out);
        assert_eq!(result.as_ref().err().map(|error| error.status), r.status("status"), "{}", name);
        match result {
            Ok(()) => assert!(f32::write(&out) == unhex(r.get("decoded")), "{}", name),
            Err(error) => {
                assert!(error.sentence.len() > 10 && out.iter().all(|x| *x == -1.5), "{}: {}", name, error);
                if r.find("inspect").is_none() {
                    let inspected = inspect(&frame).unwrap_err();
                    assert!(inspected.status == error.status && !inspected.sentence.is_empty(), "{}", name);
                }
            }
        }
    });
    assert!(count > 1000, "{} records", count);
}

fn good_delta<T: Bits>(r: &Record) {
    let digests = [Digests::None, Digests::Whole, Digests::Blocks][r.number("digests") as usize];
    let (delta, name) = (Delta { digests, ..Delta::default() }, r.name());
    let base = Some(r.get("base")).filter(|base| *base != "null").map(|base| T::read(&unhex(base)));
    let next = T::read(&unhex(r.get("next")));
    let (want, mut frame) = (unhex(r.get("frame")), Vec::new());
    delta.compress(base.as_deref(), &next, &mut frame).unwrap();
    assert!(frame == want, "{}: the frame", name);
    let mut mine = base.clone().unwrap_or_else(|| T::read(&vec![0; T::write(&next).len()]));
    delta.check(&frame, &mine).unwrap();
    delta.apply(&frame, &mut mine).unwrap();
    assert!(T::write(&mine) == T::write(&next), "{}: the weights", name);
    if let Some(digest) = delta::peek(&frame).unwrap().result_digest {
        assert_eq!(digest, delta.digest(&next).unwrap(), "{}", name);
    }
    if digests == Digests::Blocks {
        delta.repair(&frame, &mut mine).unwrap();
        assert!(T::write(&mine) == T::write(&next), "{}: repaired", name);
    }
}

fn altered_delta<T: Bits>(r: &Record) {
    let mut weights = T::read(&unhex(r.get("base")));
    let frame = unhex(r.get("frame"));
    let result = Delta::default().apply(&frame, &mut weights);
    assert_eq!(result.as_ref().err().map(|error| error.status), r.status("status"), "{}", r.name());
    let after = if result.is_ok() { "next" } else { "base" };
    assert!(T::write(&weights) == unhex(r.get(after)), "{}: the weights", r.name());
    assert!(result.map_or_else(|error| !error.sentence.is_empty(), |()| true), "{}", r.name());
}

fn folded<T: Bits>(r: &Record) {
    let links: Vec<Vec<u8>> = r.0.iter().filter(|line| line.0 == "link").map(|line| unhex(line.1)).collect();
    let chain: Vec<&[u8]> = links.iter().map(|link| link.as_slice()).collect();
    let n = delta::peek(chain[0]).unwrap().n as usize;
    let mut frame = Vec::new();
    let result = Delta::default().fold::<T>(&chain, n, &mut frame);
    assert_eq!(result.err().map(|error| error.status), r.status("status"), "{}", r.name());
    assert!(frame == unhex(r.get("fold")), "{}: the fold", r.name());
    let other = Delta::default().fold::<T>(&chain, n + 2, &mut frame).unwrap_err();
    assert_eq!(other.status, Status::Size, "{}: a length that nobody asked for", r.name());
}

#[test]
fn deltas_are_those_of_the_vectors() {
    let count = each_record("delta.txt", |r| {
        if r.find("link").is_some() {
            with_dtype!(r.dtype(), folded(r))
        } else if r.find("status").is_some() {
            with_dtype!(r.dtype(), altered_delta(r))
        } else {
            with_dtype!(r.dtype(), good_delta(r))
        }
    });
    assert!(count > 1000, "{} records", count);
}
