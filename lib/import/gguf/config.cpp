#include "import/gguf/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "support/text.h"

namespace rlxc::gguf_import {
namespace {

constexpr int64_t kMaxLayers = 4096, kMaxSize = 1 << 24;

constexpr Family kFamilies[] = {
    {.name = "llama", .rope = RopeStyle::GptJ},
    {.name = "qwen2"},
    {.name = "qwen3", .head_norms = true},
    {.name = "phi3", .packed_gate = true},
    {.name = "gemma", .gemma = true},
    {.name = "gemma2", .gemma = true, .post_norms = true, .period = 2, .window = 4096, .wide_layers = 46},
    {.name = "gemma3",
     .gemma = true,
     .post_norms = true,
     .head_norms = true,
     .period = 6,
     .local_base = 10000,
     .wide_layers = 62},
};

class Keys {
 public:
  Keys(const File& f, Diagnostics& d) : file_(f), diagnostics_(d) {}

  bool ok() const { return ok_; }
  void within(std::string_view architecture) { prefix_ = std::string(architecture) + "."; }
  bool has(std::string_view name) { return find(name) != nullptr; }
  bool is_list(std::string_view name) {
    const Value* v = find(name);
    return v && v->list;
  }

  std::optional<std::string> text(std::string_view name) {
    const Value* v = find(name);
    if (!v) return std::nullopt;
    ElementReader r(*v);
    if (v->list || v->type != ValueType::String || !r.next()) return wrong<std::string>(name, "needs a text");
    return std::string(r.text());
  }

  // Between `least` and `most`. Without the key: `otherwise`; if there is none, the key is required.
  int64_t integer(std::string_view name, int64_t least, int64_t most, std::optional<int64_t> otherwise = {}) {
    const Value* v = find(name);
    if (!v) {
      if (!otherwise) wrong<int64_t>(name, "is missing");
      return otherwise.value_or(least);
    }
    ElementReader r(*v);
    const auto n = !v->list && r.next() ? r.integer() : std::nullopt;
    return checked(name, n, least, most);
  }

  // One integer for each layer: a list, or a number for all.
  std::vector<int64_t> by_layer(std::string_view name, int64_t layers, int64_t least, int64_t most,
                                std::optional<int64_t> otherwise = {}) {
    const Value* v = find(name);
    if (!v || !v->list) return std::vector<int64_t>(static_cast<size_t>(layers), integer(name, least, most, otherwise));
    std::vector<int64_t> all;
    for (ElementReader r(*v); all.size() <= static_cast<size_t>(layers) && r.next();)
      all.push_back(checked(name, r.integer(), least, most));
    if (static_cast<int64_t>(v->count) != layers) wrong<int64_t>(name, "needs an element for each of the layers");
    all.resize(static_cast<size_t>(layers));
    return all;
  }

  double number(std::string_view name, double otherwise) {
    const Value* v = find(name);
    if (!v) return otherwise;
    ElementReader r(*v);
    const auto n = !v->list && r.next() ? r.number() : std::nullopt;
    return n && std::isfinite(*n) ? *n : wrong<double>(name, "needs a finite number").value_or(otherwise);
  }

  // Reports keys of the architecture that nothing asked for: they may change what the model computes.
  void refuse_unknown() {
    for (const auto& [key, value] : file_.metadata())
      if (key.starts_with(prefix_) && !asked_.contains(key))
        wrong<int64_t>(std::string_view(key).substr(prefix_.size()), "is not known, and may change the result",
                       Code::UnsupportedAttribute);
  }

  template <class T>
  std::optional<T> wrong(std::string_view name, const std::string& message, Code code = Code::BadAttribute) {
    diagnostics_.error(code, "key " + quote(prefix_ + std::string(name)) + " " + message);
    ok_ = false;
    return std::nullopt;
  }

 private:
  const Value* find(std::string_view name) {
    const std::string key = prefix_ + std::string(name);
    asked_.insert(key);
    return file_.find(key);
  }
  int64_t checked(std::string_view name, std::optional<int64_t> n, int64_t least, int64_t most) {
    if (n && *n >= least && *n <= most) return *n;
    wrong<int64_t>(name, "needs an integer between " + std::to_string(least) + " and " + std::to_string(most));
    return least;
  }

  const File& file_;
  Diagnostics& diagnostics_;
  std::string prefix_;
  std::set<std::string, std::less<>> asked_;
  bool ok_ = true;
};

const Family* family_of(Keys& keys, Diagnostics& d) {
  const auto name = keys.text("general.architecture");
  if (!name) {
    if (keys.ok()) d.error(Code::BadAttribute, "key \"general.architecture\" is missing");
    return nullptr;
  }
  for (const Family& f : kFamilies)
    if (f.name == *name) return &f;
  std::vector<std::string> names;
  for (const Family& f : kFamilies) names.emplace_back(f.name);
  d.error(Code::UnsupportedOp, "the architecture " + quote(*name) + " is not supported", {},
          "supported are " + join(names, ", "));
  return nullptr;
}

void read_rotation(Keys& keys, Config* c) {
  Rotation& r = c->rotation;
  const std::string kind = keys.text("rope.scaling.type").value_or("linear");
  r.base = keys.number("rope.freq_base", r.base);
  const double linear = keys.number("rope.scale_linear", 0), factor = keys.number("rope.scaling.factor", linear);
  r.original_context = keys.integer("rope.scaling.original_context_length", 1, int64_t{1} << 40, c->context);
  r.magnitude = keys.number("rope.scaling.attn_factor", 1);
  r.extrapolation = keys.number("rope.scaling.yarn_ext_factor", 1);
  r.beta_fast = keys.number("rope.scaling.yarn_beta_fast", r.beta_fast);
  r.beta_slow = keys.number("rope.scaling.yarn_beta_slow", r.beta_slow);
  keys.has("rope.scaling.finetuned");
  if (kind != "none" && kind != "linear" && kind != "yarn" && kind != "longrope")
    keys.wrong<int64_t>("rope.scaling.type", quote(kind) + " is not supported", Code::UnsupportedAttribute);
  r.yarn = kind == "yarn";
  if (factor != 0 && kind != "none") r.scale = 1 / factor;
  if (r.base <= 1 || !(r.scale > 0) || !std::isfinite(r.scale) || (r.yarn && (r.beta_fast <= 0 || r.beta_slow <= 0)))
    keys.wrong<int64_t>("rope", "has parameters out of range");
  c->local_rotation = r;
  if (c->family->local_base != 0) c->local_rotation = Rotation{.base = c->family->local_base};
  c->local_rotation.base = keys.number("rope.freq_base_swa", c->local_rotation.base);
  if (c->local_rotation.base <= 1) keys.wrong<int64_t>("rope.freq_base_swa", "is out of range");
}

void read_windows(Keys& keys, Config* c) {
  const Family& f = *c->family;
  c->window = keys.integer("attention.sliding_window", 0, int64_t{1} << 40, f.window);
  const std::vector<int64_t> pattern = keys.by_layer("attention.sliding_window_pattern", c->layers, 0, kMaxLayers, f.period);
  const bool listed = keys.is_list("attention.sliding_window_pattern");
  for (int64_t i = 0; i < c->layers; ++i) {
    const int64_t p = pattern[static_cast<size_t>(i)];
    const bool local = listed ? p != 0 : p <= 1 || i % p < p - 1;
    c->has_window.push_back(c->window > 0 && local);
  }
}

void refuse_experts(Keys& keys) {
  if (keys.integer("expert_count", 0, kMaxSize, 0) > 0)
    keys.wrong<int64_t>("expert_count", "is not 0: mixtures of experts are not supported", Code::UnsupportedAttribute);
}

}  // namespace

std::optional<Config> read_config(const File& file, Diagnostics& d) {
  Keys keys(file, d);
  Config c;
  c.family = family_of(keys, d);
  if (!c.family) return std::nullopt;
  if (keys.has("split.count") && keys.integer("split.count", 0, 65535, 1) > 1) {
    d.error(Code::UnsupportedAttribute, "the model is split over several files", {}, "merge them: llama-gguf-split --merge");
    return std::nullopt;
  }
  keys.within(c.family->name);
  c.layers = keys.integer("block_count", 1, kMaxLayers);
  c.width = keys.integer("embedding_length", 1, kMaxSize);
  c.context = keys.integer("context_length", 1, int64_t{1} << 40);
  if (!keys.ok()) return std::nullopt;
  c.heads = keys.by_layer("attention.head_count", c.layers, 1, kMaxSize);
  c.kv_heads = c.heads;
  if (keys.has("attention.head_count_kv")) c.kv_heads = keys.by_layer("attention.head_count_kv", c.layers, 1, kMaxSize);
  if (!keys.ok()) return std::nullopt;
  for (size_t i = 0; i < c.heads.size(); ++i)
    if (c.heads[i] % c.kv_heads[i] != 0) keys.wrong<int64_t>("attention.head_count", "is not a multiple of the heads of keys");
  c.key_size = keys.integer("attention.key_length", 1, kMaxSize, c.width / c.heads[0]);
  c.value_size = keys.integer("attention.value_length", 1, kMaxSize, c.width / c.heads[0]);
  c.rotated = keys.integer("rope.dimension_count", 2, kMaxSize, c.key_size);
  if (c.rotated % 2 != 0 || c.rotated > c.key_size)
    keys.wrong<int64_t>("rope.dimension_count", "must be even, and at most the size of a head");
  c.epsilon = keys.number("attention.layer_norm_rms_epsilon", -1);
  if (c.epsilon < 0) keys.wrong<int64_t>("attention.layer_norm_rms_epsilon", "is missing or negative");
  const bool wide = c.layers == c.family->wide_layers;
  const double size = wide ? static_cast<double>(c.width) / static_cast<double>(c.heads[0]) : static_cast<double>(c.key_size);
  c.scale = keys.number("attention.scale", 0);
  if (c.scale == 0) c.scale = 1 / std::sqrt(size);
  c.softcap = keys.number("attn_logit_softcapping", 0);
  c.final_softcap = keys.number("final_logit_softcapping", 0);
  if (c.scale < 0 || c.softcap < 0 || c.final_softcap < 0)
    keys.wrong<int64_t>("attn_logit_softcapping", "or a scale is negative");
  if (keys.integer("attention.causal", 0, 1, 1) != 1)
    keys.wrong<int64_t>("attention.causal", "must be true", Code::UnsupportedAttribute);
  read_rotation(keys, &c);
  read_windows(keys, &c);
  refuse_experts(keys);
  for (std::string_view implied : {"feed_forward_length", "vocab_size", "expert_used_count", "tensor_data_layout"})
    keys.has(implied);  // the shapes of the tensors tell these, or nothing depends on them
  keys.refuse_unknown();
  return keys.ok() ? std::optional(std::move(c)) : std::nullopt;
}

std::vector<float> frequencies(const Rotation& r, int64_t rotated, const std::vector<double>& factors) {
  // YaRN: the pair that turns `turns` times within the original context.
  const auto pair = [&](double turns) {
    return static_cast<double>(rotated) * std::log(static_cast<double>(r.original_context) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(r.base));
  };
  const double low = std::max(0.0, std::floor(pair(r.beta_fast))),
               high = std::min(static_cast<double>(rotated - 1), std::ceil(pair(r.beta_slow)));
  std::vector<float> all;
  for (int64_t i = 0; i < rotated / 2; ++i) {
    double f = std::pow(r.base, -2 * static_cast<double>(i) / static_cast<double>(rotated));
    if (!factors.empty()) f /= factors[static_cast<size_t>(i)];
    double scale = r.scale;
    if (r.yarn) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
      const double whole = (1 - ramp) * r.extrapolation;
      scale = r.scale * (1 - whole) + whole;
    }
    all.push_back(static_cast<float>(f * scale));
  }
  return all;
}

double magnitude(const Rotation& r) {
  return r.yarn && r.extrapolation != 0 ? r.magnitude * (1 + 0.1 * std::log(1 / r.scale)) : r.magnitude;
}

}  // namespace rlxc::gguf_import
