#include "support/onnx_model.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/verify.h"
#include "support/temp_dir.h"

namespace rlxc::test {
namespace {

std::string tensor(const eval::HostValue& v) {
  const TensorData& t = v.tensor;
  std::string out = field(2, static_cast<int64_t>(onnx_dtype(t.dtype)));
  for (int64_t d : t.dims) out += field(1, d);
  std::string raw;
  for (size_t n = static_cast<size_t>(t.size_bytes()); raw.size() < n;)
    raw.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  return out + field(9, raw);
}

void keep(const std::filesystem::path& folder, const std::string& model, const std::vector<eval::HostValue>& inputs,
          const std::vector<eval::HostValue>& outputs) {
  static int count = 0;
  const auto at = folder / ("test_import_" + std::to_string(count++));
  std::filesystem::create_directories(at / "test_data_set_0");
  std::ofstream(at / "model.onnx", std::ios::binary) << model;
  for (const auto& [stem, values] : {std::pair("input_", &inputs), std::pair("output_", &outputs)})
    for (size_t i = 0; i < values->size(); ++i)
      std::ofstream(at / "test_data_set_0" / (stem + std::to_string(i) + ".pb"), std::ios::binary) << tensor((*values)[i]);
}

}  // namespace

std::string varint(uint64_t v) {
  std::string out;
  for (; v > 127; v >>= 7) out += static_cast<char>(v | 128);
  return out += static_cast<char>(v);
}
std::string field(int number, std::string_view body) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(body.size()) + std::string(body);
}
std::string field(int number, int64_t v) { return varint(static_cast<uint64_t>(number) << 3) + varint(static_cast<uint64_t>(v)); }

std::string fixed32(int number, float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  std::string out = varint(static_cast<uint64_t>(number) << 3 | 5);
  for (int i = 0; i < 4; ++i) out += static_cast<char>(bits >> (8 * i));
  return out;
}

std::string attribute(std::string_view name, int64_t v) { return field(1, name) + field(3, v) + field(20, 2); }
std::string attribute(std::string_view name, int v) { return attribute(name, static_cast<int64_t>(v)); }
std::string attribute(std::string_view name, double v) {
  return field(1, name) + fixed32(2, static_cast<float>(v)) + field(20, 1);
}
std::string attribute(std::string_view name, const char* v) {
  return field(1, name) + field(4, std::string_view(v)) + field(20, 3);
}
std::string attribute(std::string_view name, const std::vector<int64_t>& v) {
  std::string out = field(1, name) + field(20, 7);
  for (int64_t i : v) out += field(8, i);
  return out;
}
std::string attribute(std::string_view name, const std::vector<double>& v) {
  std::string out = field(1, name) + field(20, 6);
  for (double f : v) out += fixed32(7, static_cast<float>(f));
  return out;
}
std::string attribute(std::string_view name, const std::vector<std::string>& v) {
  std::string out = field(1, name) + field(20, 8);
  for (const std::string& s : v) out += field(9, s);
  return out;
}
std::string graph_attribute(std::string_view name, std::string_view graph) {
  return field(1, name) + field(6, graph) + field(20, 5);
}

std::string node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::vector<std::string>& attributes, std::string_view domain) {
  std::string out;
  for (const std::string& s : inputs) out += field(1, s);
  for (const std::string& s : outputs) out += field(2, s);
  out += field(4, op);
  for (const std::string& s : attributes) out += field(5, s);
  return domain.empty() ? out : out + field(7, domain);
}

std::string value_info(std::string_view name, DType t, const std::vector<int64_t>& dims) {
  std::string shape;
  for (int64_t d : dims) shape += field(1, field(1, d));
  return field(1, name) + field(2, field(1, field(1, static_cast<int64_t>(onnx_dtype(t))) + field(2, shape)));
}

void OnnxModel::input(std::string_view name, DType t, std::vector<int64_t> dims, const std::vector<double>& values) {
  graph_ += field(11, value_info(name, t, dims));
  inputs_.push_back(eval::tensor_of(t, std::move(dims), values));
}

std::unique_ptr<Module> OnnxModel::load(Diagnostics& d, const onnx_import::ImportOptions& options) const {
  TempDir dir;
  const std::string path = dir.path() + "/model.onnx";
  std::ofstream(path, std::ios::binary) << bytes();
  return onnx_import::import_onnx(path, options, d);
}

std::vector<std::vector<double>> OnnxModel::run() const {
  Diagnostics d;
  const auto m = load(d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK_MESSAGE(verify(*m, d), d.text());
  const auto results = eval::evaluate(*m, inputs_, d);
  REQUIRE_MESSAGE(results, d.text());
  if (const char* folder = std::getenv("RLXC_KEEP_CASES")) keep(folder, bytes(), inputs_, *results);
  std::vector<std::vector<double>> out;
  for (const auto& r : *results) out.push_back(eval::numbers(r));
  return out;
}

std::vector<double> some(size_t n, uint64_t seed) {
  std::vector<double> out(n);
  for (double& v : out) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<float>(static_cast<double>(seed >> 40) / (1 << 23) - 1);
  }
  return out;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    CHECK_MESSAGE(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])), "element ", i, ": ", a[i], " and ", b[i]);
}

}  // namespace rlxc::test
