#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// Adds the inputs of a quantized tensor: numbers, scale, zero point (named x, xs, xz).
void quantized(OnnxPair& p, const std::string& name, DType t, std::vector<int64_t> dims, double scale, double zero) {
  p.integers(name, t, std::move(dims), t == DType::U8 ? 0 : -128, t == DType::U8 ? 255 : 127);
  p.constant(name + "s", DType::F32, {scale}).constant(name + "z", t, {zero});
}
OnnxPair& decoded(OnnxPair& p, const std::string& name) {
  return p.on("DequantizeLinear", {name, name + "s", name + "z"}, name + "r");
}
OnnxPair& encoded(OnnxPair& p, const std::string& real, const std::string& out) {
  return p.on("QuantizeLinear", {real, "ys", "yz"}, out);
}
OnnxPair& result_scale(OnnxPair& p, DType t, double scale, double zero) {
  return p.constant("ys", DType::F32, {scale}).constant("yz", t, {zero});
}

}  // namespace

TEST_CASE("weights of 2, 4 and 8 bits in blocks") {
  for (const int width : {2, 4, 8})
    for (const bool ordered : {false, true}) {
      OnnxPair p;
      const int fields = 8 / width;
      const size_t k = 40, n = 3, blocks = 3, block = 16, row = blocks * block / static_cast<size_t>(fields);
      const auto x = some(2 * k, 1), scales = some(n * blocks, 2);
      std::vector<double> bytes, zeros, order;
      for (size_t i = 0; i < n * row; ++i) bytes.push_back(static_cast<double>(i * 37 % 256));
      const size_t packed = (blocks + static_cast<size_t>(fields) - 1) / static_cast<size_t>(fields);
      for (size_t i = 0; i < n * packed; ++i) zeros.push_back(static_cast<double>((i * 91 + 17) % 256));
      for (size_t i = 0; i < k; ++i) order.push_back(static_cast<double>(ordered ? i * 7 % blocks : i / block));
      auto& m = p.model();
      m.input("x", DType::F32, {2, static_cast<int64_t>(k)}, x);
      m.input("w", DType::U8, {static_cast<int64_t>(n), static_cast<int64_t>(blocks), static_cast<int64_t>(row / blocks)}, bytes);
      m.input("scales", DType::F32, {static_cast<int64_t>(n * blocks)}, scales);
      m.input("zeros", DType::U8, {static_cast<int64_t>(zeros.size())}, zeros);
      m.input("order", DType::I32, {static_cast<int64_t>(k)}, order);
      const std::vector<std::string> attributes{attribute("K", static_cast<int>(k)), attribute("N", static_cast<int>(n)),
                                                attribute("bits", width), attribute("block_size", static_cast<int>(block)),
                                                attribute("accuracy_level", ordered ? 0 : 4)};
      const std::string g = ordered ? "order" : "";
      p.ms("MatMulNBits", {"x", "w", "scales", "zeros", g}, {"y"}, attributes)
          .ms("MatMulNBits", {"x", "w", "scales", "", g}, {"z"}, attributes);
      m.output("y");
      m.output("z");
      const auto field = [&](const std::vector<double>& v, size_t i) {
        const int byte = static_cast<int>(v[i / static_cast<size_t>(fields)]);
        return byte >> (static_cast<int>(i % static_cast<size_t>(fields)) * width) & ((1 << width) - 1);
      };
      // Where the weight stays in bits, accuracy_level 4 rounds each block of a row, the last and shorter one, too.
      std::vector<double> rows = x;
      for (size_t at = 0; at < rows.size() && width == 8 && !ordered; at += at % k + block < k ? block : k - at % k) {
        const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end = begin + static_cast<std::ptrdiff_t>(std::min(block, k - at % k));
        double most = 0;
        for (auto i = begin; i != end; ++i) most = std::max(most, std::abs(*i));
        for (auto i = begin; i != end; ++i) *i = std::nearbyint(*i * 127 / most) * most / 127;
      }
      std::vector<double> y, z;
      for (size_t r = 0; r < 2; ++r)
        for (size_t c = 0; c < n; ++c) {
          double with = 0, without = 0;
          for (size_t i = 0; i < k; ++i) {
            const auto b = static_cast<size_t>(order[i]);
            const int q = field(bytes, c * blocks * block + i), zero = field(zeros, c * packed * static_cast<size_t>(fields) + b);
            with += rows[r * k + i] * (q - zero) * scales[c * blocks + b];
            without += rows[r * k + i] * (q - (1 << (width - 1))) * scales[c * blocks + b];
          }
          y.push_back(with), z.push_back(without);
        }
      const auto got = m.run();
      INFO(width, " bits, ordered ", ordered);
      check_close(got[0], y, 1e-4);
      check_close(got[1], z, 1e-4);
    }
}

TEST_CASE("rows of a quantized table") {
  OnnxPair p;
  const auto scales = some(5 * 2, 3);
  std::vector<double> bytes;
  for (size_t i = 0; i < 5 * 16; ++i) bytes.push_back(static_cast<double>(i * 53 % 256));
  p.model().input("table", DType::U8, {5, 16}, bytes);
  p.model().input("rows", DType::I64, {3}, {4, 0, 4});
  p.model().input("scales", DType::F32, {5, 2}, scales);
  p.ms("GatherBlockQuantized", {"table", "rows", "scales"}, {"y"},
       {attribute("bits", 4), attribute("block_size", 16), attribute("gather_axis", 0), attribute("quantize_axis", 1)});
  p.model().output("y");
  std::vector<double> y;
  for (size_t r : {4u, 0u, 4u})
    for (size_t i = 0; i < 32; ++i) {
      const int byte = static_cast<int>(bytes[r * 16 + i / 2]), q = i % 2 == 0 ? byte & 15 : byte >> 4;
      y.push_back((q - 8) * scales[r * 2 + i / 16]);
    }
  check_close(p.model().run()[0], y);
}

TEST_CASE("integer products with scales") {
  OnnxPair p;
  quantized(p, "a", DType::U8, {3, 4}, 0.02, 120);
  quantized(p, "b", DType::I8, {4, 5}, 0.03, 3);
  result_scale(p, DType::U8, 0.2, 100);
  p.integers("c", DType::I32, {5}, -900, 900).real("x", {3, 4}).real("bias", {5});
  p.ms("MatMulIntegerToFloat", {"a", "b", "as", "bs", "az", "bz", "bias"}, {"y"});
  decoded(decoded(p, "a"), "b").on("MatMul", {"ar", "br"}, "ab").on("Add", {"ab", "bias"}, "y2");
  p.ms("DynamicQuantizeMatMul", {"x", "b", "bs", "bz", "bias"}, {"z"});
  p.node_of("", "DynamicQuantizeLinear", {"x"}, {"xq", "xs", "xz"}).on("DequantizeLinear", {"xq", "xs", "xz"}, "xr");
  p.on("MatMul", {"xr", "br"}, "xb").on("Add", {"xb", "bias"}, "z2");
  p.ms("QGemm", {"a", "as", "az", "b", "bs", "bz", "c"}, {"g"}, {attribute("alpha", 0.5)});
  p.number("half", 0.5).on("Mul", {"as", "bs"}, "unit").on("CastLike", {"c", "ab"}, "cf").on("Mul", {"cf", "unit"}, "cr");
  p.on("Add", {"ab", "cr"}, "abc").on("Mul", {"abc", "half"}, "g2");
  p.ms("QGemm", {"a", "as", "az", "b", "bs", "bz", "c", "ys", "yz"}, {"h"}, {attribute("alpha", 0.5)});
  encoded(p, "g2", "h2");
  p.integers("d", DType::U8, {3, 4}, 0, 255).constant("dz", DType::U8, {7});
  p.ms("MulInteger", {"a", "az", "d", "dz"}, {"m"}).number("dzf", 7).number("azf", 120);
  p.on("CastLike", {"a", "x"}, "af")
      .on("CastLike", {"d", "x"}, "df")
      .on("Sub", {"af", "azf"}, "a0")
      .on("Sub", {"df", "dzf"}, "d0")
      .on("Mul", {"a0", "d0"}, "m2");
  p.agree({{"y", "y2"}, {"z", "z2"}, {"g", "g2"}, {"h", "h2"}, {"m", "m2"}}, 1e-4);
}

TEST_CASE("a recurrent layer of quantized weights") {
  for (const int64_t columns : {1, 8}) {  // columns with separate scales
    OnnxPair p;
    p.real("x", {3, 2, 5}).integers("w", DType::I8, {1, 5, 8}, -128, 127).integers("r", DType::U8, {1, 2, 8}, 0, 255);
    p.integers("wz", DType::I8, {1, columns}, -3, 3).integers("rz", DType::U8, {1, columns}, 120, 130);
    std::vector<double> scales;
    for (int64_t i = 0; i < columns; ++i) scales.push_back(0.01 + 0.001 * static_cast<double>(i));
    for (const char* name : {"ws", "rs"}) p.model().input(name, DType::F32, {1, columns}, scales);
    p.ms("DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"}, {"y", "h", "c"},
         {attribute("hidden_size", 2)});
    p.ints("per", {1, 1, -1});
    for (const std::string name : {"w", "r"}) {
      p.on("Reshape", {name + "s", "per"}, name + "_scale").on("Reshape", {name + "z", "per"}, name + "_zero");
      p.on("Cast", {name}, name + "_float", {attribute("to", 1)})
          .on("Cast", {name + "_zero"}, name + "_point", {attribute("to", 1)});
      p.on("Sub", {name + "_float", name + "_point"}, name + "_centred")
          .on("Mul", {name + "_centred", name + "_scale"}, name + "_real");
      p.on("Transpose", {name + "_real"}, name + "_rows", {attribute("perm", std::vector<int64_t>{0, 2, 1})});
    }
    p.node_of("", "LSTM", {"x", "w_rows", "r_rows"}, {"y2", "h2", "c2"}, {attribute("hidden_size", 2)});
    p.agree({{"y", "y2"}, {"h", "h2"}, {"c", "c2"}}, 1e-5);
  }
}

TEST_CASE("quantized elementwise operators") {
  OnnxPair p;
  quantized(p, "a", DType::U8, {2, 6}, 0.02, 120);
  quantized(p, "b", DType::U8, {6}, 0.05, 60);
  quantized(p, "c", DType::U8, {2, 6}, 0.01, 90);
  result_scale(p, DType::U8, 0.04, 100);
  p.integers("keep", DType::Bool, {2, 6}, 0, 1);
  decoded(decoded(decoded(p, "a"), "b"), "c");
  p.ms("QLinearAdd", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"add"}).on("Add", {"ar", "br"}, "addr");
  p.ms("QLinearMul", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"mul"}).on("Mul", {"ar", "br"}, "mulr");
  p.ms("QLinearSigmoid", {"a", "as", "az", "ys", "yz"}, {"sig"}).on("Sigmoid", {"ar"}, "sigr");
  p.ms("QLinearLeakyRelu", {"a", "as", "az", "ys", "yz"}, {"leaky"}, {attribute("alpha", 0.2)})
      .on("LeakyRelu", {"ar"}, "leakyr", {attribute("alpha", 0.2)});
  p.ms("QLinearWhere", {"keep", "a", "as", "az", "c", "cs", "cz", "ys", "yz"}, {"where"})
      .on("Where", {"keep", "ar", "cr"}, "wherer");
  p.ms("QLinearConcat", {"ys", "yz", "a", "as", "az", "c", "cs", "cz"}, {"cat"}, {attribute("axis", 1)})
      .on("Concat", {"ar", "cr"}, "catr", {attribute("axis", 1)});
  p.ms("QLinearSoftmax", {"a", "as", "az", "ys", "yz"}, {"soft"}, {attribute("axis", -1), attribute("opset", 13)})
      .on("Softmax", {"ar"}, "softr", {attribute("axis", -1)});
  p.ms("QLinearReduceMean", {"a", "as", "az", "ys", "yz"}, {"mean"},
       {attribute("axes", std::vector<int64_t>{1}), attribute("keepdims", 0)});
  p.ints("one", {1}).on("ReduceMean", {"ar", "one"}, "meanr", {attribute("keepdims", 0)});
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const char* name : {"add", "mul", "sig", "leaky", "where", "cat", "soft", "mean"}) {
    encoded(p, std::string(name) + "r", std::string(name) + "2");
    pairs.emplace_back(name, std::string(name) + "2");
  }
  p.agree(pairs, 0);
}

TEST_CASE("quantized pooling") {
  OnnxPair p;
  quantized(p, "a", DType::I8, {1, 3, 5, 4}, 0.02, -10);
  result_scale(p, DType::I8, 0.015, 4);
  const auto kernel = attribute("kernel_shape", std::vector<int64_t>{2, 3}),
             pads = attribute("pads", std::vector<int64_t>{0, 1, 1, 1});
  const auto last = attribute("perm", std::vector<int64_t>{0, 2, 3, 1});
  decoded(p, "a").on("AveragePool", {"ar"}, "poolr", {kernel, pads}).on("GlobalAveragePool", {"ar"}, "allr");
  encoded(encoded(p, "poolr", "pool2"), "allr", "all2")
      .on("Transpose", {"a"}, "al", {last})
      .on("Transpose", {"pool2"}, "pooll2", {last});
  p.ms("QLinearAveragePool", {"a", "as", "az", "ys", "yz"}, {"pool"}, {kernel, pads});
  p.ms("QLinearAveragePool", {"al", "as", "az", "ys", "yz"}, {"pooll"}, {kernel, pads, attribute("channels_last", 1)});
  p.ms("QLinearGlobalAveragePool", {"a", "as", "az", "ys", "yz"}, {"all"}, {attribute("channels_last", 0)});
  p.agree({{"pool", "pool2"}, {"pooll", "pooll2"}, {"all", "all2"}}, 0);
}

TEST_CASE("blocks along an axis that the scales or zero points lack are refused") {
  for (const bool scales : {true, false}) {
    OnnxModel m(21);
    m.opset("com.microsoft", 1);
    m.input("data", DType::U8, {3, 32}, std::vector<double>(96, 1));
    m.input("rows", DType::I64, {1}, {1});
    m.input("scales", DType::F32, scales ? std::vector<int64_t>{3} : std::vector<int64_t>{3, 2},
            std::vector<double>(scales ? 3 : 6, 1));
    m.input("zeros", DType::U8, {3}, {1, 1, 1});
    m.add(node("GatherBlockQuantized", {"data", "rows", "scales", "zeros"}, {"y"},
               {attribute("bits", 8), attribute("block_size", 16)}, "com.microsoft"));
    m.output("y");
    Diagnostics d;
    CHECK_FALSE(m.load(d));
    CHECK_MESSAGE(d.text().find("as many axes as the data") != std::string::npos, d.text());
  }
}

TEST_CASE("constant weights of another number of bytes than N, K and block_size give are refused") {
  for (const size_t bytes : {size_t{64}, size_t{128}, size_t{256}}) {
    OnnxModel m(21);
    m.opset("com.microsoft", 1);
    m.input("x", DType::F32, {1, 32}, std::vector<double>(32, 1));
    m.input("scales", DType::F32, {8, 2}, std::vector<double>(16, 1));
    m.raw_graph(field(5, field(1, int64_t{8}) + field(1, int64_t{2}) + field(1, static_cast<int64_t>(bytes / 16)) +
                             field(2, int64_t{2}) + field(8, "w") + field(9, std::string(bytes, '\x12'))));
    m.add(node("MatMulNBits", {"x", "w", "scales"}, {"y"},
               {attribute("K", 32), attribute("N", 8), attribute("bits", 4), attribute("block_size", 16)}, "com.microsoft"));
    m.output("y");
    Diagnostics d;
    CHECK((m.load(d) != nullptr) == (bytes == 128));
  }
}
