// A plugin of qemu: counts the instructions of the guest's user programs between two addresses,
// begin= and end=, and appends one line for each such span to the file out=. An instruction counts
// when its block begins to run.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What it takes of qemu's interface, version 1. Debian packages no header of it.
typedef uint64_t PluginId;
struct Block;
extern size_t qemu_plugin_tb_n_insns(const struct Block*);
extern uint64_t qemu_plugin_tb_vaddr(const struct Block*);
extern void qemu_plugin_register_vcpu_tb_trans_cb(PluginId, void (*)(PluginId, struct Block*));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct Block*, void (*)(unsigned, void*), int,
                                                 void*);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

enum { kCpus = 256, kApart = 16 };
static uint64_t counts[kCpus * kApart];  // each CPU counts in a cache line of its own
static uint64_t begin_address, end_address;
static FILE* out;

static void Count(unsigned cpu, void* instructions) {
  counts[cpu % kCpus * kApart] += (uintptr_t)instructions;
}

static void Begin(unsigned cpu, void* unused) {
  (void)cpu, (void)unused;
  memset(counts, 0, sizeof counts);
}

static void End(unsigned cpu, void* unused) {
  (void)cpu, (void)unused;
  uint64_t sum = 0;
  for (int i = 0; i < kCpus; ++i) sum += counts[i * kApart];
  fprintf(out, "%" PRIu64 "\n", sum);
  fflush(out);
}

static void Translated(PluginId id, struct Block* block) {
  (void)id;
  const uint64_t address = qemu_plugin_tb_vaddr(block);
  if (address >> 47 != 0) return;  // the kernel's
  if (address == begin_address)
    qemu_plugin_register_vcpu_tb_exec_cb(block, Begin, 0, NULL);
  else if (address == end_address)
    qemu_plugin_register_vcpu_tb_exec_cb(block, End, 0, NULL);
  else
    qemu_plugin_register_vcpu_tb_exec_cb(block, Count, 0,
                                         (void*)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

EXPORT int qemu_plugin_install(PluginId id, const void* machine, int count, char** words) {
  (void)machine;
  for (int i = 0; i < count; ++i) {
    if (strncmp(words[i], "begin=", 6) == 0) begin_address = strtoull(words[i] + 6, NULL, 0);
    if (strncmp(words[i], "end=", 4) == 0) end_address = strtoull(words[i] + 4, NULL, 0);
    if (strncmp(words[i], "out=", 4) == 0) out = fopen(words[i] + 4, "w");
  }
  if (begin_address == 0 || end_address == 0 || out == NULL) {
    fprintf(stderr, "instructions: give begin=, end= and out=, a file that can be written\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, Translated);
  return 0;
}
