#include "inspection/publish.h"

#include <elf.h>

#include "base/writer.h"
#include "config/options.h"
#include "inspection/descriptor.h"
#include "layers/layers.h"

// The head of the file that contains this code: of the shared library, or of the program.
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden"), weak));

namespace granary {
namespace {

constexpr size_t kHeadBytes = 16 * kKiB;
constexpr size_t kFilePage = 4 * kKiB;  // contains the note
constexpr size_t kMostPieces = (kHeadBytes - sizeof(Elf64_Ehdr)) / sizeof(Elf64_Phdr);

// When this process started, in ticks since the boot, as every process can read it; 0 if there is
// no /proc.
uint64_t StartTicks() noexcept {
  constexpr int kStartField = 22;  // of /proc/PID/stat, as proc(5) counts them
  char text[512] = {};             // holds more than these fields
  const int file = Linux::OpenFile("/proc/self/stat");
  if (file < 0 || Linux::ReadAndClose(file, text, sizeof text - 1) <= 0) return 0;
  const char* at = __builtin_strrchr(text, ')');  // the end of field 2, which may contain spaces
  for (int field = 2; at != nullptr && field < kStartField; ++field) {
    at = __builtin_strchr(at + 1, ' ');
  }
  uint64_t ticks = 0;
  while (at != nullptr && at[1] >= '0' && at[1] <= '9') ticks = 10 * ticks + uint64_t(*++at - '0');
  return ticks;
}

// Processes of several PID namespaces have the same id, and may share /dev/shm: their starts
// differ.
struct PublishedPath {
  char text[64] = {};
  explicit PublishedPath(const char* suffix) {
    Writer w(text, sizeof text - 1);
    w.Text("/dev/shm/granary.").Number(Linux::ProcessId());
    if (const uint64_t ticks = StartTicks()) w.Text(".").Number(ticks);
    w.Text(suffix);
  }
};

// Collects pieces of memory. The first piece is the head of the file, which describes the others.
class CoreFile {
 public:
  explicit CoreFile(void* head)
      : header_(static_cast<Elf64_Ehdr*>(head)),
        rows_(reinterpret_cast<Elf64_Phdr*>(static_cast<char*>(head) + sizeof(Elf64_Ehdr))) {
    pieces_[count_++] = {head, kHeadBytes};
  }

  void Add(const void* p, size_t bytes) {
    if (count_ == kMostPieces) return;
    Elf64_Phdr& row = rows_[count_ - 1];
    row = {};
    row.p_type = PT_LOAD;
    row.p_flags = PF_R;
    row.p_offset = offset_;
    row.p_vaddr = AddressOf(p);
    row.p_filesz = row.p_memsz = bytes;
    offset_ += bytes;
    pieces_[count_++] = {p, bytes};
  }

  bool Write() {
    *header_ = {};
    __builtin_memcpy(header_->e_ident, ELFMAG, SELFMAG);
    header_->e_ident[EI_CLASS] = ELFCLASS64;
    header_->e_ident[EI_DATA] = ELFDATA2LSB;
    header_->e_ident[EI_VERSION] = EV_CURRENT;
    header_->e_type = ET_CORE;
    header_->e_machine = reinterpret_cast<const Elf64_Ehdr*>(__ehdr_start)->e_machine;
    header_->e_version = EV_CURRENT;
    header_->e_ehsize = sizeof(Elf64_Ehdr);
    header_->e_phoff = sizeof(Elf64_Ehdr);
    header_->e_phentsize = sizeof(Elf64_Phdr);
    header_->e_phnum = static_cast<Elf64_Half>(count_ - 1);
    return Linux::ReplaceFile(PublishedPath("").text, PublishedPath(".new").text, pieces_, count_);
  }

 private:
  Elf64_Ehdr* header_;
  Elf64_Phdr* rows_;
  FilePiece pieces_[kMostPieces];
  size_t count_ = 0;
  size_t offset_ = kHeadBytes;
};

}  // namespace

constinit Publisher publisher;

void Publisher::Publish(uint64_t now) noexcept {
  if (!options.stats_file || __ehdr_start == nullptr) return;
  if (busy_.exchange(true, std::memory_order_acquire)) return;
  next_.store(now + kEveryMillis, std::memory_order_relaxed);
  if (head_ == nullptr) head_ = layers.metadata().Allocate(kHeadBytes);
  if (head_ != nullptr) {
    CoreFile file(head_);
    file.Add(__ehdr_start, kFilePage);
    ForEachPublished([&](const void* p, size_t bytes) { file.Add(p, bytes); });
    layers.front().ForEachCache([&](Cache<Linux>& cache) {
      file.Add(&cache, offsetof(Cache<Linux>, words) + kHeaders * sizeof(CacheWords));
    });
    published_ = file.Write() || published_;
  }
  busy_.store(false, std::memory_order_release);
}

void Publisher::Remove() noexcept {
  if (published_) Linux::RemoveFile(PublishedPath("").text);
}

void Publisher::Forget() noexcept {
  busy_.store(false, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  published_ = false;
}

}  // namespace granary
