// Mutates ONNX models and imports (and evaluates) them: whatever the bytes are, there must be an answer, not a crash or a hang.
//   onnx_fuzz [--count N] [--seed S] [--save DIR] MODEL...
// The models are taken apart as protobuf messages, changed in a few places, and put together again. Work is done in child
// processes; the model on which one dies is written to DIR.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "eval/equivalence.h"
#include "import/onnx/import.h"
#include "ir/verify.h"

namespace fs = std::filesystem;
using namespace rlxc;

namespace {

using Random = std::mt19937_64;

// A field of a message: a number, raw bytes, or a message when the bytes are one.
struct Field {
  uint32_t tag = 0;
  uint64_t number = 0;
  std::string bytes;
  std::vector<Field> fields;
  bool message = false;
};

bool read_varint(const std::string& s, size_t* at, uint64_t* out) {
  *out = 0;
  for (int shift = 0; shift < 64 && *at < s.size(); shift += 7) {
    const auto b = static_cast<unsigned char>(s[(*at)++]);
    *out |= static_cast<uint64_t>(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

bool parse(const std::string& s, int depth, std::vector<Field>* out) {
  size_t at = 0;
  while (at < s.size()) {
    Field f;
    uint64_t tag = 0;
    if (!read_varint(s, &at, &tag) || tag < 8 || tag >> 32) return false;
    f.tag = static_cast<uint32_t>(tag);
    const size_t width = (tag & 7) == 1 ? 8 : 4;
    switch (tag & 7) {
      case 0:
        if (!read_varint(s, &at, &f.number)) return false;
        break;
      case 1:
      case 5:
        if (s.size() - at < width) return false;
        f.bytes = s.substr(at, width);
        at += width;
        break;
      case 2: {
        uint64_t n = 0;
        if (!read_varint(s, &at, &n) || n > s.size() - at) return false;
        f.bytes = s.substr(at, n);
        at += n;
        f.message = depth < 12 && n > 1 && n < 1 << 20 && parse(f.bytes, depth + 1, &f.fields);
        if (!f.message) f.fields.clear();
        break;
      }
      default: return false;
    }
    out->push_back(std::move(f));
  }
  return true;
}

void write_varint(uint64_t v, std::string* out) {
  for (; v > 127; v >>= 7) *out += static_cast<char>(v | 128);
  *out += static_cast<char>(v);
}

std::string print(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& f : fields) {
    write_varint(f.tag, &out);
    if ((f.tag & 7) == 0) {
      write_varint(f.number, &out);
    } else if ((f.tag & 7) == 2) {
      const std::string body = f.message ? print(f.fields) : f.bytes;
      write_varint(body.size(), &out);
      out += body;
    } else {
      out += f.bytes;
    }
  }
  return out;
}

void collect(std::vector<Field>& fields, std::vector<std::pair<std::vector<Field>*, size_t>>* out) {
  for (size_t i = 0; i < fields.size(); ++i) {
    out->emplace_back(&fields, i);
    collect(fields[i].fields, out);
  }
}

std::string mutate(const std::string& model, const std::vector<std::string>& words, Random& random) {
  std::vector<Field> root;
  parse(model, 0, &root);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const int changes = 1 + static_cast<int>(pick(4));
  for (int c = 0; c < changes; ++c) {
    std::vector<std::pair<std::vector<Field>*, size_t>> all;
    collect(root, &all);
    if (all.empty()) break;
    auto [list, index] = all[pick(all.size())];
    Field& f = (*list)[index];
    switch (pick(7)) {
      case 0: list->erase(list->begin() + static_cast<std::ptrdiff_t>(index)); break;
      case 1: {
        const Field copy = f;
        list->insert(list->begin() + static_cast<std::ptrdiff_t>(pick(list->size() + 1)), copy);
        break;
      }
      case 2: std::swap((*list)[index], (*list)[pick(list->size())]); break;
      case 3: {
        constexpr int64_t kNumbers[] = {0,  1,   -1, 2, 3, 7, 16, 100, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 40,
                                        -2, -100};
        f.number = static_cast<uint64_t>(kNumbers[pick(std::size(kNumbers))]);
        break;
      }
      case 4:
        if (!f.message && !f.bytes.empty()) f.bytes[pick(f.bytes.size())] = static_cast<char>(random());
        break;
      case 5:
        if (!f.message && (f.tag & 7) == 2) f.bytes = words[pick(words.size())];
        break;
      default: {
        const Field other = *(all[pick(all.size())].first->begin() + 0);
        if ((other.tag & 7) == (f.tag & 7)) {
          const uint32_t tag = f.tag;
          f = other;
          f.tag = tag;
        }
      }
    }
  }
  std::string out = print(root);
  if (pick(20) == 0) out.resize(pick(out.size() + 1));
  for (size_t i = pick(20) == 0 ? 1 + pick(8) : 0; i > 0 && !out.empty(); --i)
    out[pick(out.size())] = static_cast<char>(random());
  return out;
}

// Names and operators that occur in the models: replacing one by another makes cycles, other operators, other types.
void words_of(const std::vector<Field>& fields, std::vector<std::string>* out) {
  for (const Field& f : fields) {
    if (f.message) words_of(f.fields, out);
    else if ((f.tag & 7) == 2 && f.bytes.size() < 40) out->push_back(f.bytes);
  }
}

void run_one(const std::string& path) {
  Diagnostics d;
  onnx_import::ImportOptions options;
  options.max_nodes = 100000;
  options.max_function_expansion = 10000;
  options.missing_weights = onnx_import::MissingWeights::Allow;
  const auto m = onnx_import::import_onnx(path, options, d);
  if (!m) return;
  Diagnostics again;
  if (!verify(*m, again)) {
    std::cerr << again.text();
    std::abort();
  }
  eval::EquivalenceOptions o;
  o.evaluation.max_steps = 1 << 22;
  o.evaluation.max_bytes = 1 << 28;
  for (NodeId n : m->main().inputs()) {
    const Type& t = m->main().type(m->main().result(n));
    double size = 1;
    for (Dim dim : t.dims) size *= dim.is_static() ? static_cast<double>(dim.size()) : 2;
    if (size > 1 << 22) return;
  }
  const auto params = eval::random_params(*m, o);
  o.evaluation.params = &params;
  eval::evaluate(*m, eval::random_inputs(*m, o), again, o.evaluation);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count = 10000, seed = 1;
  std::string save = "fuzz_out";
  std::vector<std::string> models, words;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (a == "--count") count = std::strtoull(value().c_str(), nullptr, 10);
    else if (a == "--seed") seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (a == "--save") save = value();
    else models.push_back(read_file(a));
  }
  for (const std::string& m : models) {
    std::vector<Field> root;
    parse(m, 0, &root);
    words_of(root, &words);
  }
  if (models.empty() || words.empty()) return std::cerr << "usage: onnx_fuzz [--count N] [--seed S] [--save DIR] MODEL...\n", 2;
  fs::create_directories(save);
  const std::string path = save + "/current.onnx";
  const auto make = [&](uint64_t i) {
    Random random(seed * 1000003 + i);
    return mutate(models[random() % models.size()], words, random);
  };
  auto* at = static_cast<uint64_t*>(mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  uint64_t found = 0;
  for (*at = 0; *at < count; ++*at) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit memory{uint64_t{4} << 30, uint64_t{4} << 30};
      setrlimit(RLIMIT_AS, &memory);
      for (; *at < count; ++*at) {
        alarm(10);
        std::ofstream(path, std::ios::binary) << make(*at);
        run_one(path);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const std::string kept = save + "/" + std::to_string(seed) + "_" + std::to_string(*at) + ".onnx";
    std::ofstream(kept, std::ios::binary) << make(*at);
    std::cout << kept << ": " << (WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit") << std::endl;
    ++found;
  }
  std::cout << count << " models, " << found << " crashes or hangs\n";
  return found > 0;
}
