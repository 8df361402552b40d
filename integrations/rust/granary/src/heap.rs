//! Scoped heaps: related objects are counted, capped and freed together.

use std::alloc::Layout;
use std::ffi::CString;
use std::ptr::NonNull;

use crate::sys;

/// A separate heap. Dropping it frees all of its memory, also
/// objects that were not freed: they are raw pointers for this reason.
#[derive(Debug)]
pub struct Heap {
    heap: NonNull<sys::granary_heap>,
}

/// The figures of a heap, in bytes except `objects`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapFigures {
    pub live: u64,
    pub objects: u64,
    /// Objects, free space beside them that may be resident, and the structures that describe them.
    pub held: u64,
    /// 0 for none.
    pub cap: u64,
}

// Any thread may call anything on a heap at any time.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty heap whose objects may take `cap` bytes, 0 for no cap. `None` if the name contains a
    /// zero byte or the system refuses memory.
    pub fn new(name: &str, cap: usize) -> Option<Heap> {
        let name = CString::new(name).ok()?;
        let heap = NonNull::new(unsafe { sys::granary_heap_create(name.as_ptr(), cap) })?;
        Some(Heap { heap })
    }

    /// `None` beyond the cap, and where the system refuses memory.
    pub fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let heap = self.heap.as_ptr();
        let p = if layout.align() <= 8 {
            unsafe { sys::granary_heap_malloc(heap, layout.size()) }
        } else {
            unsafe { sys::granary_heap_aligned_alloc(heap, layout.align(), layout.size()) }
        };
        NonNull::new(p.cast())
    }

    /// # Safety
    /// `p` must have come from [`Heap::allocate`] of this heap and not been freed.
    pub unsafe fn deallocate(&self, p: NonNull<u8>) {
        sys::granary_heap_free(self.heap.as_ptr(), p.as_ptr().cast());
    }

    pub fn figures(&self) -> HeapFigures {
        let mut f = sys::granary_heap_figures::default();
        unsafe {
            sys::granary_heap_measure(self.heap.as_ptr(), &mut f, std::mem::size_of_val(&f));
        }
        HeapFigures { live: f.live, objects: f.objects, held: f.held, cap: f.cap }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        unsafe { sys::granary_heap_destroy(self.heap.as_ptr()) }
    }
}
