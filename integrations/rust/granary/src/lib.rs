//! The Granary allocator in Rust programs: as the global allocator, with its statistics, and as
//! scoped heaps.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: granary::Granary = granary::Granary;
//!
//! let names: Vec<String> = (0..1000).map(|i| format!("a name of some length {i}")).collect();
//! assert!(granary::Stats::read().live > 1000 * 24);
//! drop(names);
//! granary::release_free_memory();
//! ```
//!
//! The library is linked, so that the C code of the program allocates from it, too.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, CString};
use std::os::raw::{c_int, c_void};

mod heap;
mod stats;
pub mod sys;

pub use heap::{Heap, HeapFigures};
pub use stats::{figures, stat, Figure, Stats};

/// The allocator, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Granary;

const ZERO: c_int = 0x40;

/// The flags of jemalloc's interface with which memory of this layout is allocated and freed; 0
/// if malloc's own alignment suffices: 8, and 16 from 9 bytes on.
fn flags(size: usize, align: usize) -> c_int {
    if align <= 8 || (align == 16 && size > 8) {
        0
    } else {
        align.trailing_zeros() as c_int
    }
}

// The sizes are never zero, and each free passes the size, which saves a lookup and
// detects wrong sizes.
unsafe impl GlobalAlloc for Granary {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match flags(layout.size(), layout.align()) {
            0 => sys::malloc(layout.size()).cast(),
            flags => sys::mallocx(layout.size(), flags).cast(),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match flags(layout.size(), layout.align()) {
            0 => sys::calloc(1, layout.size()).cast(),
            flags => sys::mallocx(layout.size(), flags | ZERO).cast(),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        sys::sdallocx(p.cast::<c_void>(), layout.size(), flags(layout.size(), layout.align()));
    }

    #[inline]
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        match flags(new_size, layout.align()) {
            0 => sys::realloc(p.cast(), new_size).cast(),
            flags => sys::rallocx(p.cast(), new_size, flags).cast(),
        }
    }
}

/// The version of the library that serves this process, as "granary 0.1.0".
pub fn version() -> &'static str {
    // A text of ASCII that lasts as long as the process.
    unsafe { CStr::from_ptr(sys::granary_version()) }.to_str().unwrap_or("granary")
}

/// The bytes that an allocation of `size` bytes really provides; 0 if none can be that large.
pub fn good_size(size: usize) -> usize {
    unsafe { sys::granary_good_size(size) }
}

/// Purges all free memory, in this call; returns the number of purged bytes.
/// May take milliseconds for each GiB.
pub fn release_free_memory() -> usize {
    unsafe { sys::granary_release_free_memory() }
}

/// Applies options, "name:value,name:value". False if a row was wrong: the library names it on
/// stderr, and it changes nothing.
pub fn set_options(options: &str) -> bool {
    CString::new(options).map_or(false, |text| unsafe { sys::granary_set_options(text.as_ptr()) } == 0)
}
