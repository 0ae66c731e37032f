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
  CHECK(refused({graph_attribute("decoder", decoder()), attribute("model_type", 3)}).find("model_type 3") != std::string::npos);
  CHECK(refused({graph_attribute("decoder", decoder()), attribute("no_repeat_ngram_size", -1)}).find("out of range") !=
        std::string::npos);
}

namespace {

// Words of speech: the end and those after it have meanings, and time stamps begin at kStamps.
constexpr int64_t kSpeech = 16, kEnd = 5, kStamps = 12;

// One step of a decoder of sound, whose logits are rows of `speech`. The encoder makes the first one, and keys of the attention
// to it.
std::string speech_step(bool encoder) {
  std::string g;
  const auto add = [&](std::string_view op, const std::vector<std::string>& in, const std::string& out,
                       const std::vector<std::string>& attributes = {}) { g += field(1, node(op, in, {out}, attributes)); };
  const std::string ids = encoder ? "decoder_input_ids" : "input_ids";
  add("Gather", {"speech", ids}, "logits");
  add("Cast", {ids}, "real", {attribute("to", 1)});
  add("Constant", {}, "axes", {attribute("value_ints", std::vector<int64_t>{1, 3})});
  add("Unsqueeze", {"real", "axes"}, "now");  // [N,1,S,1]
  std::vector<std::string> inputs{"input_ids"}, outputs{"logits"};
  if (encoder) {
    inputs = {"encoder_input_ids", "decoder_input_ids"};
    outputs.push_back("encoder_hidden_states");
    add("Identity", {"encoder_input_ids"}, "encoder_hidden_states");
  }
  for (const std::string what : {"key_self_0", "value_self_0"}) {
    if (encoder) add("Identity", {"now"}, "present_" + what);
    else add("Concat", {"past_" + what, "now"}, "present_" + what, {attribute("axis", 2)});
    outputs.push_back("present_" + what);
    if (!encoder) inputs.push_back("past_" + what);
  }
  for (const std::string what : {"key_cross_0", "value_cross_0"}) {
    if (encoder) add("Identity", {"now"}, "present_" + what);
    if (encoder) outputs.push_back("present_" + what);
    else inputs.push_back("past_" + what);
  }
  g += field(2, "step");
  for (const std::string& name : inputs) {
    const bool tokens = name == ids;
    const std::vector<int64_t> dims = tokens                        ? std::vector<int64_t>{-1, encoder ? -1 : 1}
                                      : name == "encoder_input_ids" ? std::vector<int64_t>{-1, 2, -1}
                                                                    : std::vector<int64_t>{-1, 1, -1, 1};
    g += typed(11, name, tokens ? DType::I32 : DType::F32, dims);
  }
  for (const std::string& name : outputs) g += field(12, field(1, name));
  return g;
}

}  // namespace

TEST_CASE("a search for speech: time stamps come in pairs, grow, and win together") {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    std::vector<double> speech = some(static_cast<size_t>(kSpeech * kSpeech), seed);
    for (double& v : speech) v *= 4;
    constexpr size_t kLongest = 10;
    OnnxModel m(17);
    m.opset("com.microsoft", 1);
    m.input("speech", DType::F32, {kSpeech, kSpeech}, speech);
    m.input("sound", DType::F32, {1, 2, 3}, some(6, 9));
    constant(m, "longest", kLongest);
    constant(m, "beams", 1);
    constant(m, "rules", 1);
    m.add(node("WhisperBeamSearch", {"sound", "longest", "", "beams", "beams", "", "", "", "", "", "", "rules"},
               {"y", "score", "", "", "silence"},
               {graph_attribute("encoder", speech_step(true)), graph_attribute("decoder", speech_step(false)),
                attribute("eos_token_id", kEnd), attribute("pad_token_id", kEnd), attribute("decoder_start_token_id", 6),
                attribute("translate_token_id", 7), attribute("transcribe_token_id", 8), attribute("start_of_lm_token_id", 9),
                attribute("no_speech_token_id", 10), attribute("no_timestamps_token_id", 11),
                attribute("beginning_timestamp_token_id", kStamps), attribute("early_stopping", 1)},
               "com.microsoft"));
    m.output("y");
    m.output("silence");
    const auto got = m.run();

    const auto scores = [&](int64_t from) {
      const std::vector<double> row(speech.begin() + from * kSpeech, speech.begin() + (from + 1) * kSpeech);
      double sum = 0;
      for (double v : row) sum += std::exp(v);
      std::vector<double> out;
      for (double v : row) out.push_back(v - std::log(sum));
      return out;
    };
    const auto is_stamp = [](int64_t t) { return t >= kStamps; };
    CHECK(got[1][0] == doctest::Approx(std::exp(scores(6)[10])));
    std::vector<int64_t> tokens{6};
    while (tokens.size() < kLongest && tokens.back() != kEnd) {
      std::vector<double> p = scores(tokens.back());
      const auto hide = [&](int64_t from, int64_t to) { std::fill(p.begin() + from, p.begin() + to, -1e30); };
      const auto first = std::ranges::find_if(tokens, is_stamp);
      const bool timed = first != tokens.end(), begun = timed && first + 1 != tokens.end();
      const bool last = is_stamp(tokens.back()), pair = !begun || is_stamp(tokens[tokens.size() - 2]);
      hide(9, 10);
      hide(11, 12);
      if (begun) hide(6, 9);
      if (last && pair) hide(kStamps, kSpeech);
      if (last && !pair) hide(0, kEnd);
      if (timed) {
        const int64_t stamp = *std::find_if(tokens.rbegin(), tokens.rend(), is_stamp);
        hide(kStamps, last && !pair ? stamp : stamp + 1);
      }
      double together = 0;
      for (auto i = p.begin() + kStamps; i != p.end(); ++i) together += std::exp(*i);
      if (std::log(together) > *std::max_element(p.begin(), p.begin() + kStamps)) hide(0, kStamps);
      tokens.push_back(std::ranges::max_element(p) - p.begin());
    }
    tokens.resize(kLongest, kEnd);
    CHECK(got[0] == std::vector<double>(tokens.begin(), tokens.end()));
  }
}
