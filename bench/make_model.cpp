// Writes synthetic ONNX models for benchmarks: a transformer of a given number of nodes, a deep chain, or a model whose weights
// lie inside the file. Written piece by piece, so that models larger than memory limits of protobuf can be made.
//   make_model transformer NODES FILE | chain NODES FILE | embedded MEGABYTES FILE
#include <onnx/onnx_pb.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int64_t kHidden = 64, kSeq = 32;

// Protobuf wire format of length-delimited fields: tag, length, bytes.
std::string varint(uint64_t v) {
  std::string s;
  for (; v >= 128; v >>= 7) s += static_cast<char>(v | 128);
  return s += static_cast<char>(v);
}
std::string delimited(int field, uint64_t length) { return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(length); }

class ModelFile {
 public:
  explicit ModelFile(const char* path) : out_(path, std::ios::binary) {}

  void node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
            std::vector<int64_t> ints = {}, const char* attribute = "perm") {
    onnx::NodeProto n = start_node(op, inputs, output);
    if (!ints.empty()) {
      auto* a = n.add_attribute();
      a->set_name(attribute);
      a->set_type(onnx::AttributeProto::INTS);
      for (int64_t v : ints) a->add_ints(v);
    }
    append(1, n.SerializeAsString());
  }
  void axis_node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output, int64_t axis) {
    onnx::NodeProto n = start_node(op, inputs, output);
    auto* a = n.add_attribute();
    a->set_name("axis");
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(axis);
    append(1, n.SerializeAsString());
  }
  void weight(const std::string& name, std::vector<int64_t> dims, float value) {
    int64_t n = 1;
    onnx::TensorProto t;
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t d : dims) t.add_dims(d), n *= d;
    std::vector<float> data(static_cast<size_t>(n), value);
    t.set_raw_data(data.data(), data.size() * 4);
    append(5, t.SerializeAsString());
  }
  void ints(const std::string& name, std::vector<int64_t> values) {
    onnx::TensorProto t;
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::INT64);
    t.add_dims(static_cast<int64_t>(values.size()));
    for (int64_t v : values) t.add_int64_data(v);
    append(5, t.SerializeAsString());
  }
  void io(const std::string& input, const std::string& output, std::vector<int64_t> dims) {
    for (auto [field, name] : {std::pair{11, input}, {12, output}}) {
      onnx::ValueInfoProto v;
      v.set_name(name);
      auto* t = v.mutable_type()->mutable_tensor_type();
      t->set_elem_type(onnx::TensorProto::FLOAT);
      for (int64_t d : dims) t->mutable_shape()->add_dim()->set_dim_value(d);
      append(field, v.SerializeAsString());
    }
  }
  size_t count() const { return count_; }

  bool finish() {
    append(2, "synthetic");
    onnx::ModelProto m;
    m.set_ir_version(8);
    auto* opset = m.add_opset_import();
    opset->set_domain("");
    opset->set_version(17);
    uint64_t length = 0;
    for (const std::string& p : parts_) length += p.size();
    out_ << m.SerializeAsString() << delimited(7, length);
    for (const std::string& p : parts_) out_ << p;
    return static_cast<bool>(out_.flush());
  }

 private:
  onnx::NodeProto start_node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto n;
    n.set_op_type(op);
    n.set_name("/layers." + std::to_string(count_ / 24) + "/" + op + "_" + std::to_string(count_));
    ++count_;
    for (const std::string& i : inputs) n.add_input(i);
    n.add_output(output);
    return n;
  }
  void append(int field, const std::string& bytes) { parts_.push_back(delimited(field, bytes.size()) + bytes); }

  std::ofstream out_;
  std::vector<std::string> parts_;
  size_t count_ = 0;
};

std::string layer(ModelFile& f, const std::string& x, const std::string& p) {
  const auto n = [&](const char* s) { return p + s; };
  auto linear = [&](const std::string& in, const std::string& out, const char* w) {
    f.node("MatMul", {in, w}, out + "_mm");
    f.node("Add", {out + "_mm", "bias"}, out);
  };
  auto heads = [&](const std::string& in, const std::string& out, std::vector<int64_t> perm) {
    f.node("Reshape", {in, "heads"}, out + "_r");
    f.node("Transpose", {out + "_r"}, out, std::move(perm));
  };
  linear(x, n("q"), "w");
  linear(x, n("k"), "w");
  linear(x, n("v"), "w");
  heads(n("q"), n("qh"), {0, 2, 1, 3});
  heads(n("k"), n("kh"), {0, 2, 3, 1});
  heads(n("v"), n("vh"), {0, 2, 1, 3});
  f.node("MatMul", {n("qh"), n("kh")}, n("s"));
  f.node("Div", {n("s"), "scale"}, n("sd"));
  f.axis_node("Softmax", {n("sd")}, n("p"), 3);
  f.node("MatMul", {n("p"), n("vh")}, n("o"));
  f.node("Transpose", {n("o")}, n("ot"), {0, 2, 1, 3});
  f.node("Reshape", {n("ot"), "flat"}, n("of"));
  linear(n("of"), n("proj"), "w");
  f.node("Add", {n("proj"), x}, n("res"));
  f.axis_node("LayerNormalization", {n("res"), "gamma", "beta"}, n("ln"), -1);
  linear(n("ln"), n("up"), "w");
  f.node("Relu", {n("up")}, n("act"));
  linear(n("act"), n("down"), "w");
  f.node("Add", {n("down"), n("ln")}, n("y"));
  return n("y");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: make_model transformer|chain|embedded SIZE FILE\n", 2;
  const std::string kind = argv[1];
  const auto size = static_cast<size_t>(std::strtoull(argv[2], nullptr, 10));
  ModelFile f(argv[3]);
  std::string x = "x";
  if (kind == "chain") {
    for (size_t i = 0; i < size; ++i) {
      const std::string y = "v" + std::to_string(i);
      f.node(i % 3 == 0 ? "Sin" : i % 3 == 1 ? "Tanh" : "Cos", {x}, y);
      x = y;
    }
    f.io("x", x, {1, kSeq, kHidden});
  } else if (kind == "transformer") {
    f.weight("w", {kHidden, kHidden}, 0.01f);
    f.weight("bias", {kHidden}, 0.0f);
    f.weight("gamma", {kHidden}, 1.0f);
    f.weight("beta", {kHidden}, 0.0f);
    f.weight("scale", {}, 4.0f);
    f.ints("heads", {1, kSeq, 4, kHidden / 4});
    f.ints("flat", {1, kSeq, kHidden});
    for (size_t i = 0; f.count() + 26 <= size || i == 0; ++i) x = layer(f, x, "l" + std::to_string(i) + "_");
    f.io("x", x, {1, kSeq, kHidden});
  } else if (kind == "embedded") {
    const int64_t n = 2048;  // one weight: 16 MiB
    for (size_t done = 0, i = 0; done < size; done += 16, ++i) {
      const std::string w = "w" + std::to_string(i), y = "y" + std::to_string(i);
      f.weight(w, {n, n}, 0.001f);
      f.node("MatMul", {x, w}, y);
      f.node("Relu", {y}, y + "r");
      x = y + "r";
    }
    f.io("x", x, {8, n});
  } else {
    return std::cerr << "unknown kind " << kind << "\n", 2;
  }
  return f.finish() ? 0 : 1;
}
