// Runs the fuzz target without libFuzzer, in builds whose compiler lacks it, on files of a folder and mutations of them. Usage:
// rlxc_mutate SECONDS COUNT FOLDER LAST. The inputs are the same each time: at most COUNT, within a processor time. LAST is the
// input at hand; it stays if the target ends the process.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);

namespace {

std::mt19937_64 random_bits(1);
std::vector<std::string> seeds;

size_t pick(size_t n) { return static_cast<size_t>(random_bits() % n); }

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Overwrites, inserts, removes or repeats bytes, or takes some of another seed.
void change(std::string& s) {
  constexpr char kBytes[] = {0, 1, 127, -128, -1, '0', '9', '-', '"', '{', '}', '[', ']', ',', ':', '\\', '\n', ' ', '.', 'e'};
  const size_t at = pick(s.size() + 1), length = std::min(s.size() - at, 1 + pick(16));
  switch (pick(6)) {
    case 0:
      if (at < s.size()) s[at] = static_cast<char>(random_bits());
      break;
    case 1: s.insert(at, 1, kBytes[pick(std::size(kBytes))]); break;
    case 2: s.erase(at, length); break;
    case 3: s.insert(pick(s.size() + 1), s.substr(at, length)); break;
    case 4:
      if (at < s.size()) s[at] = static_cast<char>(s[at] ^ (1 << pick(8)));
      break;
    default: {
      const std::string& other = seeds[pick(seeds.size())];
      const size_t from = pick(other.size() + 1);
      s.replace(at, length, other, from, 1 + pick(64));
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  std::string s(reinterpret_cast<const char*>(data), size);
  for (size_t n = 1 + pick(4); n > 0; --n) change(s);
  const size_t length = std::min(s.size(), max_size);
  memcpy(data, s.data(), length);
  return length;
}

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  const double seconds = std::atof(argv[1]);
  const auto most = static_cast<size_t>(std::atoll(argv[2]));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[3])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) return 65;
  size_t count = 0;
  for (; count < most && processor_seconds() < seconds; ++count) {
    std::string s = seeds[pick(seeds.size())];
    if (constexpr size_t kUnchanged = 8; count % kUnchanged != 0) {
      constexpr size_t kRoom = 4096;
      const size_t size = s.size();
      s.resize(size + kRoom);
      s.resize(
          LLVMFuzzerCustomMutator(reinterpret_cast<uint8_t*>(s.data()), size, s.size(), static_cast<unsigned>(random_bits())));
    }
    std::ofstream(argv[4], std::ios::binary).write(s.data(), static_cast<std::streamsize>(s.size()));
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  }
  std::filesystem::remove(argv[4]);
  std::fprintf(stderr, "%zu inputs in %.1f s\n", count, processor_seconds());
  return 0;
}
