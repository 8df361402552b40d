// opt.*: jemalloc's options, and the type of each.
#include "row.h"

namespace {

struct Option {
  const char* name;
  size_t size;
};

const Option kOptions[] = {
    {"abort", 1},
    {"abort_conf", 1},
    {"confirm_conf", 1},
    {"cache_oblivious", 1},
    {"retain", 1},
    {"dss", 8},
    {"narenas", 4},
    {"percpu_arena", 8},
    {"oversize_threshold", 8},
    {"background_thread", 1},
    {"max_background_threads", 8},
    {"dirty_decay_ms", 8},
    {"muzzy_decay_ms", 8},
    {"tcache", 1},
    {"tcache_max", 8},
    {"tcache_nslots_small_min", 4},
    {"tcache_nslots_small_max", 4},
    {"tcache_nslots_large", 4},
    {"lg_tcache_nslots_mul", 8},
    {"tcache_gc_incr_bytes", 8},
    {"tcache_gc_delay_bytes", 8},
    {"lg_tcache_flush_small_div", 4},
    {"lg_tcache_flush_large_div", 4},
    {"thp", 8},
    {"metadata_thp", 8},
    {"hpa", 1},
    {"hpa_slab_max_alloc", 8},
    {"hpa_hugification_threshold", 8},
    {"hpa_hugify_delay_ms", 8},
    {"hpa_hugify_sync", 1},
    {"hpa_min_purge_interval_ms", 8},
    {"hpa_purge_threshold", 8},
    {"hpa_min_purge_delay_ms", 8},
    {"hpa_hugify_style", 8},
    {"hpa_sec_nshards", 8},
    {"hpa_sec_max_alloc", 8},
    {"hpa_sec_max_bytes", 8},
    {"junk", 8},
    {"zero", 1},
    {"xmalloc", 1},
    {"experimental_infallible_new", 1},
    {"stats_print", 1},
    {"stats_print_opts", 8},
    {"stats_interval", 8},
    {"stats_interval_opts", 8},
    {"zero_realloc", 8},
    {"prof", 1},
    {"prof_prefix", 8},
    {"prof_active", 1},
    {"prof_thread_active_init", 1},
    {"prof_bt_max", 4},
    {"lg_prof_sample", 8},
    {"prof_accum", 1},
    {"lg_prof_interval", 8},
    {"prof_gdump", 1},
    {"prof_final", 1},
    {"prof_leak", 1},
    {"prof_leak_error", 1},
    {"prof_pid_namespace", 1},
    {"prof_stats", 1},
    {"prof_sys_thread_name", 1},
    {"prof_time_resolution", 8},
};

}  // namespace

ROW("opt") {
  for (const Option& option : kOptions) {
    uint64_t value[2] = {};
    size_t size = sizeof value;
    const std::string name = std::string("opt.") + option.name;
    const int error = mallctl(name.c_str(), value, &size, nullptr, 0);
    if (error != EINVAL || size != option.size)
      fprintf(stderr, "%s: %d, %zu\n", option.name, error, size);
    CHECK(error == EINVAL && size == option.size);  // of 16 bytes, the size of its type
    CHECK(mallctl(name.c_str(), value, &size, nullptr, 0) == 0);
    CHECK(mallctl(name.c_str(), nullptr, nullptr, value, option.size) == EPERM);
  }
}
