#include "import/json/reference.h"

namespace rlxc::import_json {
namespace {

// Reads the value of a field with `read`. A mismatch is an error of the node.
template <class Read>
void read_field(ReferenceNode& n, const Field& f, Read read) {
  JsonReader r(f.value);
  read(r);
  if (!r.ok()) n.fail(Code::BadAttribute, "\"" + f.name + "\": " + r.error());
}

template <class T, class Read>
std::vector<T> read_list(ReferenceNode& n, std::string_view field, Read read) {
  std::vector<T> out;
  if (const Field* f = n.find(field))
    read_field(n, *f, [&](JsonReader& r) {
      for (r.begin_array(); r.next_item();) read(r, &out.emplace_back());
    });
  return out;
}

}  // namespace

ValueId ReferenceNode::operand(size_t i) {
  if (i < in.size()) return in[i];
  fail(Code::BadArity, "has " + std::to_string(in.size()) + " inputs, needs at least " + std::to_string(i + 1));
  return {};
}

bool ReferenceNode::count(size_t low, size_t high) {
  if (in.size() >= low && in.size() <= high) return true;
  const std::string wanted = low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
  return fail(Code::BadArity, "has " + std::to_string(in.size()) + " inputs, needs " + wanted);
}

const Field* ReferenceNode::find(std::string_view field) const {
  for (const Field& f : fields)
    if (f.name == field) return f.value == "null" ? nullptr : &f;
  return nullptr;
}

int64_t ReferenceNode::integer(std::string_view field) {
  int64_t v = 0;
  const Field* f = find(field);
  if (!f) return fail(Code::BadAttribute, "\"" + std::string(field) + "\" is missing"), 0;
  read_field(*this, *f, [&](JsonReader& r) { r.integer(&v); });
  return v;
}

double ReferenceNode::number(std::string_view field, double otherwise) {
  double v = otherwise;
  if (const Field* f = find(field)) read_field(*this, *f, [&](JsonReader& r) { r.number(&v); });
  return v;
}

bool ReferenceNode::flag(std::string_view field) {
  bool v = false;
  if (const Field* f = find(field)) read_field(*this, *f, [&](JsonReader& r) { r.boolean(&v); });
  return v;
}

std::vector<int64_t> ReferenceNode::integers(std::string_view field) {
  return read_list<int64_t>(*this, field, [](JsonReader& r, int64_t* v) { r.integer(v); });
}

std::vector<double> ReferenceNode::numbers(std::string_view field) {
  return read_list<double>(*this, field, [](JsonReader& r, double* v) { r.number(v); });
}

std::string ReferenceNode::word(std::string_view field) {
  std::string s;
  if (const Field* f = find(field)) {
    JsonReader r(f->value);
    if (r.peek() == JsonReader::Kind::String) r.string(&s);
  }
  return s;
}

std::string ReferenceNode::payload_word() {
  std::string s;
  JsonReader r(payload);
  if (!r.string(&s)) fail(Code::BadAttribute, r.error());
  return s;
}

int64_t ReferenceNode::axis(int64_t written, int rank) {
  const int64_t a = written < 0 ? written + rank : written;
  if (a < 0 || a >= rank)
    return fail(Code::BadAttribute, "axis " + std::to_string(written) + " is not one of " + std::to_string(rank)), 0;
  return a;
}

}  // namespace rlxc::import_json
