/* Granary: the figures of the heap, from within the process. docs/reference/counters.md lists them;
 * the command `granary stats` reads the same from outside.
 *
 * Figures are known by name, and their number grows with versions: a program asks for those it
 * knows, or goes through all there are. Every function may be called from any thread but not from a
 * signal handler; none allocates, and none sets errno. While other threads go on, each figure is
 * exact for some moment during the call, and sums of several are close, not exact. */
#ifndef GRANARY_STATS_H
#define GRANARY_STATS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The figure called `name` ("live", "dirty", ...) goes to *value. Returns 0, or -1 if there is none
 * of that name. Takes some microseconds: it measures the whole heap. */
int granary_stat(const char* name, uint64_t* value);

/* Measures all figures at once, and stores the first `room` of them, in the order of
 * granary_stat_describe. Returns how many there are. */
size_t granary_stats(uint64_t* values, size_t room);

/* What a figure is. The texts last as long as the process. */
struct granary_stat_description {
  const char* name;
  const char* kind;    /* "gauge": how it stands; "counter": it only grows */
  const char* unit;    /* "bytes", "count" or "nanoseconds" */
  const char* layer;   /* the part of the allocator that keeps it */
  const char* meaning; /* a line of English */
};

/* Describes the figure with this index, from 0 on. Returns 0, or -1 if there is none. */
int granary_stat_describe(size_t index, struct granary_stat_description* description);

/* Lets the figures whose names end in _peak count from now on. */
void granary_reset_peaks(void);

/* The objects of one size. Counts are objects unless they say bytes;
 * allocations - live is how many were freed. */
struct granary_class_figures {
  uint64_t size; /* bytes of an object */
  uint64_t allocations;
  uint64_t live;
  uint64_t cached;        /* free, in the caches of the CPUs */
  uint64_t depot;         /* free, on their way between caches */
  uint64_t slab_free;     /* free, in slabs */
  uint64_t slabs;         /* 0 where each object is a span of its own */
  uint64_t partial_slabs; /* with a free object */
  uint64_t slab_bytes;    /* of one slab */
  uint64_t clean_bytes;   /* of all slabs, in pages that hold nothing */
};

/* Measures the class with this index, from 0 on, smallest first, into the first `bytes` bytes of
 * *stats (pass sizeof *stats; later versions append members). Returns 0, or -1 if there is none. */
int granary_class_stats(size_t index, struct granary_class_figures* stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
