/* The statistics of the calling process. docs/reference/counters.md lists the figures; the command
 * `granary stats` reads the same figures from outside the process.
 *
 * Each figure has a name, and later versions add figures. A program reads figures by name, or
 * enumerates all of them. A program may call every function from any thread, but not from a signal
 * handler. No function allocates, and no function sets errno. While other threads allocate, each
 * figure is exact for some moment during the call; a sum of several figures is approximate. */
#ifndef GRANARY_STATS_H
#define GRANARY_STATS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stores the figure `name` ("live", "dirty", ...) in *value. Returns 0, or -1 if there is no such
 * figure. Takes some microseconds, because it measures the whole heap. */
int granary_stat(const char* name, uint64_t* value);

/* Measures all figures in one call and stores the first `room` of them in `values`, in the order of
 * granary_stat_describe. Returns the number of figures that exist. */
size_t granary_stats(uint64_t* values, size_t room);

/* The description of a figure. The texts stay valid as long as the process runs. */
struct granary_stat_description {
  const char* name;
  const char* kind;    /* "gauge": it also falls; "counter": it only grows */
  const char* unit;    /* "bytes", "count" or "nanoseconds" */
  const char* layer;   /* the part of the allocator that maintains the figure */
  const char* meaning; /* one line of English */
};

/* Describes the figure with this index, from 0 on. Returns 0, or -1 if there is no such figure. */
int granary_stat_describe(size_t index, struct granary_stat_description* description);

/* Resets the figures whose names end in _peak to their present values. */
void granary_reset_peaks(void);

/* The objects of one size class. The fields are numbers of objects unless their comments say bytes.
 * allocations - live is the number of freed objects. */
struct granary_class_figures {
  uint64_t size; /* bytes of one object */
  uint64_t allocations;
  uint64_t live;
  uint64_t cached;        /* free, in the CPU caches */
  uint64_t depot;         /* free, in magazines of the depot */
  uint64_t slab_free;     /* free, in slabs */
  uint64_t slabs;         /* number of slabs; 0 where each object is a span of its own */
  uint64_t partial_slabs; /* number of slabs with a free object */
  uint64_t slab_bytes;    /* bytes of one slab */
  uint64_t clean_bytes;   /* bytes of clean pages in all slabs */
};

/* Writes the figures of the size class with this index, from 0 on, smallest class first, to the
 * first `bytes` bytes of *stats. Pass sizeof *stats: later versions append members. Returns 0, or
 * -1 if there is no such class. */
int granary_class_stats(size_t index, struct granary_class_figures* stats, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
