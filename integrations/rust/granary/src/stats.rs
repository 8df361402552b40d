//! The figures of the heap, as `granary stats` shows them from outside.

use std::ffi::{CStr, CString};
use std::os::raw::c_char;

use crate::sys;

/// The figures that most programs ask for, in bytes unless they say otherwise. [`stat`] knows all of
/// them by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All objects the program holds, rounded up to their classes.
    pub live: u64,
    /// How many objects these are.
    pub live_objects: u64,
    /// Allocations so far, a count.
    pub allocations: u64,
    /// Free objects in the caches of the CPUs.
    pub cached: u64,
    /// Free objects and ends of slabs that hold live ones, too.
    pub slab_free: u64,
    /// Free spans that still hold pages.
    pub dirty: u64,
    /// Address space reserved for objects.
    pub mapped: u64,
    /// The allocator's own structures.
    pub metadata: u64,
    /// Bytes purged so far.
    pub released: u64,
}

impl Stats {
    /// Measures the whole heap, which takes some microseconds for each figure.
    pub fn read() -> Stats {
        let figure = |name| stat(name).unwrap_or(0);
        Stats {
            live: figure("live"),
            live_objects: figure("live_objects"),
            allocations: figure("allocations"),
            cached: figure("cached"),
            slab_free: figure("slab_free"),
            dirty: figure("dirty"),
            mapped: figure("mapped"),
            metadata: figure("metadata_used"),
            released: figure("released"),
        }
    }
}

/// The figure of that name; `None` if the library has none.
pub fn stat(name: &str) -> Option<u64> {
    let name = CString::new(name).ok()?;
    let mut value = 0;
    (unsafe { sys::granary_stat(name.as_ptr(), &mut value) } == 0).then_some(value)
}

/// A figure with its description.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub name: &'static str,
    /// "gauge" or "counter".
    pub kind: &'static str,
    /// "bytes", "count" or "nanoseconds".
    pub unit: &'static str,
    pub meaning: &'static str,
    pub value: u64,
}

/// All figures of one measurement.
pub fn figures() -> Vec<Figure> {
    let mut values = vec![0; unsafe { sys::granary_stats(std::ptr::null_mut(), 0) }];
    let count = unsafe { sys::granary_stats(values.as_mut_ptr(), values.len()) };
    values.truncate(count);
    values.iter().enumerate().filter_map(|(index, &value)| describe(index, value)).collect()
}

fn describe(index: usize, value: u64) -> Option<Figure> {
    let mut d = sys::granary_stat_description {
        name: std::ptr::null(),
        kind: std::ptr::null(),
        unit: std::ptr::null(),
        layer: std::ptr::null(),
        meaning: std::ptr::null(),
    };
    if unsafe { sys::granary_stat_describe(index, &mut d) } != 0 {
        return None;
    }
    // The library's own texts, which last as long as the process.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().unwrap_or("");
    Some(Figure {
        name: text(d.name),
        kind: text(d.kind),
        unit: text(d.unit),
        meaning: text(d.meaning),
        value,
    })
}
