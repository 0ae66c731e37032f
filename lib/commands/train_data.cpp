#include "commands/train_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "ir/bind_dims.h"
#include "runtime/npy.h"
#include "support/text.h"

namespace rlxc {
namespace {

bool is_number(DType t) { return is_float(t) || is_integer(t) || t == DType::Bool; }

class Reader {
 public:
  Reader(const Module& m, const transform::Training& t, Diagnostics& d) : m_(m), t_(t), d_(d) {
    const size_t count = t.model_inputs + (t.target.empty() ? 0 : 1);
    samples_.inputs.resize(count);
    given_.resize(count);
  }

  std::optional<Samples> run(const std::vector<std::string>& data, const std::vector<std::string>& labels) {
    for (const std::string& word : data) read(word, false);
    for (const std::string& word : labels) read(word, true);
    for (size_t i = 0; d_.ok() && i < given_.size(); ++i)
      if (!given_[i])
        d_.error(Code::BadFlag, "no array is given for the input " + quote(name(i)), {},
                 i < t_.model_inputs ? "--data " + name(i) + "=FILE.npy" : "--labels FILE.npy");
    return d_.ok() && sizes_fit() ? std::optional(std::move(samples_)) : std::nullopt;
  }

 private:
  const Graph& g() const { return m_.main(); }
  std::string name(size_t i) const { return std::string(m_.bytes(g().value_name(g().result(g().inputs()[i])))); }
  size_t input_named(std::string_view wanted) const {
    size_t i = 0;
    while (i < given_.size() && name(i) != wanted) ++i;
    return i;
  }

  // The array of a .npy file has no name.
  std::optional<NamedArrays> arrays_of(const std::string& path) {
    if (path.ends_with(".npz")) return read_npz(path, d_);
    auto array = read_npy(path, d_);
    if (!array) return std::nullopt;
    NamedArrays out;
    out.emplace_back("", std::move(*array));
    return out;
  }

  void read(const std::string& word, bool label) {
    const size_t equals = word.find('=');
    const size_t named = equals == word.npos ? given_.size() : input_named(word.substr(0, equals));
    const std::string path = named < given_.size() ? word.substr(equals + 1) : word;
    if (equals != word.npos && named == given_.size() && !std::filesystem::exists(path)) {
      std::string known;
      for (size_t i = 0; i < given_.size(); ++i) known += (i ? ", " : "") + quote(name(i));
      d_.error(Code::UnknownName, "--data names " + quote(word.substr(0, equals)) + ", which is no input", {},
               "inputs: " + known);
      return;
    }
    auto arrays = arrays_of(path);
    if (!arrays) return;
    if (label && t_.target.empty()) {
      d_.error(Code::BadFlag, "--labels: the loss of this model compares with none");
      return;
    }
    for (auto& [array_name, data] : *arrays) {
      size_t i = named;
      if (i == given_.size()) i = label ? t_.model_inputs : array_name.empty() ? next_free() : input_named(array_name);
      if (i >= given_.size() && !array_name.empty()) continue;  // an archive may hold more
      if (i >= given_.size()) d_.error(Code::BadFlag, "the model has no input left for the array", "\"" + path + "\"");
      else take(i, std::move(data), path);
    }
  }
  size_t next_free() const {
    size_t i = 0;
    while (i < t_.model_inputs && given_[i]) ++i;
    return i < t_.model_inputs ? i : given_.size();
  }

  void take(size_t i, TensorData data, const std::string& path) {
    const Type& type = g().type(g().result(g().inputs()[i]));
    const std::string place = "\"" + path + "\"";
    const auto refuse = [&](const std::string& why) {
      d_.error(Code::BadShape, why + ", the input " + quote(name(i)) + " is " + text(type, m_.dims), place);
    };
    if (type.kind != TypeKind::Tensor || !is_number(type.dtype) || !is_number(data.dtype))
      return refuse("the elements are " + std::string(rlxc::name(data.dtype)));
    if (is_integer(type.dtype) && is_float(data.dtype)) return refuse("the elements are floats");
    if (data.dims.empty() || data.dims.size() != type.dims.size())
      return refuse("the array has " + std::to_string(data.dims.size()) + " axes");
    for (size_t k = 1; k < data.dims.size(); ++k)
      if (const auto size = m_.dims.constant_value(type.dims[k]); size && *size != data.dims[k])
        return refuse("axis " + std::to_string(k) + " has size " + std::to_string(data.dims[k]));
    if (samples_.count != 0 && data.dims[0] != samples_.count)
      return refuse("there are " + std::to_string(data.dims[0]) + " samples, before there were " +
                    std::to_string(samples_.count));
    if (data.dims[0] == 0) return refuse("there are no samples");
    if (data.elements() == 0) return refuse("the samples are empty");
    samples_.count = data.dims[0];
    samples_.inputs[i] = converted(data, type.dtype);
    given_[i] = true;
    if (i == t_.model_inputs && t_.loss == "cross-entropy") check_labels(samples_.inputs[i], place);
    else if (is_float(type.dtype)) check_numbers(i, place);
  }

  // Where an element lies, as "sample 3" or "sample 3, element [1, 0]".
  static std::string place_of(const TensorData& data, int64_t at) {
    int64_t row = data.elements() / data.dims[0];
    std::string s = "sample " + std::to_string(at / row), inner;
    for (size_t k = 1; k < data.dims.size(); ++k) {
      at %= row;
      row /= data.dims[k];
      inner += (k > 1 ? ", " : "") + std::to_string(at / row);
    }
    return inner.empty() ? s : s + ", element [" + inner + "]";
  }

  void check_labels(const TensorData& labels, const std::string& place) {
    int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min(), wrong = -1, count = 0;
    for (int64_t k = 0; k < labels.elements(); ++k) {
      const int64_t label = element_as_int(labels, k);
      if (label == transform::kIgnoredLabel) continue;
      ++count;
      least = std::min(least, label);
      most = std::max(most, label);
      if (wrong < 0 && (label < 0 || (t_.classes > 0 && label >= t_.classes))) wrong = k;
    }
    const std::string ignored = std::to_string(transform::kIgnoredLabel);
    if (count == 0) d_.error(Code::BadTensor, "every label is " + ignored + ", which leaves its sample out", place);
    if (wrong < 0) return;
    std::string range = "from 0 on";
    if (t_.classes > 0) range = "0 to " + std::to_string(t_.classes - 1);
    d_.error(Code::BadTensor,
             "the label of " + place_of(labels, wrong) + " is " + std::to_string(element_as_int(labels, wrong)) +
                 ": classes are " + range + ", and " + ignored + " leaves a sample out",
             place, least == 1 && most == t_.classes ? "the labels count from 1: subtract 1" : "");
  }

  void check_numbers(size_t i, const std::string& place) {
    const TensorData& data = samples_.inputs[i];
    for (int64_t k = 0; k < data.elements(); ++k)
      if (const double v = element_as_double(data, k); !std::isfinite(v))
        return d_.error(Code::BadTensor, place_of(data, k) + " of the input " + quote(name(i)) + " is " + std::to_string(v),
                        place);
  }

  // Sizes that several arrays have in common, or that follow from others.
  bool sizes_fit() {
    std::vector<KnownSize> known;
    for (size_t i = 0; i < given_.size(); ++i) add_sizes(g().type(g().result(g().inputs()[i])), samples_.inputs[i].dims, &known);
    DimBindings bound;
    solve_dims(m_.dims, known, &bound);
    for (size_t i = 0; i < given_.size(); ++i) {
      const Type& type = g().type(g().result(g().inputs()[i]));
      for (size_t k = 1; k < type.dims.size(); ++k)
        if (const auto size = m_.dims.evaluate(type.dims[k], bound); size && *size != samples_.inputs[i].dims[k])
          d_.error(Code::BadShape, "axis " + std::to_string(k) + " of the samples of " + quote(name(i)) + " has size " +
                                       std::to_string(samples_.inputs[i].dims[k]) + ", and " + m_.dims.text(type.dims[k]) +
                                       " is " + std::to_string(*size) + " of other samples");
    }
    return d_.ok();
  }

  const Module& m_;
  const transform::Training& t_;
  Diagnostics& d_;
  Samples samples_;
  std::vector<bool> given_;
};

// SplitMix64 (Steele, Lea and Flood).
uint64_t next_random(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

TensorData converted(const TensorData& d, DType to) {
  if (d.dtype == to) return d;
  std::vector<std::byte> bytes;
  const int64_t n = d.elements();
  for (int64_t i = 0; i < n; ++i) {
    const auto one = element_bytes(to, element_as_double(d, i));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return make_data(to, d.dims, bytes);
}

std::optional<Samples> read_samples(const Module& step, const transform::Training& t, const std::vector<std::string>& data,
                                    const std::vector<std::string>& labels, Diagnostics& d) {
  return Reader(step, t, d).run(data, labels);
}

void gather(const Samples& s, size_t input, std::span<const int64_t> order, std::byte* to) {
  const uint64_t row = s.row_bytes(input);
  const std::byte* from = s.inputs[input].bytes.data();
  for (size_t i = 0; row > 0 && i < order.size(); ++i)
    std::memcpy(to + i * row, from + static_cast<uint64_t>(order[i]) * row, row);
}

std::vector<int64_t> shuffled(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(&seed) % i]);
  return order;
}

}  // namespace rlxc
