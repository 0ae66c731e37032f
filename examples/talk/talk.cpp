// Continues a list of tokens with a package of build.py: talk FOLDER [OPTION VALUE]... <TOKENS
// Numbers in, numbers out; tokenizer.py makes them from text, and text from them. Options are those of talk.py: --tokens,
// --temperature, --top-k, --top-p, --seed, --part, --threads and --stop NUMBER.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "lm.hpp"

namespace {

// As sampler.py, with the same random numbers.
class Sampler {
 public:
  Sampler(double temperature, size_t top_k, double top_p, uint32_t seed)
      : temperature_(temperature), top_k_(top_k), top_p_(top_p), random_(seed) {
    if (!(temperature >= 0) || !(top_p > 0 && top_p <= 1)) throw std::invalid_argument("temperature or top-p is out of range");
  }

  int64_t operator()(const std::vector<float>& logits) {
    if (temperature_ == 0) return std::max_element(logits.begin(), logits.end()) - logits.begin();
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t kept = top_k_ > 0 ? std::min(top_k_, order.size()) : order.size();
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [&](size_t a, size_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
    std::vector<double> sums;
    for (size_t i = 0; i < kept; ++i) {
      const double p = std::exp((static_cast<double>(logits[order[i]]) - static_cast<double>(logits[order[0]])) / temperature_);
      sums.push_back(p + (sums.empty() ? 0 : sums.back()));
    }
    const auto end = std::min(std::lower_bound(sums.begin(), sums.end(), top_p_ * sums.back()) + 1, sums.end());
    const double drawn = uniform() * *(end - 1);
    return static_cast<int64_t>(
        order[static_cast<size_t>(std::min(std::upper_bound(sums.begin(), end, drawn), end - 1) - sums.begin())]);
  }

 private:
  double uniform() {  // as NumPy's random_sample
    const double high = static_cast<double>(random_() >> 5), low = static_cast<double>(random_() >> 6);
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  double temperature_;
  size_t top_k_;
  double top_p_;
  std::mt19937 random_;
};

// The model and its cache, whose tensors share one block.
class Decoder {
 public:
  Decoder(const std::string& folder, size_t part) : model_(folder, folder), part_(part) {
    const auto inputs = lm_model::inputs(), outputs = lm_model::outputs();
    size(1);
    std::vector<size_t> places;
    size_t bytes = 0;
    for (int i = 0; i < LM_OUTPUTS; ++i) {
      places.push_back(bytes);
      bytes += (model_.output_bytes(i) + 4095) / 4096 * 4096;  // logits have one size at last, and are read after each run
      const lm_tensor& t = outputs[static_cast<size_t>(i)];
      if (logits_ >= 0 || t.rank != 3) continue;
      logits_ = i;
      if (t.dtype != std::string("f32")) throw std::runtime_error("this program reads logits of f32 alone");
    }
    for (int i = 0; i < LM_INPUTS; ++i)
      if (std::string(inputs[static_cast<size_t>(i)].name).find("past_key") == 0 && inputs[static_cast<size_t>(i)].rank == 4)
        room_ = static_cast<size_t>(model_.input_shape(i)[2]);
    if (logits_ < 0 || room_ == 0) throw std::runtime_error("the package is no decoder with a cache of fixed room");
    block_.reset(lm_allocate(bytes));
    if (!block_) throw std::bad_alloc();
    std::memset(block_.get(), 0, bytes);
    for (size_t place : places) results_.push_back(static_cast<char*>(block_.get()) + place);
    vocabulary_ = static_cast<size_t>(model_.output_shape(logits_).back());
  }

  // The logits after these tokens, which follow those of the calls before.
  std::vector<float> feed(const std::vector<int64_t>& tokens) {
    if (tokens.empty()) throw std::invalid_argument("there are no tokens");
    for (int64_t t : tokens)
      if (t < 0 || static_cast<size_t>(t) >= vocabulary_) throw std::invalid_argument("a token is not in the vocabulary");
    if (past_ + tokens.size() > room_)
      throw std::length_error(std::to_string(past_ + tokens.size()) + " tokens do not fit: the cache has room for " +
                              std::to_string(room_));
    for (size_t at = 0; at < tokens.size(); at += part_) run(tokens.data() + at, std::min(part_, tokens.size() - at));
    if (std::any_of(last_.begin(), last_.end(), [](float x) { return std::isnan(x); }))
      throw std::runtime_error("the model computed NaN");
    return last_;
  }

 private:
  void size(size_t count) {
    if (LM_SIZES > 0 && count != size_) model_.set_sizes(std::vector<int64_t>(LM_SIZES, static_cast<int64_t>(count)));
    size_ = count;
  }

  void run(const int64_t* tokens, size_t count) {
    size(count);
    std::map<std::string, std::vector<int64_t>> values;
    values["input_ids"].assign(tokens, tokens + count);
    values["past_length"] = {static_cast<int64_t>(past_)};
    for (size_t i = 0; i < room_; ++i) values["attention_mask"].push_back(i < past_ + count);
    for (size_t i = 0; i < count; ++i) values["position_ids"].push_back(static_cast<int64_t>(past_ + i));
    std::vector<const void*> inputs;
    for (const lm_tensor& t : lm_model::inputs()) {
      const auto found = values.find(t.name);
      if (found != values.end() && t.dtype != std::string("i64"))
        throw std::runtime_error("this program gives inputs of i64 alone");
      inputs.push_back(found == values.end() ? nullptr : found->second.data());  // null: a state, which is in its output's buffer
    }
    std::vector<float> logits(model_.output_bytes(logits_) / sizeof(float));
    std::vector<void*> results = results_;
    results[static_cast<size_t>(logits_)] = logits.data();
    model_.run(inputs, results);
    last_.assign(logits.end() - static_cast<std::ptrdiff_t>(vocabulary_), logits.end());
    past_ += count;
  }

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  lm_model model_;
  size_t part_, size_ = 0, past_ = 0, room_ = 0, vocabulary_ = 0;
  int logits_ = -1;
  std::unique_ptr<void, Free> block_;
  std::vector<void*> results_;
  std::vector<float> last_;
};

void talk(int argc, char** argv) {
  std::map<std::string, double> options = {{"--tokens", 256}, {"--temperature", 0}, {"--top-k", 0},  {"--top-p", 1},
                                           {"--seed", 0},     {"--part", 256},      {"--threads", 0}};
  std::set<int64_t> ends;
  if (argc < 2 || argc % 2 != 0) throw std::invalid_argument("usage: talk FOLDER [OPTION VALUE]... <TOKENS");
  for (int i = 2; i + 1 < argc; i += 2) {
    char* rest = nullptr;
    const double value = std::strtod(argv[i + 1], &rest);
    if ((!options.count(argv[i]) && argv[i] != std::string("--stop")) || *rest || rest == argv[i + 1] ||
        !(value >= 0 && value < 4294967296.0))
      throw std::invalid_argument(std::string("wrong option or value: ") + argv[i] + " " + argv[i + 1]);
    if (argv[i] == std::string("--stop")) ends.insert(static_cast<int64_t>(value));
    else options[argv[i]] = value;
  }
  lm_model::set_threads(static_cast<int>(std::min(options["--threads"], 1024.0)));
  Sampler sampler(options["--temperature"], static_cast<size_t>(options["--top-k"]), options["--top-p"],
                  static_cast<uint32_t>(options["--seed"]));
  Decoder decoder(argv[1], std::max<size_t>(static_cast<size_t>(options["--part"]), 1));
  std::vector<int64_t> tokens;
  for (int64_t t; std::cin >> t;) tokens.push_back(t);
  if (!std::cin.eof()) throw std::invalid_argument("the input holds more than numbers");
  for (double count = 0; count < options["--tokens"]; ++count) {
    const int64_t token = sampler(decoder.feed(tokens));
    if (ends.count(token)) return;
    std::cout << token << std::endl;
    tokens = {token};
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    talk(argc, argv);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "talk: " << e.what() << "\n";
    return 1;
  }
}
