#include "import/gguf/import.h"

#include <array>
#include <cmath>

#include "import/gguf/config.h"
#include "import/gguf/weights.h"
#include "ir/term.h"
#include "support/text.h"

namespace rlxc::gguf_import {
namespace {

struct Tables {
  ValueId cos, sin;  // [sequence, rotated/2]
};

class Decoder {
 public:
  Decoder(Module& m, const Config& c, const File& f, const std::string& file_name, const ImportOptions& o, Diagnostics& d)
      : c_(c),
        b_(m.main(), &d),
        w_(b_, f, file_name, d),
        diagnostics_(d),
        room_(o.room),
        cache_type_(o.cache_type),
        last_logits_(o.last_logits) {}

  bool build() {
    DimTable& dims = b_.dims();
    batch_ = dims.symbol("batch"), length_ = dims.symbol("sequence"), past_ = room_ > 0 ? Dim(room_) : dims.symbol("past");
    const ValueId tokens = b_.input("input_ids", tensor_type(DType::I64, {batch_, length_}));
    past_count_ = room_ > 0 ? b_.input("past_length", tensor_type(DType::I64, {})) : count(past_);
    positions_ = b_.add(transform::count_up(b_, length_).v, past_count_);
    ValueId x = w_.rows("token_embd.weight", tokens, c_.width);
    if (c_.family->gemma && x.valid()) x = b_.mul(x, real(std::sqrt(static_cast<double>(c_.width))));
    global_ = tables(c_.rotation);
    local_ = tables(c_.local_rotation);
    for (size_t i = 0; i < static_cast<size_t>(c_.layers) && x.valid(); ++i) x = layer(i, x);
    if (last_logits_ && x.valid()) x = b_.narrow(x, 1, b_.dims().sub(length_, Dim(1)), Dim(1));
    x = norm(x, "output_norm", c_.width);
    const bool tied = !w_.has("output.weight");
    ValueId logits = w_.product(x, tied ? "token_embd" : "output", c_.width, w_.size("token_embd.weight", 1));
    if (c_.final_softcap > 0) logits = capped(logits);
    if (!logits.valid() || !diagnostics_.ok() || !w_.all_used()) return false;
    b_.graph().add_output(logits, b_.module().symbol("logits"));
    for (const auto& [name, v] : present_) b_.graph().add_output(v, b_.module().symbol(name));
    return true;
  }

 private:
  ValueId real(double v) { return b_.scalar(DType::F32, v); }
  ValueId count(Dim d) { return b_.create(OpKind::DimValue, {}, DimsAttrs{{d}, true}); }
  void at(const std::string& name) { b_.set_node_name(b_.module().symbol(name)); }

  ValueId norm(ValueId x, const std::string& name, int64_t size) {
    const ValueId gamma = w_.vector(name + ".weight", size);
    if (!x.valid() || !gamma.valid()) return {};
    at(name);
    return b_.create(OpKind::RmsNorm, {x, gamma}, NormAttrs{b_.graph().rank(x) - 1, c_.epsilon});
  }

  ValueId capped(ValueId x) {
    at("logit_softcap");
    return x.valid() ? b_.mul(b_.unary(OpKind::Tanh, b_.div(x, real(c_.final_softcap))), real(c_.final_softcap)) : x;
  }

  ValueId frequency(const Rotation& r, const std::vector<double>& factors) {
    const std::vector<float> f = frequencies(r, c_.rotated, factors);
    return b_.constant(make_data(DType::F32, {static_cast<int64_t>(f.size())}, f));
  }

  // Cosines and sines of the positions past..past+sequence-1.
  Tables tables(const Rotation& r) {
    const int64_t half = c_.rotated / 2;
    const std::vector<double> factors = w_.numbers("rope_freqs.weight", half), far = w_.numbers("rope_factors_long.weight", half),
                              near = w_.numbers("rope_factors_short.weight", half);
    if (!diagnostics_.ok()) return {};
    if (far.empty() != near.empty()) {
      diagnostics_.error(Code::BadTensor, "the factors of long and short contexts go together");
      return {};
    }
    at("rope");
    ValueId f = frequency(r, near.empty() ? factors : near);
    if (!far.empty()) {  // by the number of keys of the run
      const ValueId keys = b_.add(past_count_, count(length_)),
                    beyond = b_.create(OpKind::Gt, {keys, b_.scalar(DType::I64, static_cast<double>(r.original_context))});
      f = b_.create(OpKind::Where, {beyond, frequency(r, far), f});
    }
    const ValueId angle = b_.mul(b_.reshape(b_.cast(positions_, DType::F32), {length_, Dim(1)}), f);
    Tables t{b_.unary(OpKind::Cos, angle), b_.unary(OpKind::Sin, angle)};
    if (const double m = magnitude(r); m != 1) t = {b_.mul(t.cos, real(m)), b_.mul(t.sin, real(m))};
    return t;
  }

  // [batch, sequence, heads*size] -> [batch, heads, sequence, size].
  ValueId heads_first(ValueId x, int64_t heads, int64_t size) {
    return x.valid() ? b_.transpose(b_.reshape(x, {batch_, length_, Dim(heads), Dim(size)}), {0, 2, 1, 3}) : x;
  }

  ValueId rotated(ValueId x, const Tables& t) {
    if (!x.valid() || !t.cos.valid()) return {};
    RopeAttrs a;
    a.n_rot = c_.rotated;
    a.style = c_.family->rope;
    return b_.create(OpKind::Rope, {x, t.cos, t.sin}, a);
  }

  // Appends the keys or values of the run to those of earlier tokens, or writes them behind these. Returns all in f32.
  ValueId with_past(ValueId x, size_t layer, std::string_view which, int64_t heads, int64_t size) {
    const std::string name = std::to_string(layer) + "." + std::string(which);
    const ValueId past = b_.input("past_key_values." + name, tensor_type(cache_type_, {batch_, Dim(heads), past_, Dim(size)}));
    if (!x.valid()) return {};
    x = b_.cast(x, cache_type_);
    const std::vector<Dim> fresh{batch_, Dim(heads), length_, Dim(size)};
    const auto place = [&] { return b_.expand(b_.reshape(positions_, {Dim(1), Dim(1), length_, Dim(1)}), fresh); };
    const ValueId all =
        room_ > 0 ? b_.create(OpKind::ScatterElements, {past, place(), x}, ScatterAttrs{2}) : b_.concat(std::array{past, x}, 2);
    present_.emplace_back("present." + name, all);
    return b_.cast(all, DType::F32);
  }

  std::array<ValueId, 3> projections(const std::string& layer, ValueId x, int64_t heads, int64_t kv_heads) {
    const int64_t q = heads * c_.key_size, k = kv_heads * c_.key_size, v = kv_heads * c_.value_size;
    if (!w_.has(layer + "attn_qkv.weight"))
      return {w_.product(x, layer + "attn_q", c_.width, q), w_.product(x, layer + "attn_k", c_.width, k),
              w_.product(x, layer + "attn_v", c_.width, v)};
    const ValueId all = w_.product(x, layer + "attn_qkv", c_.width, q + k + v);
    if (!all.valid()) return {};
    return {b_.narrow(all, 2, Dim(0), Dim(q)), b_.narrow(all, 2, Dim(q), Dim(k)), b_.narrow(all, 2, Dim(q + k), Dim(v))};
  }

  // Which keys of the room each query of the run sees: [sequence, room].
  ValueId mask(bool has_window) {
    ValueId& known = has_window ? window_mask_ : causal_mask_;
    if (known.valid()) return known;
    const ValueId key = transform::count_up(b_, Dim(room_)).v, query = b_.reshape(positions_, {length_, Dim(1)});
    known = b_.create(OpKind::Le, {key, query});
    if (!has_window) return known;
    const ValueId distance = b_.scalar(DType::I64, static_cast<double>(c_.window));
    return known = b_.create(OpKind::And, {known, b_.create(OpKind::Lt, {query, b_.add(key, distance)})});
  }

  ValueId attention(size_t i, const std::string& layer, ValueId x) {
    const int64_t heads = c_.heads[i], kv_heads = c_.kv_heads[i];
    std::array<ValueId, 3> p = projections(layer, x, heads, kv_heads);
    ValueId q = heads_first(p[0], heads, c_.key_size), k = heads_first(p[1], kv_heads, c_.key_size),
            v = heads_first(p[2], kv_heads, c_.value_size);
    if (c_.family->head_norms) {
      q = norm(q, layer + "attn_q_norm", c_.key_size);
      k = norm(k, layer + "attn_k_norm", c_.key_size);
    }
    at(layer + "attention");
    const Tables& t = c_.has_window[i] ? local_ : global_;
    q = rotated(q, t);
    k = with_past(rotated(k, t), i, "key", kv_heads, c_.key_size);
    v = with_past(v, i, "value", kv_heads, c_.value_size);
    AttentionAttrs a;
    std::vector<ValueId> operands{q, k, v};
    if (room_ > 0) {
      a.mask = MaskKind::Custom;
      operands.push_back(mask(c_.has_window[i]));
    } else {
      a.mask = c_.has_window[i] ? MaskKind::SlidingWindow : MaskKind::Causal;
      if (c_.has_window[i]) a.window = c_.window - 1;  // without the query's own key
    }
    a.scale = c_.scale;
    a.softcap = c_.softcap;
    const ValueId y = q.valid() && k.valid() && v.valid() ? b_.create(OpKind::Attention, operands, a) : ValueId();
    if (!y.valid()) return {};
    const ValueId joined = b_.reshape(b_.transpose(y, {0, 2, 1, 3}), {batch_, length_, Dim(heads * c_.value_size)});
    return w_.product(joined, layer + "attn_output", heads * c_.value_size, c_.width);
  }

  ValueId feed_forward(const std::string& layer, ValueId x) {
    const bool packed = c_.family->packed_gate;
    const int64_t rows = w_.size(layer + "ffn_up.weight", 1), hidden = packed ? rows / 2 : rows;
    ValueId up = w_.product(x, layer + "ffn_up", c_.width, packed ? 2 * hidden : hidden), gate;
    if (!packed) {
      gate = w_.product(x, layer + "ffn_gate", c_.width, hidden);
    } else if (up.valid()) {
      gate = b_.narrow(up, 2, Dim(0), Dim(hidden));
      up = b_.narrow(up, 2, Dim(hidden), Dim(hidden));
    }
    if (!up.valid() || !gate.valid()) return {};
    at(layer + "ffn");
    const ValueId y = b_.mul(b_.unary(c_.family->gemma ? OpKind::GeluApprox : OpKind::Silu, gate), up);
    return w_.product(y, layer + "ffn_down", hidden, c_.width);
  }

  ValueId added(ValueId x, ValueId y, const std::string& layer, std::string_view post_norm) {
    if (c_.family->post_norms) y = norm(y, layer + std::string(post_norm), c_.width);
    return x.valid() && y.valid() ? b_.add(x, y) : ValueId();
  }

  ValueId layer(size_t i, ValueId x) {
    const std::string name = "blk." + std::to_string(i) + ".";
    x = added(x, attention(i, name, norm(x, name + "attn_norm", c_.width)), name, "post_attention_norm");
    return added(x, feed_forward(name, norm(x, name + "ffn_norm", c_.width)), name, "post_ffw_norm");
  }

  const Config& c_;
  Builder b_;
  Weights w_;
  Diagnostics& diagnostics_;
  const int64_t room_;  // of the cache; 0: it grows
  const DType cache_type_;
  const bool last_logits_;
  Dim batch_, length_, past_;
  ValueId past_count_, positions_, causal_mask_, window_mask_;
  Tables global_, local_;
  std::vector<std::pair<std::string, ValueId>> present_;
};

}  // namespace

std::unique_ptr<Module> import_gguf(const File& file, const std::string& file_name, const ImportOptions& o, Diagnostics& d) {
  const auto config = read_config(file, d);
  if (!config) return nullptr;
  std::string name;
  if (const Value* v = file.find("general.name"); v && !v->list && v->type == ValueType::String)
    if (ElementReader r(*v); r.next()) name = r.text();
  auto m = std::make_unique<Module>(name);
  m->stage = Stage::Hir;
  return Decoder(*m, *config, file, file_name, o, d).build() ? std::move(m) : nullptr;
}

std::vector<std::pair<std::string, std::string>> cache_states(const Module& m) {
  constexpr std::string_view kPast = "past_key_values.";
  std::vector<std::pair<std::string, std::string>> states;
  for (NodeId n : m.main().inputs())
    if (const std::string name = m.main().label(n).bytes(); name.starts_with(kPast))
      states.emplace_back(name, "present." + name.substr(kPast.size()));
  return states;
}

std::vector<IndexInput> index_inputs(Module& m, const File& f) {
  const Graph& g = m.main();
  const auto find = [&](std::string_view name) -> std::optional<uint32_t> {
    for (uint32_t i = 0; i < g.inputs().size(); ++i)
      if (m.bytes(g.value_name(g.result(g.inputs()[i]))) == name) return i;
    return std::nullopt;
  };
  // Axes are counted from the last.
  const auto size = [&](uint32_t input, size_t axis) -> std::optional<Dim> {
    const auto dims = g.dims(g.result(g.inputs()[input]));
    return axis < dims.size() ? std::optional(dims[dims.size() - 1 - axis]) : std::nullopt;
  };
  std::vector<IndexInput> found;
  const auto tokens = find("input_ids"), past = find("past_length"), keys = find("past_key_values.0.key");
  const auto embedding = f.tensors().find("token_embd.weight");
  if (tokens && embedding != f.tensors().end() && embedding->second.dims.size() == 2) {
    const int64_t vocabulary = embedding->second.dims[0];
    found.push_back({*tokens, m.dims.constant(vocabulary - 1), "tokens of a vocabulary of " + std::to_string(vocabulary)});
  }
  if (const auto length = tokens ? size(*tokens, 0) : std::nullopt, room = keys ? size(*keys, 1) : std::nullopt;
      past && length && room)
    found.push_back(
        {*past, m.dims.sub(*room, *length), "the number of tokens in the cache, which has room for " + m.dims.text(*room)});
  return found;
}

}  // namespace rlxc::gguf_import
