// WGSL, one module per kernel. Binding 0 of group 0 is all written memory, as an array of words: WebGPU forbids binding parts of
// a buffer twice if one is written, and unaligned offsets. Binding 1 is a uniform with the first element of each argument (i32)
// and the symbols (i32). Bindings 2, 3, ... are further buffers of the memory, if a binding cannot cover it, then the `separate`
// arguments, each in one or more buffers. See kernel::Buffer::binding. WGSL has 32-bit types only. 8- and 16-bit elements are
// packed in words (f16 and bf16 load as f32), which one thread stores whole where it can (whole_words.h); other stores are
// atomic, because threads share words. 64-bit integers take 8 bytes in memory and are computed in 32 bits. f64 is rejected.
#include <algorithm>
#include <bit>
#include <set>

#include "backend/c/scalar_helpers.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/grains.h"
#include "backend/gpu/web_model.h"
#include "backend/gpu/whole_words.h"
#include "kernel/math.h"
#include "kernel/simplify.h"

namespace rlxc::target {
namespace {

using kernel::Access;
using kernel::Buffer;
using kernel::Launch;
using kernel::LoopKind;
using kernel::Space;

bool global(const Buffer& b) { return b.space == Space::Global; }
bool packed(const Buffer& b) { return global(b) && rlxc::bits(b.type.dtype) < 32; }
bool wide(const Buffer& b) { return global(b) && rlxc::bits(b.type.dtype) == 64; }
bool writable(const Buffer& b) { return b.access != Access::Read; }

// Helpers::needs(kAtomicMemory): the kernel's memory is an array of atomics.
const std::string kAtomicMemory = "atomic memory";

std::string scalar(DType t) {
  if (is_float(t)) return "f32";
  if (t == DType::Bool) return "bool";
  return dtype_class(t) == DTypeClass::UInt ? "u32" : "i32";
}

class Wgpu : public CLike {
 public:
  // has_f16: for devices with the feature shader-f16, kernels whose memory has f16 elements only (uses_f16): an array of them.
  explicit Wgpu(bool has_f16) : has_f16_(has_f16) {}
  std::string_view prelude() const override { return has_f16_ ? "enable f16;\n" : ""; }

  std::string type(Type t, Helpers&) const override {
    return t.lanes == 1 ? scalar(t.dtype) : "vec" + std::to_string(t.lanes) + "<" + scalar(t.dtype) + ">";
  }
  std::string element(DType t, Helpers&) const override { return t == DType::Bool ? "u32" : scalar(t); }
  std::string_view barrier(bool global) const override {
    return global ? "storageBarrier(); workgroupBarrier();" : "workgroupBarrier();";
  }

  std::string literal(const ExprNode& e) const override {
    DType t = e.type.dtype;
    if (t == DType::Bool) return e.payload ? "true" : "false";
    if (!is_float(t)) return std::to_string(e.payload) + (dtype_class(t) == DTypeClass::UInt ? "u" : "");
    double v = kernel::const_double(e);
    if (v != v) return "rlxc_float(0x7fc00000u)";
    if (v >= 0x1.fffffep127 && v - v == 0) return "0x1.fffffep+127f";  // the shortest decimal is out of range
    if (v <= -0x1.fffffep127 && v - v == 0) return "-0x1.fffffep+127f";
    if (v - v != 0) return v > 0 ? "rlxc_float(0x7f800000u)" : "rlxc_float(0xff800000u)";
    ExprNode f32 = e;
    f32.type.dtype = DType::F32;
    return CLike::literal(f32);
  }

  bool infix(ExprOp op, Type t) const override {
    bool logic = op == ExprOp::And || op == ExprOp::Or;
    if (t.dtype == DType::Bool) return logic || op == ExprOp::Eq || op == ExprOp::Ne;
    return CLike::infix(op, t) && (rlxc::bits(t.dtype) == 32 || is_float(t.dtype) || op == ExprOp::Lt || op == ExprOp::Le ||
                                   op == ExprOp::Eq || op == ExprOp::Ne);
  }

  std::string function(ExprOp op, Type t, Helpers& h) const override {
    std::string name = library(op, t.dtype);
    if (!name.empty()) return name;
    if (is_float(t.dtype) && (op == ExprOp::Sin || op == ExprOp::Cos || op == ExprOp::Tan)) return periodic(op, t, h);
    if (kernel::has_definition(op)) return defined_function(*this, op, t, kDefinition, h);
    return helper(op, t, h);
  }

  std::string parameter(const std::string& name, Type t, Helpers& h) const override { return name + ": " + type(t, h); }

  std::string cast(Type to, Type from, const std::string& value, Helpers& h) const override {
    DType t = to.dtype;
    std::string r = type(to, h);
    if (t == DType::Bool) return "(" + value + " != " + type(from, h) + "())";
    if (t == DType::F16 && from.dtype != DType::F16) return "quantizeToF16(" + cast({DType::F32, to.lanes}, from, value, h) + ")";
    if (t == DType::BF16 && from.dtype != DType::BF16)
      return bf16(to, h) + "(" + cast({DType::F32, to.lanes}, from, value, h) + ")";
    if (is_float(t)) return scalar(t) == scalar(from.dtype) ? value : r + "(" + value + ")";
    if (is_float(from.dtype)) return saturating(to, from, h) + "(" + value + ")";
    std::string converted = scalar(from.dtype) == scalar(t) ? value : r + "(" + value + ")";
    return rlxc::bits(t) < 32 && rlxc::bits(t) < rlxc::bits(from.dtype) + (from.dtype == DType::Bool ? 8 : 0)
               ? wrap(to, h) + "(" + converted + ")"
           : rlxc::bits(t) < 32 && dtype_class(t) != dtype_class(from.dtype) ? wrap(to, h) + "(" + converted + ")"
                                                                             : converted;
  }

  std::string bitcast(Type to, Type from, const std::string& value, Helpers& h) const override {
    if (from.lanes > 1 && to.lanes == 1) return packed_word(from, h) + "(" + value + ")";
    if (to.lanes > 1 && from.lanes == 1) return bytes_of_word(to, h) + "(" + value + ")";
    if (rlxc::bits(to.dtype) == 32) return "bitcast<" + type(to, h) + ">(" + value + ")";
    return narrow_bits(to, from, h) + "(" + value + ")";
  }

  std::string select(Type, Type, const std::string& c, const std::string& a, const std::string& b, Helpers&) const override {
    return "select(" + b + ", " + a + ", " + c + ")";
  }

  std::string load_if(const std::string& load, const std::string& c, const std::string& otherwise, Helpers&) const override {
    // WGSL clamps an out-of-bounds index or returns zero: the load is safe.
    return "select(" + otherwise + ", " + load + ", " + c + ")";
  }

  std::string broadcast(Type t, const std::string& s, Helpers& h) const override { return type(t, h) + "(" + s + ")"; }

  std::string ramp(Type t, const std::string& base, int64_t stride, Helpers& h) const override {
    std::string steps;
    for (int i = 0; i < t.lanes; ++i) steps += (i ? ", " : "") + std::to_string(i * stride);
    return "(" + broadcast(t, base, h) + " + " + type(t, h) + "(" + steps + "))";
  }

  std::string lane(const std::string& vector, int n) const override { return vector + "[" + std::to_string(n) + "]"; }

  // Functions of the language feature packed_4x8_integer_dot_product. Where it lacks, the host defines them.
  std::string dot(Type a, Type, Type, Helpers& h) const override {
    const bool is_int = is_signed(a.dtype);
    const std::string name = is_int ? "rlxc_dot_i8" : "rlxc_dot_u8", call = is_int ? "dot4I8Packed" : "dot4U8Packed";
    if (h.needs(name))
      h.add("fn " + name + "(a: i32, b: i32, c: i32) -> i32 {\n  return c + i32(" + call +
            "(bitcast<u32>(a), bitcast<u32>(b)));\n}\n");
    return name;
  }
  bool dots_words() const override { return true; }

  std::string load_word(const Buffer& b, const std::string& index, Helpers& h) const override {
    if (!packed(b) || is_half(b)) return {};
    return "bitcast<i32>(" + word_at(b, word_index(b, index), h) + ")";
  }

  std::string load(Type t, const Buffer& b, const std::string& index, bool gather, Helpers& h) const override {
    if (t.lanes == 1) return load_scalar(t, b, index, h);
    if (b.space == Space::Register && !gather) {  // functions don't see it
      std::string elements;
      for (int i = 0; i < t.lanes; ++i)
        elements += (i ? ", " : "") + load_scalar(t.scalar(), b, "(" + index + ") + " + std::to_string(i), h);
      return type(t, h) + "(" + elements + ")";
    }
    std::string name = "rlxc_load_" + b.name + std::to_string(t.lanes) + (gather ? "_at" : ""), all;
    if (!gather && (reads_elements(b, t.lanes) || (!is_half(b) && has_whole_words(b, t.lanes)))) {
      if (h.needs(name)) h.add(reads_elements(b, t.lanes) ? load_elements(name, t, b, h) : load_words(name, t, b, h));
      return name + "(" + index + ")";
    }
    if (h.needs(name)) {
      for (int i = 0; i < t.lanes; ++i)
        all += (i ? ", " : "") + load_scalar(t.scalar(), b,
                                             gather ? "i[" + std::to_string(i) + "]"
                                             : i    ? "i + " + std::to_string(i)
                                                    : "i",
                                             h);
      std::string at = gather ? type({DType::I32, t.lanes}, h) : "i32";
      h.add("fn " + name + "(i: " + at + ") -> " + type(t, h) + " {\n  return " + type(t, h) + "(" + all + ");\n}\n");
    }
    return name + "(" + index + ")";
  }

  std::string store(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const override {
    if (t.lanes == 1) return store_scalar(b, index, value, h);
    if (b.space == Space::Register) {  // functions don't see it
      std::string elements;
      for (int i = 0; i < t.lanes; ++i)
        elements += " " + store_scalar(b, "(" + index + ") + " + std::to_string(i), "rlxc_stored[" + std::to_string(i) + "]", h);
      return "{ let rlxc_stored = " + value + ";" + elements + " }";
    }
    std::string name = "rlxc_store_" + b.name + std::to_string(t.lanes), all;
    if (h.needs(name)) {
      if (reads_elements(b, t.lanes)) all = store_elements(t, b, h);
      else if (!is_half(b) && has_whole_words(b, t.lanes)) all = store_words(t, b, h);
      else
        for (int i = 0; i < t.lanes; ++i)
          all += "  " + store_scalar(b, i ? "i + " + std::to_string(i) : "i", "v[" + std::to_string(i) + "]", h) + "\n";
      h.add("fn " + name + "(i: i32, v: " + type(t, h) + ") {\n" + all + "}\n");
    }
    return name + "(" + index + ", " + value + ");";
  }

  std::string atomic_add(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const override {
    if (!is_float(t.dtype)) return touch(b, element_at(b, index), Touch::Add, "bitcast<u32>(" + value + ")", h);
    return touch(b, element_at(b, index), Touch::AddFloat, "bitcast<u32>(" + value + ")", h);
  }

  void declare_accessors(const Kernel& k, Helpers& h) const override {
    for (size_t i = 0; i < k.argument_count(); ++i) {
      const Buffer& b = k.buffers[i];
      const std::string t = type(b.type, h), read = load(b.type, b, "i", false, h), write = store(b.type, b, "i", "v", h);
      if (h.needs("load_" + b.name)) h.add("fn load_" + b.name + "(i: i32) -> " + t + " {\n  return " + read + ";\n}\n");
      if (writable(b) && h.needs("store_" + b.name))
        h.add("fn store_" + b.name + "(i: i32, v: " + t + ") {\n  " + write + "\n}\n");
    }
  }

  std::string declare(Type t, const std::string& name, const std::string& value, Helpers& h) const override {
    return "let " + name + ": " + type(t, h) + " = " + value + ";";
  }
  std::string registers(const Buffer& b, int64_t extent, const std::string& value, Helpers& h) const override {
    std::string t = type(b.type, h);
    return "var " + b.name + ": " + (extent == 1 ? t : "array<" + t + ", " + std::to_string(extent) + ">") +
           (value.empty() ? ";" : " = " + value + ";");
  }
  std::string shared(const Buffer& b, int64_t extent, Helpers& h) const override {
    if (h.needs("shared " + b.name))
      h.add("var<workgroup> " + b.name + ": array<" + array_element(b, word(b)) + ", " +
            std::to_string((extent + b.grain - 1) / b.grain) + ">;\n");
    return "";
  }
  std::string loop_head(const std::string& i, Type, const std::string& extent, Helpers&) const override {
    return "for (var " + i + ": i32 = 0; " + i + " < " + extent + "; " + i + "++) {";
  }

  std::string launch_index(LoopKind kind, int axis) const override {
    return std::string(kind == LoopKind::Grid ? "i32(rlxc_group." : "i32(rlxc_thread.") + "xyz"[axis] + ")";
  }

  std::string open(const Kernel& k, const Launch& launch, Helpers& h) const override {
    std::string bindings, arguments, names;
    bool atomic = !has_f16_ && stores_parts(k);
    for (size_t i = 0; i < k.argument_count(); ++i) atomic |= k.buffers[i].atomic;
    if (atomic) h.needs(kAtomicMemory);
    auto binding = [&](int slot) { return "@group(0) @binding(" + std::to_string(slot) + ") "; };
    std::set<std::string> declared;
    for (size_t i = 0; i < k.argument_count(); ++i) {
      const Buffer& b = k.buffers[i];
      for (int m = b.binding; m < b.binding + b.bindings; ++m)
        if (declared.insert(memory(b, m)).second)
          bindings += binding(m == 0 ? 0 : m + 1) + "var<storage, " + (b.separate ? "read> " : "read_write> ") + memory(b, m) +
                      ": array<" + (atomic && !b.separate && !is_half(b) ? "atomic<u32>" : array_element(b, item(b))) + ">;\n";
      arguments += (arguments.empty() ? "" : ", ") + b.name + "_at: i32";
    }
    for (kernel::VarId v : k.symbols) {
      arguments += (arguments.empty() ? "" : ", ") + k.var(v).name + ": i32";
      names += "  let " + k.var(v).name + " = rlxc_arguments." + k.var(v).name + ";\n";
    }
    if (!arguments.empty())
      bindings += "struct Arguments { " + arguments + " }\n" + binding(1) + "var<uniform> rlxc_arguments: Arguments;\n";
    if (h.needs("rlxc_float"))
      h.add(
          "fn rlxc_float(bits: u32) -> f32 {\n  var b = bits;  // not a constant: infinities are allowed\n  return "
          "bitcast<f32>(b);\n}\n");
    h.add(bindings);
    std::string size;
    for (int a = 0; a < 3; ++a) {
      int64_t n = 1;
      if (launch.threads[a].valid()) k.constant_int(launch.threads[a], &n);
      size += (a ? ", " : "") + std::to_string(n);
    }
    return "@compute @workgroup_size(" + size + ")\nfn " + k.name +
           "(@builtin(workgroup_id) rlxc_group: vec3<u32>, @builtin(local_invocation_id) rlxc_thread: vec3<u32>) {\n" + names;
  }

 private:
  const bool has_f16_;
  bool is_half(const Buffer& b) const { return has_f16_ && global(b) && b.type.dtype == DType::F16; }

  // The scalar type of an array of memory: u32, or f16 where the device has it.
  std::string item(const Buffer& b) const { return is_half(b) ? "f16" : "u32"; }
  int items(const Buffer& b) const { return is_half(b) ? 2 * b.grain : b.grain; }  // of an element of the array
  std::string array_element(const Buffer& b, const std::string& item) const {
    const int n = global(b) ? items(b) : b.grain;
    return b.grain == 1 ? item : "vec" + std::to_string(n) + "<" + item + ">";
  }
  // Items of an array of vectors by number, and elements of it by the number of their first item.
  static std::string of_array(const std::string& array, const std::string& item, int items) {
    const std::string mask = std::to_string(items - 1);
    return array + "[(" + item + ") >> " + shift(items) + "][(" + item + ") & " + mask + "]";
  }
  static std::string shift(int items) {
    return std::string(1, static_cast<char>('0' + std::countr_zero(static_cast<unsigned>(items)))) + "u";
  }

  // Whether a vector is whole elements of an array of vectors. choose_grains() makes them begin at one.
  bool reads_elements(const Buffer& b, int lanes) const {
    return b.grain > 1 && lanes * static_cast<int>(global(b) ? rlxc::bits(b.type.dtype) : 32) % (32 * b.grain) == 0;
  }
  // Elements of the array in the vector.
  int elements_of(const Buffer& b, int lanes) const { return packed(b) ? lanes / in_word(b) / b.grain : lanes / b.grain; }
  // The number of the first item of the vector whose first element is `i`.
  std::string first_item(const Buffer& b) const {
    if (!global(b)) return "i";
    return packed(b) && !is_half(b) ? word_index(b, "i") : element_at(b, "i");
  }

  std::string load_elements(const std::string& name, Type t, const Buffer& b, Helpers& h) const {
    const int n = elements_of(b, t.lanes);
    const std::string v = type(t, h);
    std::string loads = "  let at = (" + first_item(b) + ") >> " + shift(global(b) ? items(b) : b.grain) + ";\n", all;
    std::vector<std::string> words;
    for (int i = 0; i < n; ++i) {
      const std::string at = i ? "at + " + std::to_string(i) : "at", e = "e" + std::to_string(i);
      loads += "  let " + e + " = " + (global(b) ? touch(b, at, Touch::LoadElement, "", h) : b.name + "[" + at + "]") + ";\n";
      all += (i ? ", " : "") + e;
      for (int w = 0; w < b.grain; ++w) words.push_back(e + "[" + std::to_string(w) + "]");
    }
    const std::string head = "fn " + name + "(i: i32) -> " + v + " {\n" + loads + "  return ";
    if (packed(b) && !is_half(b)) return head + of_words(t, b, words, h) + ";\n}\n";
    const std::string joined =
        n == 1 ? all : "vec" + std::to_string(t.lanes) + "<" + (global(b) ? item(b) : word(b)) + ">(" + all + ")";
    if (!global(b)) return head + joined + ";\n}\n";
    if (is_half(b)) return head + v + "(" + joined + ");\n}\n";
    return head + (scalar(t.dtype) == "u32" ? joined : "bitcast<" + v + ">(" + joined + ")") + ";\n}\n";
  }

  std::string store_elements(Type t, const Buffer& b, Helpers& h) const {
    const int n = elements_of(b, t.lanes), each = t.lanes / n;
    std::string all = "  let at = (" + first_item(b) + ") >> " + shift(global(b) ? items(b) : b.grain) + ";\n";
    for (int i = 0; i < n; ++i) {
      const std::string at = i ? "at + " + std::to_string(i) : "at", to = array_element(b, global(b) ? item(b) : word(b));
      std::string part, value;
      for (int l = 0; l < each; ++l) part += (l ? ", v[" : "v[") + std::to_string(i * each + l) + "]";
      part = n == 1 ? "v" : type({t.dtype, each}, h) + "(" + part + ")";
      if (!global(b)) {
        all += "  " + b.name + "[" + at + "] = " + part + ";\n";
        continue;
      }
      if (is_half(b)) value = to + "(" + part + ")";
      else if (!packed(b)) value = scalar(t.dtype) == "u32" ? part : "bitcast<" + to + ">(" + part + ")";
      else
        for (int w = 0; w < b.grain; ++w)
          value += (w ? ", " : to + "(") + word_of(t, b, i * b.grain + w) + (w + 1 == b.grain ? ")" : "");
      all += "  " + touch(b, at, Touch::StoreElement, value, h) + "\n";
    }
    return all;
  }

  // Returns the element type of the array for a Shared buffer.
  static std::string word(const Buffer& b) { return b.type.dtype == DType::Bool ? "u32" : scalar(b.type.dtype); }

  // Global memory is an array of words. Each argument has its first element's index.
  static std::string element_at(const Buffer& b, const std::string& index) {
    return "rlxc_arguments." + b.name + "_at" +
           (index == "0" ? "" : " + " + (index.find(' ') == std::string::npos ? index : "(" + index + ")"));
  }
  static std::string memory(const Buffer& b, int binding) {
    if (b.separate) return b.name + (b.bindings == 1 ? "" : "_" + std::to_string(binding - b.binding));
    return "rlxc_memory" + (binding == 0 ? "" : "_" + std::to_string(binding));
  }

  // An access to a word, as a WGSL expression or statement over $P, its place, and $V.
  // LoadElement, StoreElement: to an element of an array of vectors, with its number as the word.
  enum class Touch : uint8_t { Load, LoadElement, Store, StoreElement, And, Or, Add, AddFloat };
  struct TouchText {
    std::string_view name, plain, atomic;
  };
  static constexpr TouchText kTouches[] = {
      {"load", "$P", "atomicLoad(&$P)"},
      {"load_element", "$P", ""},
      {"store", "$P = $V;", "atomicStore(&$P, $V);"},
      {"store_element", "$P = $V;", ""},
      {"and", "", "atomicAnd(&$P, $V);"},
      {"or", "", "atomicOr(&$P, $V);"},
      {"add", "", "atomicAdd(&$P, $V);"},
      {"add_float", "",
       "var old = atomicLoad(&$P);\n  loop {\n    let r = atomicCompareExchangeWeak(&$P, old, bitcast<u32>(bitcast<f32>(old) + "
       "bitcast<f32>($V)));\n    if (r.exchanged) { break; }\n    old = r.old_value;\n  }"},
  };

  // Emits a helper function if several bindings hold the buffer, or if the access takes more than a line.
  std::string touch(const Buffer& b, const std::string& word, Touch what, const std::string& value, Helpers& h) const {
    const TouchText& row = kTouches[static_cast<size_t>(what)];
    const bool loads = what == Touch::Load || what == Touch::LoadElement;
    const bool is_element = what == Touch::LoadElement || what == Touch::StoreElement, is_part = b.grain > 1 && !is_element;
    const auto text = [&](int binding, std::string_view at, std::string_view v) {
      const std::string array = memory(b, binding);
      const std::string place = is_part ? of_array(array, std::string(at), items(b)) : array + "[" + std::string(at) + "]";
      return expand(!b.separate && h.has(kAtomicMemory) ? row.atomic : row.plain, {{"P", place}, {"V", std::string(v)}});
    };
    if (b.bindings == 1 && what != Touch::AddFloat) return text(b.binding, word, value);
    const std::string name = "rlxc_" + std::string(row.name) + "_word_of_" + b.name;
    if (h.needs(name)) {
      std::string body = "  var at = u32(word);\n";
      const int last = b.binding + b.bindings - 1;
      for (int m = b.binding; m < last; ++m) {
        const std::string length = "arrayLength(&" + memory(b, m) + ")" + (is_part ? " * " + std::to_string(items(b)) + "u" : "");
        body += "  if (at < " + length + ") { " +
                (loads ? "return " + text(m, "at", "v") + ";" : text(m, "at", "v") + " return;") + " }\n  at -= " + length +
                ";\n";
      }
      body += "  " + (loads ? "return " + text(last, "at", "v") + ";" : text(last, "at", "v")) + "\n";
      const std::string t = is_element ? array_element(b, item(b)) : item(b);
      h.add("fn " + name + "(word: i32" + (loads ? ") -> " + t : ", v: " + t + ")") + " {\n" + body + "}\n");
    }
    return name + "(" + word + (loads ? ")" : ", " + value + ");");
  }
  std::string word_at(const Buffer& b, const std::string& word, Helpers& h) const { return touch(b, word, Touch::Load, "", h); }

  static constexpr std::string_view kDefinition = "fn $F($P) -> $R {\n";

  // Computes the periods of large angles only where there are any.
  std::string periodic(ExprOp op, Type t, Helpers& h) const {
    const std::string near = defined_function(*this, op, t, kDefinition, h, kernel::Periods::Near);
    const std::string all = defined_function(*this, op, t, kDefinition, h), name = "rlxc_any_" + all.substr(5), v = type(t, h);
    if (h.needs(name))
      h.add("fn " + name + "(x: " + v + ") -> " + v + " {\n  if (all(abs(x) <= " + v + "(" +
            std::to_string(static_cast<int>(kernel::kNearPeriods)) + "))) { return " + near + "(x); }\n  return " + all +
            "(x);\n}\n");
    return name;
  }

  // The language's own exponentials, logarithms, trigonometric and hyperbolic functions may be inexact (WGSL, 15.7.4).
  static std::string library(ExprOp op, DType t) {
    if (op == ExprOp::Not) return "!";
    if (op == ExprOp::Abs && rlxc::bits(t) >= 32) return "abs";
    if (op == ExprOp::BitNot) return t == DType::Bool ? "!" : rlxc::bits(t) == 32 ? "~" : "";
    if (!is_float(t)) return rlxc::bits(t) >= 32 && (op == ExprOp::Min || op == ExprOp::Max) ? std::string(kernel::name(op)) : "";
    switch (op) {
      case ExprOp::Exp2:  // of softmax and attention
      case ExprOp::Sqrt:
      case ExprOp::Floor:
      case ExprOp::Ceil:
      case ExprOp::Trunc:
      case ExprOp::Fma: return std::string(kernel::name(op));
      case ExprOp::Rsqrt: return "inverseSqrt";
      case ExprOp::RoundEven: return "round";
      default: return "";
    }
  }

  // Emits one-line functions. On vectors, `select` and the operators apply per lane.
  std::string helper(ExprOp op, Type t, Helpers& h) const {
    std::string name = "rlxc_" + std::string(kernel::name(op)) + "_" + suffix(t), v = type(t, h), r = type(result_type(op, t), h),
                body;
    if (!h.needs(name)) return name;
    bool reduces = kernel::type_rule(op) == kernel::TypeRule::Shape;
    std::string zero = v + "()", minus_one = v + "(-1)", u = type({DType::U32, t.lanes}, h);
    bool is_signed = dtype_class(t.dtype) == DTypeClass::Int;
    switch (op) {
      case ExprOp::Min:
      case ExprOp::Max: {
        std::string symbol = op == ExprOp::Min ? "<" : ">";
        // Compilers may take a != a for false.
        body = is_float(t.dtype) ? "select(b, a, (a " + symbol + " b) | " + function(ExprOp::IsNan, t, h) + "(a))"
                                 : std::string(kernel::name(op)) + "(a, b)";
        break;
      }
      case ExprOp::Div:
      case ExprOp::Mod: {
        std::string plain = std::string("a ") + (op == ExprOp::Div ? "/" : "%") + " select(b, " + v + "(1), b == " + zero + ")";
        if (is_float(t.dtype)) plain = "a % b";
        body = is_float(t.dtype) ? plain : "select(" + plain + ", " + zero + ", b == " + zero + ")";
        break;
      }
      case ExprOp::Shl:
      case ExprOp::Shr:
        body = std::string("a ") + (op == ExprOp::Shl ? "<<" : ">>") + " (" + u + "(b) & " + u + "(" +
               std::to_string(rlxc::bits(t.dtype) - 1) + "u))";
        break;
      case ExprOp::Xor: body = t.dtype == DType::Bool ? "a != b" : "a ^ b"; break;
      case ExprOp::Add: body = "a + b"; break;
      case ExprOp::Sub: body = "a - b"; break;
      case ExprOp::Mul: body = "a * b"; break;
      case ExprOp::And: body = "a & b"; break;
      case ExprOp::Or: body = "a | b"; break;
      case ExprOp::Neg: body = is_signed ? "-a" : zero + " - a"; break;
      case ExprOp::Abs: body = "abs(a)"; break;
      case ExprOp::BitNot: body = "~a"; break;
      case ExprOp::Lt: body = "a < b"; break;
      case ExprOp::Le: body = "a <= b"; break;
      default: break;
    }
    if (reduces) {
      ExprOp pair = op == ExprOp::ReduceAdd   ? ExprOp::Add
                    : op == ExprOp::ReduceMul ? ExprOp::Mul
                    : op == ExprOp::ReduceMax ? ExprOp::Max
                                              : ExprOp::Min;
      std::string f = helper(pair, t.scalar(), h);
      body = t.lanes == 2 ? f + "(a[0], a[1])" : f + "(" + f + "(a[0], a[2]), " + f + "(a[1], a[3]))";
      r = type(t.scalar(), h);
    } else if (!is_float(t.dtype) && rlxc::bits(t.dtype) < 32 && t.dtype != DType::Bool && result_type(op, t) == t) {
      body = wrap(t, h) + "(" + body + ")";
    }
    bool two = kernel::operand_count(op) == 2;
    h.add("fn " + name + "(a: " + v + (two ? ", b: " + v : "") + ") -> " + r + " {\n  return " + body + ";\n}\n");
    return name;
  }

  // Packs four bytes, which WGSL has as 32-bit lanes, in a word.
  std::string packed_word(Type from, Helpers& h) const {
    const std::string name = "rlxc_word_of_" + suffix(from);
    if (h.needs(name))
      h.add("fn " + name + "(v: " + type(from, h) +
            ") -> i32 {\n  let b = (bitcast<vec4<u32>>(v) & vec4<u32>(0xffu)) << vec4<u32>(0u, 8u, 16u, 24u);\n  return "
            "bitcast<i32>(b.x | b.y | b.z | b.w);\n}\n");
    return name;
  }
  std::string bytes_of_word(Type to, Helpers& h) const {
    const std::string name = "rlxc_bytes_" + suffix(to), v = type(to, h);
    if (h.needs(name))
      h.add("fn " + name + "(w: i32) -> " + v +
            " {\n  let b = vec4<u32>(bitcast<u32>(w)) << vec4<u32>(24u, 16u, 8u, 0u);\n  return " + "bitcast<" + v +
            ">(b) >> vec4<u32>(24u);\n}\n");
    return name;
  }

  // Kernels compute with elements of 32 bits. bits_of() returns an element of at most 16 bits as the low bits of a u32 whose
  // other bits are 0; of_bits() is the inverse.
  static std::string bits_of(DType t, const std::string& element) {
    if (t == DType::F16) return "pack2x16float(vec2<f32>(" + element + ", 0.0))";
    if (t == DType::BF16) return "(bitcast<u32>(" + element + ") >> 16u)";
    if (t == DType::Bool) return "u32(" + element + ")";
    return "(u32(" + element + ") & " + mask_of(t) + ")";
  }
  std::string of_bits(Type t, const std::string& bits, Helpers& h) const {
    if (t.dtype == DType::F16) return "unpack2x16float(" + bits + ").x";
    if (t.dtype == DType::BF16) return "bitcast<f32>((" + bits + ") << 16u)";
    if (t.dtype == DType::Bool) return "(" + bits + ") != 0u";
    return dtype_class(t.dtype) == DTypeClass::Int ? wrap(t, h) + "(bitcast<i32>(" + bits + "))" : bits;
  }
  static std::string mask_of(DType t) { return rlxc::bits(t) == 8 ? "0xffu" : "0xffffu"; }

  // The bits of an element of at most 16 bits as another type.
  std::string narrow_bits(Type to, Type from, Helpers& h) const {
    const std::string name = "rlxc_bits_" + suffix(from) + "_" + suffix(to);
    if (!h.needs(name)) return name;
    std::string value;
    if (to.lanes > 1) {
      const std::string one = narrow_bits(to.scalar(), from.scalar(), h);
      for (int i = 0; i < to.lanes; ++i) value += (i ? ", " : "") + one + "(" + lane("a", i) + ")";
      value = type(to, h) + "(" + value + ")";
    } else {
      value = of_bits(to, bits_of(from.dtype, "a"), h);
    }
    h.add("fn " + name + "(a: " + type(from, h) + ") -> " + type(to, h) + " {\n  return " + value + ";\n}\n");
    return name;
  }

  // Truncates a word to a narrow integer.
  std::string wrap(Type t, Helpers& h) const {
    std::string name = "rlxc_wrap_" + suffix(t), v = type(t, h),
                shift = type({DType::U32, t.lanes}, h) + "(" + std::to_string(32 - rlxc::bits(t.dtype)) + "u)";
    if (h.needs(name))
      h.add("fn " + name + "(a: " + v + ") -> " + v + " {\n  return (a << " + shift + ") >> " + shift + ";\n}\n");
    return name;
  }

  std::string saturating(Type to, Type from, Helpers& h) const {
    std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from), v = type(from, h), r = type(to, h);
    int bits = rlxc::bits(to.dtype);
    bool is_signed = dtype_class(to.dtype) == DTypeClass::Int;
    std::string top = std::to_string(((uint64_t{1} << (is_signed ? bits - 1 : bits)) - 1)),
                bottom = is_signed ? "-" + std::to_string(uint64_t{1} << (bits - 1)) : "0";
    std::string u = is_signed ? "" : "u";
    // i32() and u32() of a float saturate; the clamp is for narrower types.
    std::string value = bits == 32 ? r + "(a)" : "clamp(" + r + "(a), " + r + "(" + bottom + u + "), " + r + "(" + top + u + "))";
    if (h.needs(name))
      h.add("fn " + name + "(a: " + v + ") -> " + r + " {\n  return select(" + value + ", " + r + "(), a != a);\n}\n");
    return name;
  }

  std::string bf16(Type to, Helpers& h) const {
    std::string name = "rlxc_round_" + suffix(to), v = type(to, h), u = type({DType::U32, to.lanes}, h);
    if (h.needs(name)) {
      std::string sixteen = u + "(16u)";
      h.add("fn " + name + "(a: " + v + ") -> " + v + " {\n  let b = bitcast<" + u + ">(a);\n  let r = (b + " + u +
            "(0x7fffu) + ((b >> " + sixteen + ") & " + u + "(1u))) & " + u + "(0xffff0000u);\n  return select(bitcast<" + v +
            ">(r), a, a != a);\n}\n");
    }
    return name;
  }

  // Vectors that fill words. align_words() makes them begin at one.
  static int in_word(const Buffer& b) { return 32 / static_cast<int>(rlxc::bits(b.type.dtype)); }
  static bool has_whole_words(const Buffer& b, int lanes) { return packed(b) && lanes >= in_word(b); }
  static std::string word_index(const Buffer& b, const std::string& index) {
    return "(" + element_at(b, index) + ") >> " + shift(in_word(b));
  }

  std::string load_words(const std::string& name, Type t, const Buffer& b, Helpers& h) const {
    std::string loads;
    std::vector<std::string> words;
    for (int n = 0; n < t.lanes / in_word(b); ++n) {
      words.push_back("w" + std::to_string(n));
      loads += "  let " + words.back() + " = " + word_at(b, n ? "at + " + std::to_string(n) : "at", h) + ";\n";
    }
    return "fn " + name + "(i: i32) -> " + type(t, h) + " {\n  let at = " + word_index(b, "i") + ";\n" + loads + "  return " +
           of_words(t, b, words, h) + ";\n}\n";
  }

  // A vector from the words that hold it.
  std::string of_words(Type t, const Buffer& b, const std::vector<std::string>& words, Helpers& h) const {
    const int each = in_word(b), bits = 32 / each;
    const std::string v = type(t, h), u = type({DType::U32, t.lanes}, h), rest = u + "(" + std::to_string(32 - bits) + "u)";
    std::string parts, halves, value;
    for (const std::string& word : words) {
      halves += (halves.empty() ? "unpack2x16float(" : ", unpack2x16float(") + word + ")";
      for (int i = 0; i < each; ++i)
        parts += (parts.empty() ? "" : ", ") + word + (i ? " >> " + std::to_string(i * bits) + "u" : "");
    }
    const std::string all = u + "(" + parts + ")", masked = "(" + all + " & " + u + "(" + mask_of(t.dtype) + "))";
    if (t.dtype == DType::F16) value = t.lanes == 2 ? halves : v + "(" + halves + ")";
    else if (t.dtype == DType::BF16) value = "bitcast<" + v + ">(" + all + " << " + rest + ")";
    else if (t.dtype == DType::Bool) value = masked + " != " + u + "()";
    else if (is_signed(t.dtype)) value = "bitcast<" + v + ">(" + all + " << " + rest + ") >> " + rest;
    else value = masked;
    return value;
  }

  std::string store_words(Type t, const Buffer& b, Helpers& h) const {
    std::string all = "  let at = " + word_index(b, "i") + ";\n";
    for (int n = 0; n < t.lanes / in_word(b); ++n)
      all += "  " + touch(b, n ? "at + " + std::to_string(n) : "at", Touch::Store, word_of(t, b, n), h) + "\n";
    return all;
  }

  // The word of elements n * in_word .. of the vector v.
  static std::string word_of(Type t, const Buffer& b, int n) {
    const int each = in_word(b), bits = 32 / each;
    const auto part = [&](int i) { return "v[" + std::to_string(n * each + i) + "]"; };
    if (t.dtype == DType::F16) return "pack2x16float(vec2<f32>(" + part(0) + ", " + part(1) + "))";
    std::string word = bits_of(t.dtype, part(0));
    for (int i = 1; i < each; ++i) word += " | (" + bits_of(t.dtype, part(i)) + " << " + std::to_string(i * bits) + "u)";
    return word;
  }

  std::string load_scalar(Type t, const Buffer& b, const std::string& index, Helpers& h) const {
    if (!global(b)) {
      std::string at = b.grain > 1 ? of_array(b.name, index, b.grain) : b.name + "[" + index + "]";
      return t.dtype == DType::Bool && b.space == Space::Shared ? "(" + at + " != 0u)" : at;
    }
    if (is_half(b)) return "f32(" + word_at(b, element_at(b, index), h) + ")";
    if (!packed(b)) {
      std::string value = word_at(b, wide(b) ? "2 * (" + element_at(b, index) + ")" : element_at(b, index), h);
      return scalar(t.dtype) == "u32" ? value : "bitcast<" + scalar(t.dtype) + ">(" + value + ")";
    }
    std::string name = "rlxc_read_" + b.name;
    int bits = rlxc::bits(t.dtype), per_word = 32 / bits;
    if (h.needs(name)) {
      const std::string word = word_at(b, "at >> " + shift(per_word), h),
                        by = "u32(at & " + std::to_string(per_word - 1) + ") * " + std::to_string(bits) + "u";
      const std::string value = of_bits(t, "(" + word + " >> (" + by + ")) & " + mask_of(t.dtype), h);
      h.add("fn " + name + "(i: i32) -> " + type(t, h) + " {\n  let at = " + element_at(b, "i") + ";\n  return " + value +
            ";\n}\n");
    }
    return name + "(" + index + ")";
  }

  std::string store_scalar(const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const {
    DType t = b.type.dtype;
    if (!global(b))
      return b.name + "[" + index + "] = " + (t == DType::Bool && b.space == Space::Shared ? "u32(" + value + ")" : value) + ";";
    if (wide(b)) {
      std::string name = "rlxc_write_" + b.name, high = t == DType::I64 ? "bitcast<u32>(v >> 31u)" : "0u";
      if (h.needs(name))
        h.add("fn " + name + "(i: i32, v: " + scalar(t) + ") {\n  let at = 2 * (" + element_at(b, "i") + ");\n  " +
              touch(b, "at", Touch::Store, "bitcast<u32>(v)", h) + "\n  " + touch(b, "at + 1", Touch::Store, high, h) + "\n}\n");
      return name + "(" + index + ", " + value + ");";
    }
    if (is_half(b)) return touch(b, element_at(b, index), Touch::Store, "f16(" + value + ")", h);
    if (!packed(b)) return touch(b, element_at(b, index), Touch::Store, "bitcast<u32>(" + value + ")", h);
    std::string name = "rlxc_write_" + b.name;
    int bits = rlxc::bits(t), per_word = 32 / bits;
    if (h.needs(name)) {
      const std::string mask = mask_of(t), word = "at >> " + shift(per_word), part = bits_of(t, "v");
      h.add("fn " + name + "(i: i32, v: " + scalar(t) + ") {\n  let at = " + element_at(b, "i") + ";\n  let shift = u32(at & " +
            std::to_string(per_word - 1) + ") * " + std::to_string(bits) + "u;\n  " +
            touch(b, word, Touch::And, "~(" + mask + " << shift)", h) + "\n  " +
            touch(b, word, Touch::Or, part + " << shift", h) + "\n}\n");
    }
    return name + "(" + index + ", " + value + ");";
  }
};

}  // namespace

static const CLike& wgpu() {
  static const Wgpu target(false);
  return target;
}
static const CLike& wgpu_with_f16() {
  static const Wgpu target(true);
  return target;
}

// Kernels that store whole words gain nothing: they read two elements at a time.
static bool wgpu_uses_f16(const Kernel& k) {
  if (!stores_parts(k)) return false;
  bool any = false;
  for (const Buffer& b : k.buffers) {
    if (!global(b)) continue;
    if (!b.separate && b.type.dtype != DType::F16) return false;
    any = any || b.type.dtype == DType::F16;
  }
  return any;
}

// Narrows 64-bit integers to 32 bits, except in argument types. Constants saturate.
static void wgpu_prepare(Kernel& k, const std::vector<uint8_t>& alignments) {
  std::vector<bool> begins_word;
  for (const uint8_t bytes : alignments) begins_word.push_back(bytes >= 4);
  align_words(k, begins_word);
  merge_stores(k, begins_word);
  choose_grains(k, alignments);
  kernel::narrow_indices(k, true);
  auto narrow = [](Type& t) {
    if (t.dtype == DType::I64) t.dtype = DType::I32;
    if (t.dtype == DType::U64) t.dtype = DType::U32;
  };
  for (ExprNode& e : k.exprs) {
    if (e.op == ExprOp::Const && e.type.dtype == DType::I64) e.payload = std::clamp<int64_t>(e.payload, INT32_MIN, INT32_MAX);
    if (e.op == ExprOp::Const && e.type.dtype == DType::U64)
      e.payload = static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(e.payload), UINT32_MAX));
    narrow(e.type);
  }
  for (kernel::Var& v : k.vars) narrow(v.type);
  for (Buffer& b : k.buffers)
    if (!global(b)) narrow(b.type);
}

static std::string wgpu_refuses(const Kernel& k) {
  for (const Buffer& b : k.buffers)
    if (b.atomic && wide(b)) return "WGSL has no atomic addition of 64 bits";
  for (const ExprNode& e : k.exprs) {
    if (e.type.dtype == DType::F64) return "WGSL has no f64";
    if (e.type.lanes > 4) return "WGSL has no vectors of " + std::to_string(e.type.lanes) + " lanes";
    if (e.op == ExprOp::ShuffleXor) return "shuffles need the subgroups feature";
    if (e.op == ExprOp::Bitcast && e.type.lanes != k.expr(e.args[0]).type.lanes &&
        std::max(e.type, k.expr(e.args[0]).type, [](Type a, Type b) { return a.lanes < b.lanes; }).lanes != 4)
      return "WGSL has no such cast of a vector";
  }
  return "";
}

}  // namespace rlxc::target

namespace rlxc {
namespace {

constexpr std::string_view kWebRun =
    "In Node, with the npm package `webgpu`: `node run.mjs WEIGHTS [SIZE=VALUE...] INPUT...` runs the model on raw files and "
    "writes output_<i>.bin. In a browser with "
    "WebGPU: serve this folder, with the weights files in it, and open index.html. 64-bit integers are computed with 32 bits; "
    "f16 and bf16 with f32. Files `*.f16.wgsl` are for adapters with the feature `shader-f16`.";

constexpr HostPart kWgpuHost[] = {{"rlxc.mjs", "rlxc.mjs", "carries out `launch.json` on WebGPU"},
                                  {"rlxc.d.mts", "rlxc.d.mts", "its types for TypeScript"},
                                  {"run.mjs", "run.mjs", "a runner on raw files, for Node"},
                                  {"index.html", "index.html", "a page that runs the model"}};

constexpr kernel::Mapping wgpu_mapping() {
  kernel::Mapping m = grid_mapping(64, 256, 1, 16 << 10, 4, {}, kByteDotsOfOneSign);
  m.max_grid = {65535, 65535, 65535};
  m.whole_vectors = true;
  return m;
}

}  // namespace

static constexpr TargetInfo kWgpu = {.name = "wgpu",
                                     .emits = "WGSL",
                                     .extension = "wgsl",
                                     .language = target::wgpu,
                                     .supports = has_kernels,
                                     .dtypes = kKernelTypes,
                                     .mapping = wgpu_mapping(),
                                     .region_steps = 128,
                                     .region_inputs = 32,
                                     .machine = {3000, 100, 2000, 32, 500e3},
                                     .alignment = 256,
                                     .max_binding = uint64_t{128} << 20,
                                     .max_arguments = 8,
                                     .claims = 3,
                                     .host_run = {.how = HostRun::How::Script, .interpreter = "node", .script = "run.mjs"}};
static constexpr GpuPackaging kWgpuPackaging = {.kernels_in_file = 0,
                                                .host = kWgpuHost,
                                                .command = "node run.mjs",
                                                .how = kWebRun,
                                                .model_files = web_model,
                                                .example = web_example,
                                                .prepare = target::wgpu_prepare,
                                                .with_f16 = target::wgpu_with_f16,
                                                .uses_f16 = target::wgpu_uses_f16,
                                                .refuses = target::wgpu_refuses};

const Backend& wgpu_backend() {
  static const GpuBackend backend(kWgpu, kWgpuPackaging);
  return backend;
}

}  // namespace rlxc
