// Runs a fuzzer without libFuzzer: first every file of the given folders, then -runs=N inputs made
// from -seed=N. The same arguments produce the same inputs on every machine.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  size_t Below(size_t bound) { return static_cast<size_t>(Next() % bound); }

 private:
  uint64_t state_;
};

struct Options {
  uint64_t runs = 2000;
  uint64_t seed = 1;
  std::vector<std::filesystem::path> folders;
};

Options ParseArguments(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "-runs=", 6) == 0) {
      options.runs = std::strtoull(argv[i] + 6, nullptr, 10);
    } else if (std::strncmp(argv[i], "-seed=", 6) == 0) {
      options.seed = std::strtoull(argv[i] + 6, nullptr, 10);
    } else {
      options.folders.emplace_back(argv[i]);
    }
  }
  return options;
}

std::vector<Input> ReadCorpus(const Options& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& folder : options.folders) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// Most inputs are short, a few are long. Long inputs reach states that need many steps.
Input MakeInput(Random& random) {
  const size_t longest = size_t{16} << random.Below(9);
  Input input(1 + random.Below(longest));
  const bool small_bytes = random.Below(4) == 0;
  for (auto& byte : input) {
    byte = static_cast<uint8_t>(random.Below(small_bytes ? 16 : 256));
  }
  return input;
}

Input Mutate(Input input, Random& random) {
  for (size_t edits = 1 + random.Below(8); edits > 0 && !input.empty(); --edits) {
    const size_t at = random.Below(input.size());
    switch (random.Below(3)) {
      case 0:
        input[at] = static_cast<uint8_t>(random.Next());
        break;
      case 1:
        input.insert(input.begin() + static_cast<ptrdiff_t>(at),
                     static_cast<uint8_t>(random.Next()));
        break;
      default:
        input.erase(input.begin() + static_cast<ptrdiff_t>(at));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = ParseArguments(argc, argv);
  const std::vector<Input> corpus = ReadCorpus(options);
  for (const Input& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  Random random(options.seed);
  for (uint64_t run = 0; run < options.runs; ++run) {
    const bool from_corpus = !corpus.empty() && random.Below(2) == 0;
    const Input input =
        from_corpus ? Mutate(corpus[random.Below(corpus.size())], random) : MakeInput(random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs of the corpus, %llu made from seed %llu: no failure\n", corpus.size(),
              static_cast<unsigned long long>(options.runs),
              static_cast<unsigned long long>(options.seed));
  return 0;
}
