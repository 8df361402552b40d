// Writes text in pieces to a callback, and JSON on top of it. Allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace granary::jemalloc {

using PrintTo = void (*)(void* argument, const char* text);

class Output {
 public:
  Output(PrintTo to, void* argument) : to_(to), argument_(argument) {}
  ~Output() { Flush(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  Output& Text(const char* text) noexcept;
  Output& Number(uint64_t n) noexcept;
  Output& Signed(int64_t n) noexcept;
  // Right-aligned in `width` columns.
  Output& Column(uint64_t n, size_t width) noexcept;
  void Flush() noexcept;

 private:
  void Put(char c) noexcept;

  PrintTo to_;
  void* argument_;
  size_t size_ = 0;
  char buffer_[4096];
};

// Objects and lists. A name of nullptr marks an element of a list.
class Json {
 public:
  explicit Json(Output& out) : out_(out) {}

  void Open(const char* name) { Begin(name), out_.Text("{"), first_ = true; }
  void Close() { out_.Text("}"), first_ = false; }
  void OpenList(const char* name) { Begin(name), out_.Text("["), first_ = true; }
  void CloseList() { out_.Text("]"), first_ = false; }
  void Number(const char* name, uint64_t n) { Begin(name), out_.Number(n); }
  void Signed(const char* name, int64_t n) { Begin(name), out_.Signed(n); }
  void Boolean(const char* name, bool value) { Begin(name), out_.Text(value ? "true" : "false"); }
  void Text(const char* name, const char* text) noexcept;

 private:
  void Begin(const char* name) noexcept;

  Output& out_;
  bool first_ = true;
};

}  // namespace granary::jemalloc
