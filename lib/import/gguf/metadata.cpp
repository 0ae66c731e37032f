#include "import/gguf/metadata.h"

#include <bit>

namespace rlxc::gguf_import {
namespace {

void write_element(const ElementReader& e, ValueType type, JsonWriter& out) {
  switch (type) {
    case ValueType::String: out.string(ForeignText(e.text())); return;
    case ValueType::Bool: out.boolean(e.bits() != 0); return;
    case ValueType::F32: out.number(std::bit_cast<float>(static_cast<uint32_t>(e.bits()))); return;
    case ValueType::F64: out.number(std::bit_cast<double>(e.bits())); return;
    case ValueType::U64: out.unsigned_integer(e.bits()); return;
    default: out.integer(e.integer().value_or(0));
  }
}

}  // namespace

void write_metadata(const File& f, JsonWriter& out) {
  out.begin_object();
  for (const auto& [key, value] : f.metadata()) {
    out.key(key);
    if (value.list) out.begin_array(JsonLayout::Line);
    for (ElementReader e(value); e.next();) write_element(e, value.type, out);
    if (value.list) out.end_array();
  }
  out.end_object();
}

}  // namespace rlxc::gguf_import
