#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "import/gguf/config.h"
#include "import/gguf/import.h"
#include "import/gguf/metadata.h"
#include "ir/builder.h"
#include "support/mapped_file.h"
#include "support/text.h"

using namespace rlxc;
using namespace rlxc::gguf_import;

namespace {

template <class T>
std::string raw(T v) {
  std::string s(sizeof v, '\0');
  std::memcpy(s.data(), &v, sizeof v);
  return s;
}
std::string text(std::string_view s) { return raw<uint64_t>(s.size()) + std::string(s); }
std::string number(uint32_t v) { return raw<uint32_t>(4) + raw(v); }
std::string real(float v) { return raw<uint32_t>(6) + raw(v); }
std::string word(std::string_view v) { return raw<uint32_t>(8) + text(v); }
std::string list(uint32_t type, uint64_t count, std::string elements = "") {
  return raw<uint32_t>(9) + raw(type) + raw(count) + elements;
}

// A file from its parts; each part may be replaced by a wrong one.
struct Parts {
  uint32_t version = 3;
  std::vector<std::pair<std::string, std::string>> keys = {};  // with the type and the value
  struct Row {
    std::string name;
    std::vector<uint64_t> sizes;  // the innermost first
    uint32_t type = 0;
    uint64_t offset = 0;
  };
  std::vector<Row> tensors = {};
  std::string data = {};

  std::string bytes() const {
    std::string s = "GGUF" + raw(version) + raw<uint64_t>(tensors.size()) + raw<uint64_t>(keys.size());
    for (const auto& [key, value] : keys) s += text(key) + value;
    for (const Row& t : tensors) {
      s += text(t.name) + raw(static_cast<uint32_t>(t.sizes.size()));
      for (uint64_t n : t.sizes) s += raw(n);
      s += raw(t.type) + raw(t.offset);
    }
    s.resize((s.size() + 31) / 32 * 32);
    return s + data;
  }
};

std::shared_ptr<const File> read(const std::string& bytes, Diagnostics& d) {
  auto mapped = map_bytes(bytes, "m.gguf", d);
  REQUIRE(mapped);
  return File::read(std::make_shared<const MappedFile>(std::move(*mapped)), d);
}

void refused(const std::string& bytes, Code code, std::string_view reason) {
  Diagnostics d;
  CHECK_FALSE(read(bytes, d));
  REQUIRE(d.items().size() == 1);
  CHECK(d.items()[0].code == code);
  CHECK_MESSAGE(d.text().find(reason) != std::string::npos, d.text());
}

Parts with_key(std::string value) { return {.keys = {{"a", std::move(value)}}}; }
Parts with_tensor(Parts::Row row, size_t bytes = 64) { return {.tensors = {std::move(row)}, .data = std::string(bytes, '\1')}; }

Parts decoder(std::string_view architecture) {
  const std::string prefix = std::string(architecture) + ".";
  return {.keys = {{"general.architecture", word(architecture)},
                   {prefix + "block_count", number(2)},
                   {prefix + "embedding_length", number(64)},
                   {prefix + "context_length", number(128)},
                   {prefix + "attention.head_count", number(4)},
                   {prefix + "attention.layer_norm_rms_epsilon", real(1e-5F)}}};
}

std::optional<Config> config_of(const Parts& p, Diagnostics& d) {
  const auto file = read(p.bytes(), d);
  REQUIRE_MESSAGE(file, d.text());
  return read_config(*file, d);
}

}  // namespace

TEST_CASE("keys and tensors of a GGUF file are read in place") {
  Parts p;
  p.keys = {{"b", list(8, 2, text("x") + text("\"\n"))},
            {"a", real(0.1F)},
            {"c", raw<uint32_t>(10) + raw(~uint64_t{0})},
            {"d", raw<uint32_t>(7) + std::string(1, '\1')},
            {"e", raw<uint32_t>(1) + std::string(1, '\xFE')}};
  p.tensors = {{"w", {32, 2}, 8, 32}, {"v", {3}, 0, 0}};
  p.data = std::string(32 + 68, '\2');
  Diagnostics d;
  const std::string bytes = p.bytes();
  const auto f = read(bytes, d);
  REQUIRE_MESSAGE(f, d.text());
  std::string json;
  {
    JsonWriter w(json);
    write_metadata(*f, w);
  }
  CHECK(json.find(R"("a": 0.1,)") != std::string::npos);
  CHECK(json.find(R"("b": ["x", "\"\n"],)") != std::string::npos);
  CHECK(json.find(R"("c": 18446744073709551615,)") != std::string::npos);
  CHECK(json.find(R"("d": true,)") != std::string::npos);
  CHECK(json.find(R"("e": -2)") != std::string::npos);
  const Tensor& w = f->tensors().at("w");
  CHECK(w.dims == std::vector<int64_t>{2, 32});
  CHECK(w.storage.block == BlockFormat::Q8_0);
  CHECK(w.bytes.size() == 68);
  CHECK(w.bytes.data() == f->mapped()->data() + w.offset);
  CHECK(f->tensors().at("v").bytes.size() == 12);
}

TEST_CASE("a file that is cut anywhere is refused") {
  Parts p = with_tensor({"w", {16}, 0, 0});
  p.keys = {{"general.alignment", number(32)}, {"b", list(8, 2, text("x") + text("y"))}};
  const std::string bytes = p.bytes();
  for (size_t n = 4; n < bytes.size(); ++n) {
    Diagnostics d;
    CHECK_FALSE(read(bytes.substr(0, n), d));
    CHECK(d.errors() == 1);
  }
}

TEST_CASE("headers, keys and tensors that cannot be") {
  refused(Parts{.version = 1}.bytes(), Code::NotAModel, "version 1");
  refused(Parts{.version = 3 << 24}.bytes(), Code::NotAModel, "big-endian");
  refused("GGUF" + raw<uint32_t>(3) + raw(uint64_t{1} << 62) + raw<uint64_t>(0), Code::TooLarge, "tensors");
  refused("GGUF" + raw<uint32_t>(3) + raw<uint64_t>(0) + raw(~uint64_t{0}), Code::TooLarge, "keys");
  refused(with_key(raw<uint32_t>(13)).bytes(), Code::NotAModel, "type 13");
  refused(with_key(list(9, 1, list(4, 0))).bytes(), Code::NotAModel, "lists of lists");
  refused(with_key(list(4, ~uint64_t{0})).bytes(), Code::TooLarge, "elements");
  refused(with_key(list(10, kMaxElements)).bytes(), Code::NotAModel, "ends within key \"a\"");
  refused(with_key(list(8, kMaxElements)).bytes(), Code::NotAModel, "ends within key \"a\"");
  refused(with_key(raw<uint32_t>(8) + raw(~uint64_t{0})).bytes(), Code::TooLarge, "a text of");
  refused(Parts{.keys = {{"a", number(1)}, {"a", number(1)}}}.bytes(), Code::DuplicateName, "twice");
  for (uint32_t alignment : {0U, 3U, 1U << 31})
    refused(Parts{.keys = {{"general.alignment", number(alignment)}}}.bytes(), Code::BadAttribute, "power of two");
  refused(Parts{.keys = {{"general.alignment", word("32")}}}.bytes(), Code::BadAttribute, "power of two");
  refused(with_tensor({"w", {1, 1, 1, 1, 1}}).bytes(), Code::BadTensor, "5 axes");
  refused(with_tensor({"w", {0}}).bytes(), Code::BadTensor, "a size is 0");
  refused(with_tensor({"w", {~uint64_t{0}}}).bytes(), Code::BadTensor, "a size is");
  refused(with_tensor({"w", {uint64_t{1} << 55, uint64_t{1} << 55}}).bytes(), Code::BadTensor, "beyond the end");
  refused(with_tensor({"w", {17}}).bytes(), Code::BadTensor, "beyond the end");
  refused(with_tensor({"w", {16}, 0, 32}).bytes(), Code::BadTensor, "beyond the end");
  refused(with_tensor({"w", {1}, 0, ~uint64_t{31}}).bytes(), Code::BadTensor, "beyond the end");
  refused(with_tensor({"w", {1}, 0, 4}).bytes(), Code::BadTensor, "alignment");
  refused(with_tensor({"w", {33}, 8, 0}).bytes(), Code::BadTensor, "whole blocks");
  refused(with_tensor({"w", {}, 8, 0}).bytes(), Code::BadTensor, "whole blocks");
  refused(with_tensor({"w", {32}, 16, 0}).bytes(), Code::UnsupportedAttribute, "iq2_xxs");
  refused(with_tensor({"w", {32}, 4, 0}).bytes(), Code::UnsupportedAttribute, "type 4");
  refused(Parts{.tensors = {{"w", {1}}, {"w", {1}}}, .data = std::string(4, '\0')}.bytes(), Code::DuplicateName, "twice");
}

TEST_CASE("hyperparameters of the architectures") {
  Diagnostics d;
  Parts p = decoder("gemma3");
  p.keys.emplace_back("gemma3.attention.sliding_window", number(16));
  p.keys.emplace_back("gemma3.attention.key_length", number(32));
  const auto c = config_of(p, d);
  REQUIRE_MESSAGE(c, d.text());
  CHECK(c->kv_heads == std::vector<int64_t>{4, 4});
  CHECK(c->key_size == 32);
  CHECK(c->value_size == 16);
  CHECK(c->rotated == 32);
  CHECK(c->has_window == std::vector<bool>{true, true});
  CHECK(c->scale == doctest::Approx(1 / std::sqrt(32.0)));
  CHECK(c->rotation_of(0).base == 10000);
  p.keys.emplace_back("gemma3.attention.sliding_window_pattern", list(7, 2, std::string("\0\1", 2)));
  CHECK(config_of(p, d)->has_window == std::vector<bool>{false, true});
}

TEST_CASE("hyperparameters that cannot be are named") {
  const auto bad = [](Parts p, const std::string& key, const std::string& value, std::string_view reason) {
    const auto at = std::ranges::find(p.keys, key, [](const auto& k) { return k.first; });
    if (at == p.keys.end()) p.keys.emplace_back(key, value);
    else at->second = value;
    Diagnostics d;
    CHECK_FALSE(config_of(p, d));
    CHECK_MESSAGE(d.text().find(reason) != std::string::npos, d.text());
  };
  const Parts p = decoder("llama");
  bad(p, "general.architecture", word("bert"), "\"bert\" is not supported");
  bad(p, "general.architecture", number(1), "needs a text");
  bad(p, "llama.block_count", number(0), "between 1 and");
  bad(p, "llama.block_count", word("2"), "needs an integer");
  bad(p, "llama.attention.head_count", list(4, 1, raw<uint32_t>(4)), "for each of the layers");
  bad(p, "llama.attention.head_count_kv", number(3), "multiple");
  bad(p, "llama.rope.dimension_count", number(15), "must be even");
  bad(p, "llama.rope.scaling.type", word("su"), "\"su\" is not supported");
  bad(p, "llama.rope.scaling.factor", real(-1), "out of range");
  bad(p, "llama.rope.freq_base", real(0), "out of range");
  bad(p, "llama.expert_count", number(8), "mixtures of experts");
  bad(p, "llama.attention.causal", raw<uint32_t>(7) + std::string(1, '\0'), "must be true");
  bad(p, "llama.logit_scale", real(2), "is not known");
  bad(p, "split.count", number(2), "several files");
}

TEST_CASE("tensors must be those of the architecture") {
  Diagnostics d;
  Parts p = decoder("llama");
  auto f = read(p.bytes(), d);
  CHECK_FALSE(import_gguf(*f, "m.gguf", {}, d));
  CHECK_MESSAGE(d.text().find("\"token_embd.weight\" is missing") != std::string::npos, d.text());
  p.tensors = {{"token_embd.weight", {32, 2}, 0, 0}};
  p.data = std::string(256, '\0');
  f = read(p.bytes(), d);
  CHECK_FALSE(import_gguf(*f, "m.gguf", {}, d));
  CHECK_MESSAGE(d.text().find("has the shape [2,32], the model needs [?,64]") != std::string::npos, d.text());
}

TEST_CASE("token numbers and the number of tokens in a cache are indices") {
  Diagnostics d;
  Parts p;
  p.tensors = {{"token_embd.weight", {8, 5}, 0, 0}};
  p.data = std::string(160, '\0');
  const auto f = read(p.bytes(), d);
  REQUIRE_MESSAGE(f, d.text());
  Module m;
  Builder b(m.main(), &d);
  const Dim batch = m.dims.symbol("batch"), length = m.dims.symbol("sequence");
  b.input("input_ids", tensor_type(DType::I64, {batch, length}));
  CHECK(index_inputs(m, *f).size() == 1);
  b.input("past_length", tensor_type(DType::I64, {}));
  b.input("past_key_values.0.key", tensor_type(DType::F32, {batch, Dim(2), Dim(40), Dim(8)}));
  const std::vector<IndexInput> found = index_inputs(m, *f);
  REQUIRE(found.size() == 2);
  CHECK(found[0].input == 0);
  CHECK(found[0].largest == Dim(4));
  CHECK(found[1].input == 1);
  CHECK(m.dims.evaluate(found[1].largest, {{"sequence", 3}}) == 37);
  CHECK(found[1].description.find("room for 40") != std::string::npos);
}
