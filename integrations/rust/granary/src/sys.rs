//! The functions of the library that the crate calls. The C headers say what each promises.

#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_void};

#[repr(C)]
pub struct granary_heap {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Default)]
pub struct granary_heap_figures {
    pub live: u64,
    pub objects: u64,
    pub held: u64,
    pub cap: u64,
}

#[repr(C)]
pub struct granary_stat_description {
    pub name: *const c_char,
    pub kind: *const c_char,
    pub unit: *const c_char,
    pub layer: *const c_char,
    pub meaning: *const c_char,
}

extern "C" {
    pub fn malloc(size: usize) -> *mut c_void;
    pub fn calloc(count: usize, size: usize) -> *mut c_void;
    pub fn realloc(p: *mut c_void, size: usize) -> *mut c_void;
    pub fn mallocx(size: usize, flags: c_int) -> *mut c_void;
    pub fn rallocx(p: *mut c_void, size: usize, flags: c_int) -> *mut c_void;
    pub fn sdallocx(p: *mut c_void, size: usize, flags: c_int);

    pub fn granary_version() -> *const c_char;
    pub fn granary_good_size(size: usize) -> usize;
    pub fn granary_release_free_memory() -> usize;
    pub fn granary_set_options(options: *const c_char) -> c_int;
    pub fn granary_stat(name: *const c_char, value: *mut u64) -> c_int;
    pub fn granary_stats(values: *mut u64, room: usize) -> usize;
    pub fn granary_stat_describe(index: usize, to: *mut granary_stat_description) -> c_int;

    pub fn granary_heap_create(name: *const c_char, cap: usize) -> *mut granary_heap;
    pub fn granary_heap_destroy(heap: *mut granary_heap);
    pub fn granary_heap_malloc(heap: *mut granary_heap, size: usize) -> *mut c_void;
    pub fn granary_heap_aligned_alloc(
        heap: *mut granary_heap,
        alignment: usize,
        size: usize,
    ) -> *mut c_void;
    pub fn granary_heap_free(heap: *mut granary_heap, p: *mut c_void);
    pub fn granary_heap_measure(
        heap: *mut granary_heap,
        figures: *mut granary_heap_figures,
        bytes: usize,
    );
}
