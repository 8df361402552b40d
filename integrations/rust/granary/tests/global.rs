//! A program whose global allocator is Granary.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::thread;

use granary::{Granary, Heap, Stats};

#[global_allocator]
static GLOBAL: Granary = Granary;

#[test]
fn says_its_version() {
    assert!(granary::version().starts_with("granary "));
    assert_eq!(granary::good_size(17), 32);
}

// Sizes and alignments of all categories, each freed with its layout: a wrong size
// would end the program.
#[test]
fn keeps_the_rules_of_layouts() {
    for align in (0..=16).map(|lg| 1usize << lg) {
        for size in [1, 4, 8, 9, 16, 100, 4096, 70_000, 3 << 20] {
            let layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let p = GLOBAL.alloc_zeroed(layout);
                assert!(!p.is_null() && p as usize % align == 0);
                assert!((0..size).all(|i| *p.add(i) == 0));
                *p = 7;
                let mut layout = layout;
                let mut p = p;
                for new_size in [size * 3, 5, size + 1, 1] {
                    p = GLOBAL.realloc(p, layout, new_size);
                    assert!(!p.is_null() && p as usize % align == 0 && *p == 7);
                    layout = Layout::from_size_align(new_size, align).unwrap();
                }
                GLOBAL.dealloc(p, layout);
            }
        }
    }
}

#[test]
fn counts_what_collections_hold() {
    let before = Stats::read();
    let mut map = HashMap::new();
    for i in 0..100_000u64 {
        map.insert(i, vec![i; 20]);
    }
    let full = Stats::read();
    assert!(full.live >= before.live + 100_000 * 160);
    assert!(full.allocations >= before.allocations + 100_000);
    drop(map);
    granary::release_free_memory();
    assert!(Stats::read().released > before.released);
}

#[test]
fn serves_threads() {
    let threads: Vec<_> = (0..8)
        .map(|t| {
            thread::spawn(move || {
                (0..2000).map(|i| format!("{t} {i}").repeat(i % 50)).map(|s| s.len()).sum::<usize>()
            })
        })
        .collect();
    assert!(threads.into_iter().all(|t| t.join().unwrap() > 0));
}

#[test]
fn describes_all_figures() {
    let figures = granary::figures();
    let live = figures.iter().find(|f| f.name == "live").unwrap();
    assert!(live.kind == "gauge" && live.unit == "bytes" && live.value > 0);
    assert_eq!(granary::stat("no such figure"), None);
}

#[test]
fn refuses_unknown_options() {
    assert!(granary::set_options("dirty_decay_ms:2000"));
    assert!(!granary::set_options("no_such_option:1"));
}

#[test]
fn caps_and_drops_a_heap() {
    let heap = Heap::new("tenant", 1 << 20).unwrap();
    let layout = Layout::from_size_align(1000, 64).unwrap();
    let mut last = None;
    let mut count = 0;
    while let Some(p) = heap.allocate(layout) {
        assert_eq!(p.as_ptr() as usize % 64, 0);
        last = Some(p);
        count += 1;
    }
    let full = heap.figures();
    assert!(count > 900 && full.objects == count && full.live <= 1 << 20 && full.cap == 1 << 20);
    unsafe { heap.deallocate(last.unwrap()) };
    assert_eq!(heap.figures().objects, count - 1);
    assert!(heap.allocate(layout).is_some());
}
