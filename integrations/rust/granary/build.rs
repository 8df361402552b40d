//! Finds the library: in the folder that GRANARY_LIB_DIR names, else by pkg-config, else where the
//! linker searches anyway.

use std::env;
use std::process::Command;

fn folder() -> Option<String> {
    if let Ok(folder) = env::var("GRANARY_LIB_DIR") {
        return Some(folder);
    }
    let asked = Command::new("pkg-config").args(["--variable=libdir", "granary"]).output().ok()?;
    let folder = String::from_utf8(asked.stdout).ok()?.trim().to_string();
    (asked.status.success() && !folder.is_empty()).then_some(folder)
}

fn main() {
    println!("cargo:rerun-if-env-changed=GRANARY_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(folder) = folder() {
        println!("cargo:rustc-link-search=native={folder}");
    }
    let kind = if env::var_os("CARGO_FEATURE_STATIC").is_some() { "static" } else { "dylib" };
    println!("cargo:rustc-link-lib={kind}=granary");
}
