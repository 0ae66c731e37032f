#include "import/gguf/weights.h"

#include <cmath>

#include "support/text.h"

namespace rlxc::gguf_import {

int64_t Weights::size(const std::string& name, size_t axis) const {
  const auto t = file_.tensors().find(name);
  if (t == file_.tensors().end() || axis >= t->second.dims.size()) return 0;
  return t->second.dims[t->second.dims.size() - 1 - axis];
}

const Tensor* Weights::find(const std::string& name, const std::vector<int64_t>& dims) {
  const auto at = file_.tensors().find(name);
  if (at == file_.tensors().end()) {
    diagnostics_.error(Code::BadTensor, "tensor " + quote(name) + " is missing");
    return nullptr;
  }
  used_.insert(name);
  const Tensor& t = at->second;
  bool fits = t.dims.size() == dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i] < 0 || dims[i] == t.dims[i];
  if (fits) return &t;
  const auto shown = [](const std::vector<int64_t>& sizes) {
    std::vector<std::string> words;
    for (int64_t s : sizes) words.push_back(s < 0 ? "?" : std::to_string(s));
    return "[" + join(words, ",") + "]";
  };
  diagnostics_.error(Code::BadShape, "has the shape " + shown(t.dims) + ", the model needs " + shown(dims),
                     "tensor " + quote(name));
  return nullptr;
}

ValueId Weights::parameter(const Tensor& t) {
  ValueId& v = parameters_[t.name];
  if (v.valid()) return v;
  TensorData data;
  data.dims = t.dims;
  data.dtype = t.storage.dtype;
  if (t.storage.block) {
    data.dtype = DType::U8;
    data.dims.back() = t.dims.back() / block_elements(*t.storage.block) * block_bytes(*t.storage.block);
  }
  data.bytes = t.bytes;
  data.owner = file_.mapped();
  data.file = file_name_;
  data.offset = t.offset;
  const std::vector<Dim> dims(data.dims.begin(), data.dims.end());
  const DType dtype = data.dtype;
  return v = b_.param(t.name, tensor_type(dtype, dims), b_.module().data.add(std::move(data)));
}

ValueId Weights::as_real(const Tensor& t) { return b_.cast(parameter(t), DType::F32); }

ValueId Weights::vector(const std::string& name, int64_t size) {
  const Tensor* t = find(name, {size});
  if (!t) return {};
  if (!t->storage.block && is_float(t->storage.dtype)) return as_real(*t);
  diagnostics_.error(Code::BadType, "must hold floats", "tensor " + quote(name));
  return {};
}

std::vector<double> Weights::numbers(const std::string& name, int64_t size) {
  std::vector<double> out;
  if (!has(name)) return out;
  const Tensor* t = find(name, {size});
  if (!t) return out;
  if (t->storage.block || t->storage.dtype != DType::F32) {
    diagnostics_.error(Code::BadType, "must hold f32", "tensor " + quote(name));
    return out;
  }
  TensorData data;
  data.dims = t->dims;
  data.bytes = t->bytes;
  for (int64_t i = 0; i < size; ++i) {
    out.push_back(element_as_double(data, i));
    if (std::isfinite(out.back()) && out.back() != 0) continue;
    diagnostics_.error(Code::BadTensor, "must hold finite factors other than 0", "tensor " + quote(name));
    break;
  }
  return out;
}

// Codes [out, in] of at most 8 bits, scales and minima [out, in / run]. They are computed at load time.
compose::BlockParts Weights::parts(const Tensor& t) {
  compose::BlockParts& p = parts_[t.name];
  if (p.codes.valid()) return p;
  const BlockFormat f = *t.storage.block;
  const Dim blocks(t.dims[0] * (t.dims[1] / block_elements(f)));
  p = compose::split_blocks(b_, f, b_.reshape(parameter(t), {blocks, Dim(block_bytes(f))}));
  const Dim rows(t.dims[0]), runs(t.dims[1] / p.run);
  p.codes = b_.reshape(b_.cast(p.codes, p.narrow), {rows, Dim(t.dims[1])});
  p.scale = b_.reshape(p.scale, {rows, runs});
  if (p.minimum.valid()) p.minimum = b_.reshape(p.minimum, {rows, runs});
  return p;
}

ValueId Weights::product(ValueId x, const std::string& name, int64_t in, int64_t out) {
  const Tensor* t = find(name + ".weight", {out, in});
  if (!t || !x.valid()) return {};
  ValueId bias;
  if (has(name + ".bias") && !(bias = vector(name + ".bias", out)).valid()) return {};
  b_.set_node_name(b_.module().symbol(name));
  if (!t->storage.block) {
    if (is_float(t->storage.dtype))
      return b_.create(OpKind::Linear, {x, as_real(*t), bias}, FusedMatMulAttrs{.trans_a = false, .trans_b = true, .act = {}});
    diagnostics_.error(Code::BadType, "must hold floats or quantized blocks", "tensor " + quote(t->name));
    return {};
  }
  const compose::BlockParts p = parts(*t);
  const ValueId y = b_.create(OpKind::DequantMatMul, {x, p.codes, p.scale, ValueId(), bias},
                              DequantMatMulAttrs{.trans_b = true, .block = p.run, .act = {}});
  if (!p.minimum.valid() || !y.valid()) return y;
  // Minima are the same for a run: they meet the sums of runs of x.
  std::vector<Dim> split(b_.graph().dims(x).begin(), b_.graph().dims(x).end());
  split.back() = Dim(in / p.run);
  split.emplace_back(p.run);
  const auto last = static_cast<int64_t>(split.size()) - 1;
  const ValueId sums = b_.reduce(ReduceOp::Sum, b_.reshape(x, split), {last}, false);
  return b_.sub(y, b_.matmul(sums, p.minimum, false, true));
}

ValueId Weights::rows(const std::string& name, ValueId at, int64_t width) {
  const Tensor* t = find(name, {-1, width});
  if (!t || !at.valid()) return {};
  b_.set_node_name(b_.module().symbol(name));
  const ValueId found = b_.create(OpKind::Gather, {parameter(*t), at}, AxisAttrs{0});
  if (!t->storage.block) return b_.cast(found, DType::F32);
  const BlockFormat f = *t->storage.block;
  std::vector<Dim> dims(b_.graph().dims(at).begin(), b_.graph().dims(at).end());
  const Dim blocks = b_.dims().mul(b_.dims().product(dims), Dim(width / block_elements(f)));
  dims.emplace_back(width);
  return b_.reshape(compose::decode_blocks(b_, f, b_.reshape(found, {blocks, Dim(block_bytes(f))})), dims);
}

bool Weights::all_used() {
  for (const auto& [name, t] : file_.tensors()) {
    if (used_.contains(name)) continue;
    diagnostics_.error(Code::UnsupportedAttribute, "is not one of the architecture, and may change the result",
                       "tensor " + quote(name));
    return false;
  }
  return true;
}

}  // namespace rlxc::gguf_import
