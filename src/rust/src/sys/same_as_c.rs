// SPDX-License-Identifier: MIT
//! The declarations of `sys` are those of the C headers: a C compiler checks sizes, offsets and types of structs,
//! values of constants and types of functions; and nothing that the headers declare is missing.
//!
//! `$CC` (default `cc`) compiles. `THREELC_INCLUDE` says where the headers are; default: where they are in the
//! repository.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(super) struct Struct {
    pub name: &'static str,
    pub size: usize,
    /// Name, type and offset.
    pub fields: Vec<(&'static str, &'static str, usize)>,
}

pub(super) struct Function {
    pub name: &'static str,
    pub args: Vec<&'static str>,
    /// Empty: it returns nothing.
    pub result: &'static str,
}

struct Header {
    name: &'static str,
    constants: Vec<(&'static str, String)>,
    structs: Vec<Struct>,
    functions: Vec<Function>,
}

/// A module of `sys` as a header.
macro_rules! header {
    ($module:ident) => {
        Header {
            name: stringify!($module),
            constants: super::$module::constants(),
            structs: super::$module::structs(),
            functions: super::$module::functions(),
        }
    };
}

fn headers() -> Vec<Header> {
    vec![header!(threelc), header!(delta), header!(exchange), header!(gossip), header!(weights)]
}

fn include() -> PathBuf {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../include");
    env::var_os("THREELC_INCLUDE").map_or_else(default, PathBuf::from)
}

/// A type of Rust as C spells it; None: one that is not translated, pointers to functions and arrays.
fn c_type(ty: &str) -> Option<String> {
    let ty: String = ty.chars().filter(|c| !c.is_whitespace()).collect();
    if let Some(rest) = ty.strip_prefix("*const") {
        return Some(c_type(rest)? + " const *");
    }
    if let Some(rest) = ty.strip_prefix("*mut") {
        return Some(c_type(rest)? + " *");
    }
    let known = match ty.as_str() {
        "" | "c_void" => "void",
        "c_char" => "char",
        "c_int" => "int",
        "usize" => "size_t",
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "f32" => "float",
        "f64" => "double",
        name if name.starts_with("tlc_") => name,
        _ => return None,
    };
    Some(known.to_string())
}

/// Compiles a program that has what the headers declare, and asserts that it is the same.
fn compile(program: &str) -> Result<(), String> {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let words: Vec<&str> = cc.split_whitespace().collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-fsyntax-only", "-x", "c", "-I"])
        .arg(include())
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {}", cc, e))?;
    child.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn program(headers: &[Header]) -> String {
    let mut c = String::new();
    let mut types = 0;
    for h in headers {
        writeln!(c, "#include <threelc/{}.h>", h.name).unwrap();
        for (name, value) in &h.constants {
            writeln!(c, "_Static_assert({} == {}u, \"{}\");", name, value, name).unwrap();
        }
        for s in &h.structs {
            writeln!(c, "_Static_assert(sizeof({}) == {}, \"size of {}\");", s.name, s.size, s.name).unwrap();
            for (field, ty, offset) in &s.fields {
                let place = format!("{}, {}", s.name, field);
                writeln!(c, "_Static_assert(offsetof({}) == {}, \"{}\");", place, offset, place).unwrap();
                if let Some(ty) = c_type(ty) {
                    let real = format!("__typeof__((({} *)0)->{})", s.name, field);
                    writeln!(
                        c,
                        "_Static_assert(__builtin_types_compatible_p({} *, {} *), \"type of {}\");",
                        real, ty, place
                    )
                    .unwrap();
                    types += 1;
                }
            }
        }
        for f in &h.functions {
            let args: Vec<String> = f.args.iter().map(|ty| c_type(ty).expect(f.name)).collect();
            let args = if args.is_empty() { "void".to_string() } else { args.join(", ") };
            writeln!(c, "static {} (*const same_{})({}) = {};", c_type(f.result).unwrap(), f.name, args, f.name)
                .unwrap();
        }
    }
    assert!(types > 100, "{} types of fields", types);
    c
}

#[test]
fn layouts_constants_and_functions_are_those_of_the_headers() {
    if let Err(log) = compile(&program(&headers())) {
        panic!("sys differs from the headers:\n{}", log);
    }
}

#[test]
fn a_declaration_that_differs_is_found() {
    let mut wrong = headers();
    wrong[0].structs[0].size += 1;
    assert!(compile(&program(&wrong)).is_err(), "a size");
    let mut wrong = headers();
    wrong[0].structs[2].fields[4].1 = "u64";
    assert!(compile(&program(&wrong)).is_err(), "a type of a field");
    let mut wrong = headers();
    let last = wrong[1].functions.last_mut().unwrap();
    last.args[1] = "*mut c_void"; // const in C
    assert!(compile(&program(&wrong)).is_err(), "an argument");
    let mut wrong = headers();
    wrong[0].constants[1].1.push('0');
    assert!(compile(&program(&wrong)).is_err(), "a constant");
}

/// The text of a header without comments.
fn text_of(name: &str) -> String {
    let path = include().join("threelc").join(name).with_extension("h");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {}", path.display(), e));
    let mut kept = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("/*") {
        kept += &rest[..at];
        rest = &rest[at..][rest[at..].find("*/").unwrap() + 2..];
    }
    kept + rest
}

/// The first word of `text` that begins with `prefix`.
fn word<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| word.starts_with(prefix))
}

#[test]
fn nothing_of_the_headers_is_missing() {
    let mut missing = Vec::new();
    for h in headers() {
        let text = text_of(h.name);
        let known: BTreeSet<&str> = (h.constants.iter().map(|c| c.0))
            .chain(h.structs.iter().map(|s| s.name))
            .chain(h.functions.iter().map(|f| f.name))
            .collect();
        let mut declared = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("TLC_API ") {
                declared.extend(rest.split('(').next().and_then(|before| before.rsplit([' ', '*']).next()));
            } else if line.starts_with("typedef struct") && line.ends_with('{') {
                declared.extend(word(line, "tlc_"));
            } else if line.starts_with("    TLC_")
                || line.starts_with("#define TLC_") && !line.contains('"') && !line.starts_with("#define TLC_API")
            {
                declared.extend(word(line, "TLC_"));
            }
        }
        assert!(declared.len() > 10, "{}: {:?}", h.name, declared);
        let found = declared.into_iter().filter(|name| *name != "TLC_VERSION" && !known.contains(name));
        missing.extend(found.map(|name| format!("{}.h: {}", h.name, name)));
    }
    assert!(missing.is_empty(), "not in src/sys: {:?}", missing);
}
