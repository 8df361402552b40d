// A buffer that grows to 64 MiB and shrinks again keeps its content: in small steps and by factors,
// alone and with a neighbour allocated at every step.
#include <malloc.h>

#include "../check.h"

namespace {

constexpr size_t kTop = size_t{64} << 20;

unsigned char* Resize(unsigned char* buffer, size_t size) {
  auto* resized = static_cast<unsigned char*>(realloc(buffer, size));
  CHECK(resized != nullptr);
  CHECK(malloc_usable_size(resized) >= size);
  return resized;
}

// Marks the first byte of each page and the last byte, so that the test detects a lost page.
void Mark(unsigned char* buffer, size_t from, size_t to) {
  for (size_t at = from; at < to; at += 4096) buffer[at] = static_cast<unsigned char>(at >> 12);
}

void CheckMarks(const unsigned char* buffer, size_t size) {
  for (size_t at = 0; at < size; at += 4096)
    CHECK(buffer[at] == static_cast<unsigned char>(at >> 12));
}

void GrowBySteps(size_t step, bool with_neighbours) {
  static void* neighbours[kTop / (64 << 10)];
  size_t count = 0;
  unsigned char* buffer = nullptr;
  for (size_t size = step; size <= kTop; size += step) {
    buffer = Resize(buffer, size);
    Mark(buffer, size - step, size);
    if (with_neighbours) neighbours[count++] = malloc(100000);
  }
  CheckMarks(buffer, kTop / step * step);
  while (count > 0) free(neighbours[--count]);
  free(buffer);
}

void GrowAndShrinkByHalves() {
  unsigned char* buffer = nullptr;
  size_t marked = 0;
  for (size_t size = 4096; size <= kTop; size += size / 2 / 4096 * 4096 + 4096) {
    buffer = Resize(buffer, size);
    Mark(buffer, marked, size);
    marked = size;
    CheckMarks(buffer, size);
  }
  for (size_t size = marked / 4096 * 4096; size >= 8192; size = size / 2 / 4096 * 4096) {
    buffer = Resize(buffer, size);
    CheckMarks(buffer, size);
  }
  free(buffer);
}

void ByteByByteThroughTheSmallClasses() {
  unsigned char* buffer = nullptr;
  for (size_t size = 1; size <= 70000; ++size) {
    buffer = Resize(buffer, size);
    buffer[size - 1] = static_cast<unsigned char>(size * 31);
  }
  for (size_t at = 1; at <= 70000; ++at)
    CHECK(buffer[at - 1] == static_cast<unsigned char>(at * 31));
  for (size_t size = 70000; size >= 1; --size) {
    buffer = Resize(buffer, size);
    CHECK(buffer[size - 1] == static_cast<unsigned char>(size * 31));
  }
  free(buffer);
}

void ReallocAfterAlternatingSizes() {
  unsigned char* buffer = nullptr;
  for (int round = 0; round < 200; ++round) {
    buffer = Resize(buffer, round % 2 == 0 ? kTop / 4 : 100);
    buffer[99] = static_cast<unsigned char>(round);
    buffer = Resize(buffer, round % 2 == 0 ? kTop / 2 : 4 << 20);
    CHECK(buffer[99] == static_cast<unsigned char>(round));
  }
  free(buffer);
}

}  // namespace

int main() {
  GrowBySteps(64 << 10, false);
  GrowBySteps(256 << 10, true);
  GrowBySteps(1 << 20, true);
  GrowAndShrinkByHalves();
  ByteByByteThroughTheSmallClasses();
  ReallocAfterAlternatingSizes();
}
