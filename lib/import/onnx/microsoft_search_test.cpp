// Searches of com.microsoft with a small decoder whose logits are a table: tokens are a Markov chain.
#include <algorithm>
#include <array>
#include <cmath>

#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

constexpr size_t kWords = 4;

const std::vector<double>& table() {
  static const std::vector<double> v = some(kWords * kWords, 7);
  return v;
}

std::string typed(int number, std::string_view name, DType t, const std::vector<int64_t>& dims) {
  return field(number, value_info(name, t, dims));
}

// Logits are rows of `table`, an input of the model; the past holds the tokens.
std::string decoder() {
  std::string g;
  const auto add = [&](std::string_view op, const std::vector<std::string>& in, const std::string& out,
                       const std::vector<std::string>& attributes = {}) { g += field(1, node(op, in, {out}, attributes)); };
  add("Gather", {"table", "input_ids"}, "logits");
  add("Cast", {"input_ids"}, "real", {attribute("to", 1)});
  add("Constant", {}, "axes", {attribute("value_ints", std::vector<int64_t>{0, 2, 4})});
  add("Unsqueeze", {"real", "axes"}, "one");
  add("Concat", {"one", "one"}, "two", {attribute("axis", 0)});
  add("Concat", {"past_0", "two"}, "present_0", {attribute("axis", 3)});
  g += field(2, "decoder");
  g += typed(11, "input_ids", DType::I32, {-1, -1}) + typed(11, "position_ids", DType::I32, {-1, -1});
  g += typed(11, "attention_mask", DType::I32, {-1, -1}) + typed(11, "past_0", DType::F32, {2, -1, 1, -1, 1});
  return g + field(12, field(1, "logits")) + field(12, field(1, "present_0"));
}

OnnxModel searching(const std::vector<double>& ids) {
  OnnxModel m(17);
  m.opset("com.microsoft", 1);
  m.input("table", DType::F32, {static_cast<int64_t>(kWords), static_cast<int64_t>(kWords)}, table());
  m.input("ids", DType::I32, {static_cast<int64_t>(ids.size()) / 2, 2}, ids);
  return m;
}

void constant(OnnxModel& m, const std::string& name, int64_t v) {
  m.add(node("Constant", {}, {name + "_64"}, {attribute("value_ints", std::vector<int64_t>{v})}));
  m.add(node("Cast", {name + "_64"}, {name}, {attribute("to", 6)}));
}

double log_probability(size_t from, size_t to) {
  double sum = 0;
  for (size_t i = 0; i < kWords; ++i) sum += std::exp(table()[from * kWords + i]);
  return table()[from * kWords + to] - std::log(sum);
}

}  // namespace

TEST_CASE("a greedy search takes the best token, and pads behind the end") {
  const auto best = [](size_t from) {
    const auto row = table().begin() + static_cast<std::ptrdiff_t>(from * kWords);
    return static_cast<size_t>(std::max_element(row, row + kWords) - row);
  };
  for (const int64_t end : {int64_t{9}, static_cast<int64_t>(best(best(3)))}) {
    OnnxModel m = searching({1, 2, 2, 3});
    constant(m, "longest", 6);
    m.add(node("GreedySearch", {"ids", "longest"}, {"y"},
               {graph_attribute("decoder", decoder()), attribute("eos_token_id", end), attribute("pad_token_id", 0)},
               "com.microsoft"));
    m.output("y");
    const auto got = m.run()[0];
    std::vector<double> want;
    for (const auto& [first, last] : {std::pair<size_t, size_t>{1, 2}, {2, 3}}) {
      want.push_back(static_cast<double>(first));
      want.push_back(static_cast<double>(last));
      bool ended = false;
      for (size_t i = 0, at = last; i < 4; ++i) {
        at = best(at);
        ended = ended || static_cast<int64_t>(at) == end;
        want.push_back(ended ? 0 : static_cast<double>(at));
      }
    }
    CHECK(got == want);
  }
}

TEST_CASE("a beam search finds the most likely sequence") {
  OnnxModel m = searching({1, 2, 0, 3});
  constant(m, "longest", 4);
  constant(m, "beams", kWords);
  constant(m, "returned", 2);
  m.add(node("BeamSearch", {"ids", "longest", "", "beams", "returned"}, {"y", "scores"},
             {graph_attribute("decoder", decoder()), attribute("eos_token_id", 9), attribute("pad_token_id", 0)},
             "com.microsoft"));
  m.output("y");
  m.output("scores");
  const auto got = m.run();
  // As many beams as words: of two steps, none is lost.
  for (size_t b = 0; b < 2; ++b) {
    const size_t last = b == 0 ? 2 : 3;
    std::vector<std::pair<double, std::array<double, 4>>> all;
    for (size_t i = 0; i < kWords; ++i)
      for (size_t k = 0; k < kWords; ++k)
        all.push_back({(log_probability(last, i) + log_probability(i, k)) / 4,
                       {b == 0 ? 1. : 0., static_cast<double>(last), static_cast<double>(i), static_cast<double>(k)}});
    std::ranges::sort(all, std::greater<>(), [](const auto& p) { return p.first; });
    for (size_t r = 0; r < 2; ++r) {
      CHECK(got[1][b * 2 + r] == doctest::Approx(all[r].first));
      for (size_t i = 0; i < 4; ++i) CHECK(got[0][(b * 2 + r) * 4 + i] == all[r].second[i]);
    }
  }
}

TEST_CASE("a sampling that keeps one word is a greedy search, and one that keeps all draws by the seed") {
  const auto tokens = [](std::string_view op, double top_p, int64_t seed) {
    OnnxModel m = searching({1, 2, 2, 3});
    constant(m, "longest", 40);
    constant(m, "seed", seed);
    std::vector<std::string> inputs{"ids", "longest"}, attributes{graph_attribute("decoder", decoder())};
    attributes.push_back(attribute("eos_token_id", 9));
    attributes.push_back(attribute("pad_token_id", 0));
    if (op == "Sampling") {
      inputs.insert(inputs.end(), {"", "", "", "", "", "", "seed"});
      attributes.push_back(attribute("top_p", top_p));
      attributes.push_back(attribute("min_tokens_to_keep", 1));
    }
    m.add(node(op, inputs, {"y"}, attributes, "com.microsoft"));
    m.output("y");
    return m.run()[0];
  };
  const std::vector<double> greedy = tokens("GreedySearch", 0, 1), drawn = tokens("Sampling", 1, 1);
  CHECK(tokens("Sampling", 0.01, 1) == greedy);
  CHECK(drawn != greedy);
  CHECK(tokens("Sampling", 1, 1) == drawn);
  CHECK(tokens("Sampling", 1, 2) != drawn);
  for (double v : drawn) CHECK((v >= 0 && v < kWords));
}

TEST_CASE("searches say what they do not support") {
  const auto refused = [](std::vector<std::string> attributes) {
    OnnxModel m = searching({1, 2});
    constant(m, "longest", 4);
    attributes.push_back(attribute("pad_token_id", 0));
    attributes.push_back(attribute("eos_token_id", 9));
    m.add(node("GreedySearch", {"ids", "longest"}, {"y"}, attributes, "com.microsoft"));
    m.output("y");
    Diagnostics d;
    CHECK_FALSE(m.load(d));
    return d.text();
  };
  CHECK(refused({}).find("decoder") != std::string::npos);
  CHECK(refused({graph_attribute("decoder", decoder()), attribute("model_type", 2)}).find("model_type 2") != std::string::npos);
  CHECK(refused({graph_attribute("decoder", decoder()), attribute("no_repeat_ngram_size", -1)}).find("out of range") !=
        std::string::npos);
}
