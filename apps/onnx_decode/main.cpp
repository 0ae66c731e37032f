// Holds the decoder of ONNX files against libprotobuf: onnx_decode MUTATIONS FILE... decodes each file and so many mutations of
// it by both, and compares which are accepted, and what is read. Prints counts, and the first differences; exit code 1 if there
// is one.
//
// Not compared, but counted:
// - A message that is given twice. libprotobuf merges both; the importer refuses two graphs, and takes the last of others.
// - A tensor with data in several fields, which the importer refuses.
// - Files that only libprotobuf accepts because it skips groups, which ONNX does not use.
// - Files that only libprotobuf refuses, because of messages that the importer does not read (metadata, training, annotations).
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "fuzz/mutate_onnx.h"
#include "import/onnx/proto.h"

namespace {

using rlxc::onnx_import::AttrType;
using rlxc::onnx_import::Bytes;
using rlxc::onnx_import::bytes_field;
using rlxc::onnx_import::WireReader;
namespace ours = rlxc::onnx_import;

struct NotCompared {};
struct Refused {};

// An unambiguous text of the fields that were read.
class Record {
 public:
  Record& text(std::string_view s) {
    ((out_ += std::to_string(s.size())) += ':') += s;
    return *this;
  }
  Record& number(int64_t v) {
    (out_ += std::to_string(v)) += ',';
    return *this;
  }
  Record& real(float v) { return number(std::bit_cast<int32_t>(v)); }
  void add(const Record& r) { out_ += r.out_; }
  template <class List, class F>
  void list(const List& all, F one) {
    number(static_cast<int64_t>(std::size(all)));
    for (const auto& x : all) one(x);
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

std::string_view domain_of(std::string_view s) { return s == "ai.onnx" ? std::string_view() : s; }
int64_t data_type_of(int64_t t) { return t >= 0 && t <= 1000 ? t : 0; }

// libprotobuf's messages.

void graph(const onnx::GraphProto&, Record*);

void tensor(const onnx::TensorProto& t, Record* r) {
  r->text(t.name()).number(data_type_of(t.data_type())).number(t.data_location() == onnx::TensorProto::EXTERNAL);
  r->list(t.dims(), [&](int64_t d) { r->number(d); });
  r->number(t.has_segment()).text(t.raw_data());
  r->list(t.string_data(), [&](const std::string& s) { r->text(s); });
  r->list(t.float_data(), [&](float v) { r->real(v); });
  r->list(t.int32_data(), [&](int32_t v) { r->number(v); });
  r->list(t.int64_data(), [&](int64_t v) { r->number(v); });
  r->list(t.double_data(), [&](double v) { r->number(std::bit_cast<int64_t>(v)); });
  r->list(t.uint64_data(), [&](uint64_t v) { r->number(static_cast<int64_t>(v)); });
}
void sparse_tensor(const onnx::SparseTensorProto& t, Record* r) {
  tensor(t.values(), r);
  tensor(t.indices(), r);
  r->list(t.dims(), [&](int64_t d) { r->number(d); });
}
void attribute(const onnx::AttributeProto& a, Record* r) {
  r->text(a.name()).number(a.type()).real(a.f()).number(a.i()).text(a.s()).text(a.ref_attr_name());
  r->list(a.floats(), [&](float v) { r->real(v); });
  r->list(a.ints(), [&](int64_t v) { r->number(v); });
  r->list(a.strings(), [&](const std::string& s) { r->text(s); });
  if (a.type() == onnx::AttributeProto::TENSOR) tensor(a.t(), r);
  if (a.type() == onnx::AttributeProto::GRAPH) graph(a.g(), r);
  if (a.type() == onnx::AttributeProto::SPARSE_TENSOR) sparse_tensor(a.sparse_tensor(), r);
}
void node(const onnx::NodeProto& n, Record* r) {
  r->text(n.name()).text(n.op_type()).text(domain_of(n.domain()));
  r->list(n.input(), [&](const std::string& s) { r->text(s); });
  r->list(n.output(), [&](const std::string& s) { r->text(s); });
  r->list(n.attribute(), [&](const onnx::AttributeProto& a) { attribute(a, r); });
}
void graph(const onnx::GraphProto& g, Record* r) {
  r->text(g.name());
  r->list(g.node(), [&](const onnx::NodeProto& n) { node(n, r); });
  r->list(g.initializer(), [&](const onnx::TensorProto& t) { tensor(t, r); });
  r->list(g.sparse_initializer(), [&](const onnx::SparseTensorProto& t) { sparse_tensor(t, r); });
  for (const auto* all : {&g.input(), &g.output(), &g.value_info()})
    r->list(*all, [&](const onnx::ValueInfoProto& v) { r->text(v.name()).number(v.has_type()); });
}
void model(const onnx::ModelProto& m, Record* r) {
  r->number(m.ir_version());
  r->list(m.opset_import(), [&](const onnx::OperatorSetIdProto& o) { r->text(o.domain()).number(o.version()); });
  r->list(m.functions(), [&](const onnx::FunctionProto& f) {
    r->text(f.name()).text(domain_of(f.domain()));
    r->list(f.input(), [&](const std::string& s) { r->text(s); });
    r->list(f.output(), [&](const std::string& s) { r->text(s); });
    r->list(f.opset_import(), [&](const onnx::OperatorSetIdProto& o) { r->text(o.domain()).number(o.version()); });
    r->list(f.node(), [&](const onnx::NodeProto& n) { node(n, r); });
  });
  graph(m.graph(), r);
}

// The importer's views.

template <class View>
View decoded(Bytes b, bool (*read)(Bytes, View*)) {
  View v;
  if (!read(b, &v)) throw Refused();
  return v;
}
// Refuses malformed bytes, and throws NotCompared where one of these fields is repeated.
void once(Bytes b, std::initializer_list<uint32_t> fields) {
  WireReader r(b);
  std::multiset<uint32_t> seen;
  while (r.next()) seen.insert(r.tag());
  if (!r.ok()) throw Refused();
  for (uint32_t f : fields)
    if (seen.count(bytes_field(f)) > 1) throw NotCompared();
}
std::vector<Bytes> messages(Bytes b, uint32_t field) {
  std::vector<Bytes> all;
  WireReader r(b);
  while (r.next())
    if (r.tag() == bytes_field(field)) all.push_back(r.bytes());
  return all;
}

void our_graph(Bytes, Record*);

void our_tensor(Bytes b, Record* r) {
  const auto t = decoded(b, ours::read_tensor);
  if (!t.packed.empty() && !t.loose.empty()) throw NotCompared();  // their order is lost
  if (t.mixed) throw NotCompared();                                // refused by the importer
  r->text(t.name).number(data_type_of(t.data_type)).number(t.external);
  r->list(t.dims, [&](int64_t d) { r->number(d); });
  r->number(t.has_segment).text(t.raw ? ours::as_text(*t.raw) : std::string_view());
  r->list(t.strings, [&](std::string_view s) { r->text(s); });
  for (uint32_t field : {4u, 5u, 7u, 10u, 11u}) {
    std::vector<int64_t> values;
    if (t.packed_field == field) {
      for (Bytes chunk : t.packed) {
        std::vector<float> floats;
        if (field == 10) {
          if (chunk.size() % 8 != 0) throw Refused();
          const size_t first = values.size();
          values.resize(first + chunk.size() / 8);
          std::memcpy(values.data() + first, chunk.data(), chunk.size());
        } else if (!(field == 4 ? ours::read_packed(chunk, &floats) : ours::read_packed(chunk, &values))) {
          throw Refused();
        }
        for (float v : floats) values.push_back(std::bit_cast<int32_t>(v));
      }
      for (uint64_t v : t.loose) values.push_back(field == 4 ? static_cast<int32_t>(v) : static_cast<int64_t>(v));
    }
    r->list(values, [&](int64_t v) { r->number(field == 5 ? static_cast<int32_t>(v) : v); });
  }
}
void our_sparse_tensor(Bytes b, Record* r) {
  once(b, {1, 2});
  const auto t = decoded(b, ours::read_sparse_tensor);
  our_tensor(t.values, r);
  our_tensor(t.indices, r);
  r->list(t.dims, [&](int64_t d) { r->number(d); });
}
void our_attribute(const ours::AttributeView& a, Record* r) {
  once(a.body, {5, 6, 14, 22});
  // IR version 1 has no types of attributes: the importer tells them from the field.
  WireReader fields(a.body);
  int64_t type = 0;
  while (fields.next())
    if (fields.tag() == ours::varint_field(20)) type = fields.value();
  if (type < 0 || type > 14) throw NotCompared();
  r->text(a.name).number(type).real(a.f).number(a.i).text(a.s).text(a.reference);
  r->list(a.floats(), [&](float v) { r->real(v); });
  r->list(a.ints(), [&](int64_t v) { r->number(v); });
  r->list(a.strings(), [&](std::string_view s) { r->text(s); });
  if (type == static_cast<int64_t>(AttrType::Tensor)) our_tensor(a.message, r);
  if (type == static_cast<int64_t>(AttrType::Graph)) our_graph(a.message, r);
  if (type == static_cast<int64_t>(AttrType::SparseTensor)) our_sparse_tensor(a.message, r);
}
void our_node(Bytes b, Record* r) {
  const auto n = decoded(b, ours::read_node);
  r->text(n.name).text(n.op_type).text(n.domain);
  r->list(n.inputs, [&](std::string_view s) { r->text(s); });
  r->list(n.outputs, [&](std::string_view s) { r->text(s); });
  r->list(n.attributes, [&](const ours::AttributeView& a) { our_attribute(a, r); });
}
void our_graph(Bytes b, Record* r) {
  once(b, {});
  std::string_view name;
  for (WireReader fields(b); fields.next();)
    if (fields.tag() == bytes_field(2)) name = fields.text();
  r->text(name);
  r->list(messages(b, 1), [&](Bytes m) { our_node(m, r); });
  r->list(messages(b, 5), [&](Bytes m) { our_tensor(m, r); });
  r->list(messages(b, 15), [&](Bytes m) { our_sparse_tensor(m, r); });
  for (uint32_t field : {11u, 12u, 13u})
    r->list(messages(b, field), [&](Bytes m) {
      once(m, {2});
      const auto v = decoded(m, ours::read_value_info);
      r->text(v.name).number(v.has_type);
    });
}
void our_model(Bytes b, Record* r) {
  once(b, {7});
  const auto m = decoded(b, ours::read_model);
  const auto opsets = [&](const std::vector<ours::OpsetView>& all) {
    r->list(all, [&](const ours::OpsetView& o) { r->text(o.domain).number(o.version); });
  };
  r->number(m.ir_version);
  opsets(m.opsets);
  r->list(m.functions, [&](const ours::FunctionView& f) {
    r->text(f.name).text(f.domain);
    r->list(f.inputs, [&](std::string_view s) { r->text(s); });
    r->list(f.outputs, [&](std::string_view s) { r->text(s); });
    opsets(f.opsets);
    r->list(messages(f.body, 7), [&](Bytes n) { our_node(n, r); });
  });
  our_graph(m.graph, r);
}

bool has_groups(Bytes b, int depth = 0) {
  WireReader r(b);
  while (r.next())
    if ((r.tag() & 7) == 2 && depth < 20 && has_groups(r.bytes(), depth + 1)) return true;
  // The tag at which the reader stopped is unknown: groups have wire types 3 and 4.
  return !r.ok() &&
         std::ranges::any_of(b, [](std::byte x) { return (static_cast<int>(x) & 7) == 3 || (static_cast<int>(x) & 7) == 4; });
}

struct Counts {
  int64_t equal = 0, refused = 0, only_ours = 0, only_theirs = 0, groups = 0, not_compared = 0, differ = 0;
};

void compare(const std::string& file, const std::string& bytes, uint64_t seed, Counts* c) {
  onnx::ModelProto m;
  const bool accepted = m.ParseFromString(bytes);
  const auto view = std::as_bytes(std::span(bytes));
  Record own, theirs;
  try {
    our_model(view, &own);
    if (!accepted) return void(++c->only_theirs);
    model(m, &theirs);
    if (own.str() == theirs.str()) return void(++c->equal);
  } catch (const NotCompared&) {
    return void(++c->not_compared);
  } catch (const Refused&) {
    if (!accepted) return void(++c->refused);
    if (has_groups(view)) return void(++c->groups);
    ++c->only_ours;
    std::cout << file << ", mutation " << seed << ": refused here, accepted by libprotobuf\n";
    return;
  }
  ++c->differ;
  size_t at = 0;
  while (at < std::min(own.str().size(), theirs.str().size()) && own.str()[at] == theirs.str()[at]) ++at;
  const size_t from = at > 40 ? at - 40 : 0;
  std::cout << file << ", mutation " << seed << ": differs at " << at << ":\n  " << own.str().substr(from, 100) << "\n  "
            << theirs.str().substr(from, 100) << "\n";
}

// Changes, inserts or removes a byte, or cuts the file.
std::string damaged(std::string s, uint64_t seed) {
  std::mt19937_64 random(seed);
  if (s.empty()) return s;
  const size_t at = random() % s.size();
  switch (random() % 5) {
    case 0: s[at] = static_cast<char>(random()); break;
    case 1: s[at] = static_cast<char>(s[at] ^ (1 << random() % 8)); break;
    case 2: s.insert(at, 1, static_cast<char>(random())); break;
    case 3: s.erase(at, 1); break;
    default: s.resize(at);
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: onnx_decode MUTATIONS FILE...\n";
    return 2;
  }
  google::protobuf::SetLogHandler(nullptr);
  const uint64_t mutations = std::stoull(argv[1]);
  Counts c;
  for (int i = 2; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    compare(argv[i], bytes, 0, &c);
    for (uint64_t seed = 1; seed <= mutations; ++seed) {
      const std::optional<std::string> changed = seed % 2 ? rlxc::mutate_onnx(bytes, seed) : damaged(bytes, seed);
      if (changed) compare(argv[i], *changed, seed, &c);
    }
  }
  std::cout << c.equal << " equal, " << c.refused << " refused by both, " << c.not_compared << " not compared, " << c.groups
            << " with groups, " << c.only_theirs << " refused by libprotobuf alone, " << c.only_ours << " refused here alone, "
            << c.differ << " differ\n";
  return c.differ + c.only_ours > 0 ? 1 : 0;
}
