// SPDX-License-Identifier: MIT
//! Finds libthreelc: the file that `THREELC_LIBRARY` names, or else what pkg-config knows.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["THREELC_LIBRARY", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    match env::var("THREELC_LIBRARY") {
        Ok(file) => named(Path::new(&file)),
        Err(_) => installed(),
    }
}

/// A shared library, such as `build/src/libthreelc.so`. One that is static needs others, which pkg-config knows.
fn named(file: &Path) {
    let folder = file.canonicalize().ok().and_then(|file| file.parent().map(Path::to_path_buf));
    match folder {
        Some(folder) => println!("cargo:rustc-link-search=native={}", folder.display()),
        None => panic!("THREELC_LIBRARY: there is no {}", file.display()),
    }
    println!("cargo:rustc-link-lib=dylib=threelc");
}

fn installed() {
    let pkg_config = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    // Before 1.0 the next minor version has another ABI.
    let version = |name| env::var(name).unwrap().parse::<u32>().unwrap();
    let (major, minor) = (version("CARGO_PKG_VERSION_MAJOR"), version("CARGO_PKG_VERSION_MINOR"));
    let end = if major == 0 { format!("0.{}", minor + 1) } else { (major + 1).to_string() };
    let wanted = format!("threelc >= {} threelc < {}", env::var("CARGO_PKG_VERSION").unwrap(), end);
    let found = Command::new(&pkg_config).args(["--libs", "--print-errors", &wanted]).output();
    let output =
        found.unwrap_or_else(|e| panic!("{}: {}. Or set THREELC_LIBRARY to the shared library", pkg_config, e));
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!(
            "{} does not find {}. Install it, or set THREELC_LIBRARY to the shared library.\n{}",
            pkg_config, wanted, log
        );
    }
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={}", name);
        }
    }
}
