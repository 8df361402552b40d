// A user of RocksDB. RocksDB's own code caches blocks in an arena of jemalloc's interface. The
// program writes, compacts, reads back, and checks RocksDB's reports of memory. Argument: the
// folder of the database.
#include <jemalloc/jemalloc.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/memory_allocator.h>
#include <rocksdb/table.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#pragma weak mallctl

namespace {

constexpr int kKeys = 200000;

void Require(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

std::string KeyOf(int i) { return "key" + std::to_string(int64_t{i} * 7919 % 200003); }
std::string ValueOf(int i) { return std::string(200 + i % 600, static_cast<char>('a' + i % 26)); }

size_t Read(const std::string& name) {
  size_t value = 0, size = sizeof value;
  Require(mallctl(name.c_str(), &value, &size, nullptr, 0) == 0, name.c_str());
  return value;
}

unsigned Arenas() {
  unsigned value = 0;
  size_t size = sizeof value;
  Require(mallctl("arenas.narenas", &value, &size, nullptr, 0) == 0, "arenas.narenas");
  return value;
}

size_t InArena(unsigned arena) {
  uint64_t epoch = 1;
  Require(mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) == 0, "epoch");
  const std::string prefix = "stats.arenas." + std::to_string(arena);
  return Read(prefix + ".small.allocated") + Read(prefix + ".large.allocated");
}

// Memory that a core dump omits, as RocksDB's allocator requests.
size_t NotDumpedKib() {
  std::ifstream smaps("/proc/self/smaps");
  size_t size = 0, sum = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (line.rfind("Size:", 0) == 0) size = std::strtoull(line.c_str() + 5, nullptr, 10);
    if (line.rfind("VmFlags:", 0) == 0 && line.find(" dd") != std::string::npos) sum += size;
  }
  return sum;
}

void ReadAll(rocksdb::DB& db, int from, int step) {
  std::string read;
  for (int i = from; i < kKeys; i += step) {
    Require(db.Get({}, KeyOf(i), &read).ok() && read == ValueOf(i), "a value that was written");
  }
}

void Use(rocksdb::DB& db) {
  for (int i = 0; i < kKeys; ++i) Require(db.Put({}, KeyOf(i), ValueOf(i)).ok(), "a write");
  Require(db.Flush({}).ok(), "a flush");
  Require(db.CompactRange({}, nullptr, nullptr).ok(), "a compaction");
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) readers.emplace_back([&db, t] { ReadAll(db, t, 4); });
  for (std::thread& t : readers) t.join();
}

}  // namespace

int main(int, char** arguments) {
  rocksdb::JemallocAllocatorOptions how;
  std::shared_ptr<rocksdb::MemoryAllocator> nodump;
  const rocksdb::Status status = rocksdb::NewJemallocNodumpAllocator(how, &nodump);
  std::printf("NewJemallocNodumpAllocator: %s\n", status.ToString().c_str());
  const bool has = status.ok();
  const unsigned arena = has ? Arenas() - 1 : 0;

  rocksdb::LRUCacheOptions cache(64 << 20, 2, false, 0.5, nodump);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.dump_malloc_stats = true;
  options.stats_dump_period_sec = 1;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* db = nullptr;
  Require(rocksdb::DB::Open(options, arguments[1], &db).ok(), "the database opens");
  Use(*db);
  const size_t used = table.block_cache->GetUsage();
  if (has) {
    const size_t in_arena = InArena(arena), kib = NotDumpedKib();
    std::printf("block cache: %zu bytes; arena %u: %zu bytes; not dumped: %zu KiB\n", used, arena,
                in_arena, kib);
    Require(in_arena >= used / 2, "the cached blocks lie in the arena");
    Require(kib * 1024 >= in_arena, "the arena's memory is left out of core dumps");
  }
  Require(used > 16 << 20, "blocks are cached");
  std::this_thread::sleep_for(std::chrono::seconds(2));  // until RocksDB prints its statistics
  Require(db->Close().ok(), "the database closes");
  delete db;
  options.table_factory.reset();
  table.block_cache.reset();
  cache.memory_allocator.reset();
  nodump.reset();
  if (has) Require(NotDumpedKib() < 1024, "the arena's memory goes with it");
}
