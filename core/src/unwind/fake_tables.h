// Tables of a module with one function, for tests: an index, a common part and an entry. The header
// is the module's first byte. The function covers kFunction bytes from kCode on.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace granary::unwind {

class FakeTables {
 public:
  static constexpr int32_t kCode = 0x100, kFunction = 0x8000;
  static constexpr uint8_t kRelative4 = 0x1b;  // signed 4 bytes, relative to their own position

  // Adds instructions to the common part, and to the entry.
  FakeTables& Common(std::initializer_list<uint8_t> code) {
    common_.insert(common_.end(), code);
    return *this;
  }
  FakeTables& Program(std::initializer_list<uint8_t> code) {
    program_.insert(program_.end(), code);
    return *this;
  }
  FakeTables& Letters(const char* letters, std::initializer_list<uint8_t> data) {
    letters_ = letters;
    data_ = data;
    return *this;
  }

  std::vector<uint8_t> Build() const {
    std::vector<uint8_t> out = {1, kRelative4, 0x03, 0x3b};
    constexpr int32_t kCommonAt = 20;
    Put(out, int32_t{kCommonAt - 4});
    Put(out, uint32_t{1});
    Put(out, kCode);
    const size_t entry_link = out.size();
    Put(out, int32_t{0});
    PutCommon(out);
    const auto entry = static_cast<int32_t>(out.size());
    std::memcpy(&out[entry_link], &entry, sizeof entry);
    PutEntry(out, entry - kCommonAt);
    return out;
  }

 private:
  template <class T>
  static void Put(std::vector<uint8_t>& out, T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  }

  // Writes a part with its length before it.
  static void PutPart(std::vector<uint8_t>& out, const std::vector<uint8_t>& part) {
    Put(out, static_cast<uint32_t>(part.size()));
    out.insert(out.end(), part.begin(), part.end());
  }

  void PutCommon(std::vector<uint8_t>& out) const {
    std::vector<uint8_t> part;
    Put(part, uint32_t{0});
    part.push_back(1);
    part.insert(part.end(), letters_, letters_ + std::strlen(letters_) + 1);
    part.push_back(1);     // code alignment factor
    part.push_back(0x78);  // data alignment factor: -8
    part.push_back(kReturn);
    part.push_back(static_cast<uint8_t>(data_.size()));
    part.insert(part.end(), data_.begin(), data_.end());
    part.insert(part.end(), common_.begin(), common_.end());
    PutPart(out, part);
  }

  void PutEntry(std::vector<uint8_t>& out, int32_t to_common) const {
    std::vector<uint8_t> part;
    Put(part, to_common + 4);
    const auto at = static_cast<int32_t>(out.size() + 4 + part.size());
    Put(part, kCode - at);
    Put(part, kFunction);
    part.push_back(0);  // no augmentation data
    part.insert(part.end(), program_.begin(), program_.end());
    PutPart(out, part);
  }

#if defined(__x86_64__)
  static constexpr uint8_t kReturn = 16;
#else
  static constexpr uint8_t kReturn = 30;
#endif

  const char* letters_ = "zR";
  std::vector<uint8_t> data_ = {kRelative4};
  std::vector<uint8_t> common_, program_;
};

}  // namespace granary::unwind
