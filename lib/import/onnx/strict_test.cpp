// Contradictory models are rejected, or a warning says how they were interpreted.
#include <doctest/doctest.h>

#include <fstream>

#include "ir/verify.h"
#include "support/hash.h"
#include "support/onnx_model.h"
#include "support/temp_dir.h"

namespace rlxc {
namespace {

using namespace test;

std::string reference(std::string_view name, std::string_view of) { return field(1, name) + field(20, 1) + field(21, of); }

std::string tensor(std::string_view name, DType t, const std::vector<int64_t>& dims, std::string_view data) {
  std::string out = field(2, static_cast<int64_t>(onnx_dtype(t))) + field(8, name);
  for (int64_t d : dims) out += field(1, d);
  return out + std::string(data);
}

std::string raw(size_t bytes) { return field(9, std::string(bytes, '\1')); }

// y = LeakyRelu(x) with these attributes.
OnnxModel leaky(const std::vector<std::string>& attributes) {
  OnnxModel m(17);
  m.input("x", DType::F32, {3}, some(3, 1));
  m.add(node("LeakyRelu", {"x"}, {"y"}, attributes));
  m.output("y");
  return m;
}

// y = x + w, with this initializer.
OnnxModel sum_with(const std::string& initializer) {
  OnnxModel m(17);
  m.input("x", DType::F32, {2}, some(2, 1));
  m.raw_graph(field(5, initializer));
  m.add(node("Add", {"x", "w"}, {"y"}));
  m.output("y");
  return m;
}

void refused(const OnnxModel& m, Code code, std::string_view words) {
  Diagnostics d;
  CHECK(m.load(d) == nullptr);
  REQUIRE_FALSE(d.items().empty());
  CHECK_MESSAGE(d.items()[0].code == code, d.text());
  CHECK_MESSAGE(d.text().find(words) != std::string::npos, d.text());
}

}  // namespace

TEST_CASE("of several opsets of a domain, the highest is meant") {
  // Softmax of opset 11 flattens to two axes, that of opset 13 goes along one.
  OnnxModel m(11);
  m.opset("ai.onnx", 13);
  m.opset("", 12);
  m.input("x", DType::F32, {1, 2, 2}, {0, 0, 0, 0});
  m.add(node("Softmax", {"x"}, {"y"}, {attribute("axis", 1)}));
  m.output("y");
  check_close(m.run()[0], {0.5, 0.5, 0.5, 0.5});
  Diagnostics d;
  CHECK(m.load(d));
  CHECK_MESSAGE(d.text().find("several opsets of \"ai.onnx\": its nodes are those of opset 13") != std::string::npos, d.text());
  OnnxModel same(13);
  same.opset("ai.onnx", 13);
  same.input("x", DType::F32, {2}, {0, 0});
  same.add(node("Relu", {"x"}, {"y"}));
  same.output("y");
  Diagnostics quiet;
  CHECK(same.load(quiet));
  CHECK(quiet.items().empty());
}

TEST_CASE("attributes are given once, and take the value of another one in functions only") {
  check_close(leaky({attribute("alpha", 0.5)}).run()[0], leaky({attribute("alpha", 0.5)}).run()[0]);
  refused(leaky({attribute("alpha", 0.5), attribute("alpha", 0.5)}), Code::BadAttribute, "\"alpha\" is given twice");
  refused(leaky({reference("alpha", "slope")}), Code::BadAttribute, "\"slope\" of a function");
}

TEST_CASE("the data of a tensor are in one field") {
  const std::string floats = fixed32(4, 1) + fixed32(4, 2);
  for (const std::string& good : {floats, raw(8), raw(8) + field(4, ""), field(9, "") + floats}) {
    Diagnostics d;
    CHECK_MESSAGE(sum_with(tensor("w", DType::F32, {2}, good)).load(d), d.text());
  }
  const std::string file = field(13, field(1, "location") + field(2, "w.bin")) + field(14, int64_t{1});
  for (const std::string& bad : {raw(8) + floats, floats + field(7, int64_t{1}), raw(8) + field(6, "text"), raw(8) + file})
    refused(sum_with(tensor("w", DType::F32, {2}, bad)), Code::BadTensor, "more than one field");
}

TEST_CASE("an initializer has the shape of the input that it is the default of") {
  const auto with_input = [](const std::vector<int64_t>& declared) {
    OnnxModel m = sum_with(tensor("w", DType::F32, {2}, raw(8)));
    m.raw_graph(field(11, value_info("w", DType::F32, declared)));
    return m;
  };
  Diagnostics d;
  CHECK(with_input({2}).load(d));
  refused(with_input({3}), Code::BadShape, "input \"w\"");
  refused(with_input({2, 1}), Code::BadShape, "input \"w\"");
}

TEST_CASE("parameters of quantization have the types that ONNX gives them") {
  const auto model = [](const char* op, DType x, DType scale, DType zero) {
    OnnxModel m(21);
    m.input("x", x, {2}, {1, 2});
    m.input("s", scale, {}, {1});
    m.input("z", zero, {}, {0});
    m.add(node(op, {"x", "s", "z"}, {"y"}));
    m.output("y");
    return m;
  };
  Diagnostics d;
  CHECK_MESSAGE(model("DequantizeLinear", DType::I8, DType::F32, DType::I8).load(d), d.text());
  CHECK_MESSAGE(model("QuantizeLinear", DType::F32, DType::F32, DType::I8).load(d), d.text());
  refused(model("DequantizeLinear", DType::I8, DType::F32, DType::U8), Code::BadType, "zero point");
  refused(model("DequantizeLinear", DType::I8, DType::I32, DType::I8), Code::BadType, "scale");
  refused(model("QuantizeLinear", DType::F32, DType::I32, DType::I8), Code::BadType, "scale");
}

TEST_CASE("ConstantOfShape: sizes whose product overflows") {
  OnnxModel m(17);
  const std::string size = varint(uint64_t{1} << 40);
  m.raw_graph(field(5, field(1, int64_t{2}) + field(2, int64_t{7}) + field(8, "shape") + field(7, size + size)));
  m.add(node("ConstantOfShape", {"shape"}, {"y"}));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK_FALSE(verify_sizes(*module, d));
  CHECK(d.exit() == ExitCode::Limit);
  CHECK_MESSAGE(d.text().find("ConstantOfShape") != std::string::npos, d.text());
}

TEST_CASE("the checksum of a file of weights is that of the file") {
  const TempDir dir;
  const std::string weights(8, '\1'), good = sha1_hex(bytes_of(weights));
  std::ofstream(dir / "w.bin", std::ios::binary) << weights;
  const auto load = [&](const std::string& checksum, Diagnostics& d) {
    const auto entry = [](std::string_view key, std::string_view value) { return field(13, field(1, key) + field(2, value)); };
    OnnxModel m =
        sum_with(tensor("w", DType::F32, {2}, entry("location", "w.bin") + entry("checksum", checksum) + field(14, int64_t{1})));
    std::ofstream(dir / "model.onnx", std::ios::binary) << m.bytes();
    return onnx_import::import_onnx(dir / "model.onnx", {}, d) != nullptr;
  };
  Diagnostics right, wrong, odd;
  CHECK_MESSAGE(load(good, right), right.text());
  std::string upper = good;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  CHECK_MESSAGE(load(upper, right), right.text());
  CHECK_FALSE(load(std::string(40, '0'), wrong));
  CHECK_MESSAGE(wrong.text().find("initializer \"w\"") != std::string::npos, wrong.text());
  CHECK_MESSAGE(wrong.text().find(good) != std::string::npos, wrong.text());
  CHECK_FALSE(load("md5", odd));
}

TEST_CASE("functions that expand to very many nodes are counted, not expanded") {
  constexpr int kLevels = 60;
  OnnxModel m(17);
  m.opset("f", 1);
  m.input("x", DType::F32, {2}, some(2, 1));
  for (int i = 0; i < kLevels; ++i) {
    const std::string next = i + 1 < kLevels ? "F" + std::to_string(i + 1) : "Relu", domain = i + 1 < kLevels ? "f" : "";
    m.raw(field(25, field(1, "F" + std::to_string(i)) + field(4, "a") + field(5, "c") +
                        field(7, node(next, {"a"}, {"b"}, {}, domain)) + field(7, node(next, {"b"}, {"c"}, {}, domain)) +
                        field(9, field(1, "") + field(2, int64_t{17})) + field(9, field(1, "f") + field(2, int64_t{1})) +
                        field(10, "f")));
  }
  m.add(node("F0", {"x"}, {"y"}, {}, "f"));
  m.output("y");
  refused(m, Code::TooLarge, "--max-nodes");
  // Only the last levels fit.
  OnnxModel few = m;
  few.raw_graph(field(1, node("F50", {"x"}, {"z"}, {}, "f")));
  Diagnostics d;
  CHECK_FALSE(few.load(d, {.max_expansion = 100}));
  CHECK_MESSAGE(d.text().find("more than 100 nodes") != std::string::npos, d.text());
}

TEST_CASE("operands of a recurrent layer have its type and sizes") {
  const auto layer = [](DType weights, int64_t bias, DType lengths, int64_t batch) {
    OnnxModel m(17);
    m.input("x", DType::F32, {3, 2, 4}, some(24, 1));
    m.input("w", weights, {1, 6, 4}, some(24, 2));
    m.input("r", DType::F32, {1, 6, 2}, some(12, 3));
    m.input("b", DType::F32, {1, bias}, some(static_cast<size_t>(bias), 4));
    m.input("lengths", lengths, {2}, {3, 2});
    m.input("h", DType::F32, {1, batch, 2}, some(static_cast<size_t>(2 * batch), 5));
    m.add(node("GRU", {"x", "w", "r", "b", "lengths", "h"}, {"y"}, {attribute("hidden_size", 2)}));
    m.output("y");
    return m;
  };
  CHECK(layer(DType::F32, 12, DType::I32, 2).run()[0].size() == 12);
  refused(layer(DType::Bool, 12, DType::I32, 2), Code::BadShape, "different element types");
  refused(layer(DType::F32, 6, DType::I32, 2), Code::BadShape, "sizes of bias");
  refused(layer(DType::F32, 12, DType::F32, 2), Code::BadShape, "sequence_lens must be integers");
  refused(layer(DType::F32, 12, DType::I32, 3), Code::BadShape, "sizes of h0");
}

TEST_CASE("no result has a negative size") {
  OnnxModel m(17);
  m.input("x", DType::I64, {3}, {0, 1, 0});
  m.add(node("Constant", {}, {"depth"}, {attribute("value_int", -1)}));
  m.add(node("Constant", {}, {"values"}, {attribute("value_floats", std::vector<double>{0, 1})}));
  m.add(node("OneHot", {"x", "depth", "values"}, {"y"}));
  m.output("y");
  refused(m, Code::BadShape, "a negative size");
}

TEST_CASE("LRN needs a channel axis") {
  OnnxModel m(17);
  m.input("x", DType::F32, {3}, {1, 2, 3});
  m.add(node("LRN", {"x"}, {"y"}, {attribute("size", 3)}));
  m.output("y");
  refused(m, Code::BadShape, "needs [N,C,...]");
}

TEST_CASE("zero points of integer matmuls fit the rows and columns, or are one that is repeated") {
  const auto product = [](int64_t zeros, std::vector<double> values) {
    OnnxModel m(17);
    m.input("a", DType::U8, {2, 2}, {1, 2, 3, 4});
    m.input("b", DType::U8, {2, 3}, {1, 2, 3, 4, 5, 6});
    m.input("za", DType::U8, {1}, {1});
    m.input("zb", DType::U8, {zeros}, values);
    m.add(node("MatMulInteger", {"a", "b", "za", "zb"}, {"y"}));
    m.output("y");
    return m;
  };
  CHECK(product(3, {1, 2, 3}).run()[0] == std::vector<double>{3, 3, 3, 9, 9, 9});
  CHECK(product(1, {1}).run()[0] == std::vector<double>{3, 4, 5, 9, 14, 19});
  refused(product(2, {1, 2}), Code::BadShape, "one per column");
  OnnxModel m(17);  // the run decides between one and one for each
  for (const auto& [name, dims] : {std::pair("a", std::vector<int64_t>{2, 2}), {"b", {2, 3}}, {"za", {-1}}, {"zb", {-1}}})
    m.raw_graph(field(11, value_info(name, DType::U8, dims)));
  m.add(node("MatMulInteger", {"a", "b", "za", "zb"}, {"y"}));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  std::vector<eval::HostValue> inputs(4);
  inputs[0].tensor = make_data<uint8_t>(DType::U8, {2, 2}, {1, 2, 3, 4});
  inputs[1].tensor = make_data<uint8_t>(DType::U8, {2, 3}, {1, 2, 3, 4, 5, 6});
  inputs[2].tensor = make_data<uint8_t>(DType::U8, {2}, {1, 0});
  inputs[3].tensor = make_data<uint8_t>(DType::U8, {1}, {1});
  const auto got = eval::evaluate(*module, inputs, d);
  REQUIRE_MESSAGE(got, d.text());
  const std::vector<int64_t> expected{3, 4, 5, 12, 19, 26};
  for (int64_t i = 0; i < 6; ++i) CHECK(element_as_int((*got)[0].tensor, i) == expected[static_cast<size_t>(i)]);
}

TEST_CASE("operators of layouts of a processor are refused with the reason") {
  OnnxModel m(17);
  m.opset("com.microsoft.nchwc", 1);
  m.input("x", DType::F32, {1, 8, 2, 2}, some(32, 1));
  m.add(node("ReorderInput", {"x"}, {"y"}, {}, "com.microsoft.nchwc"));
  m.output("y");
  refused(m, Code::UnsupportedOp, "the optimisation level extended");
}

TEST_CASE("attributes that others make idle are no error") {
  const auto problem = [](std::string_view domain, std::string_view op, const std::vector<std::vector<int64_t>>& inputs,
                          DType ints, const std::vector<std::string>& attributes) {
    OnnxModel m(17);
    m.opset("com.microsoft", 1);
    std::vector<std::string> names;
    for (const std::vector<int64_t>& dims : inputs) {
      names.push_back(dims == std::vector<int64_t>{-1} ? "" : "x" + std::to_string(names.size()));
      const DType t = dims.size() < 2 ? ints : DType::F32;
      if (!names.back().empty()) m.raw_graph(field(11, value_info(names.back(), t, dims)));
    }
    m.add(node(op, names, {"y"}, attributes, domain));
    m.output("y");
    Diagnostics d;
    return m.load(d) ? std::string() : d.text();
  };
  const std::vector<int64_t> absent{-1};
  const std::vector<std::string> heads{attribute("num_heads", 2), attribute("kv_num_heads", 1),
                                       attribute("rotary_interleaved", 1)};
  CHECK(problem("com.microsoft", "GroupQueryAttention", {{1, 3, 32}, {1, 3, 16}, {1, 3, 16}, absent, absent, {1}, {}}, DType::I32,
                heads)
            .empty());
  CHECK(problem("com.microsoft", "MoE", {{3, 8}, {3, 2}, {2, 6, 8}, absent, {2, 8, 6}}, DType::F32,
                {attribute("swiglu_fusion", 1), attribute("swiglu_limit", 7.0)})
            .empty());
  for (const char* locale : {"en_US", "tr_TR"}) {
    const std::string said = problem("", "StringNormalizer", {{3}}, DType::String,
                                     {attribute("case_change_action", "LOWER"), attribute("locale", locale)});
    CHECK_MESSAGE(said.empty() == (locale[0] == 'e'), said);
  }
}

}  // namespace rlxc
