// Type rules of ops with data-dependent dims, and of string ops.
#include <algorithm>

#include "ir/infer.h"

namespace rlxc {
namespace {

bool one_number(InferContext& c, size_t i, bool integer) {
  if (!c.has(i)) return true;
  const DType t = c.t(i).dtype;
  if ((integer ? is_integer(t) : is_float(t)) && num_elements(c.t(i)).value_or(1) == 1) return true;
  return c.fail("operand " + std::to_string(i) + " must be one " + (integer ? "integer" : "float") + ", is " + c.show(i));
}

bool text_operand(InferContext& c, size_t i) {
  return c.t(i).dtype == DType::String ? true : c.fail("operand " + std::to_string(i) + " must hold strings, is " + c.show(i));
}

}  // namespace

bool infer_iota(InferContext& c) { return one_number(c, 0, true) && c.result(DType::I64, {c.dims().fresh("n")}); }

bool infer_non_zero(InferContext& c) {
  return c.result(DType::I64, {Dim(std::max(c.t(0).rank(), 1)), c.dims().fresh("nonzero")});
}

bool infer_unique(InferContext& c) {
  const auto& a = c.a<UniqueAttrs>();
  if (is_complex(c.t(0).dtype)) return c.fail("complex numbers have no order");
  const Dim count = c.dims().fresh("unique");
  Dim all = c.dims().product(c.t(0).dims);
  if (a.flat) {
    c.result(c.t(0).dtype, {count});
  } else {
    if (!check_axis(c, a.axis, c.t(0).rank())) return false;
    std::vector<Dim> dims = c.t(0).dims;
    all = std::exchange(dims[static_cast<size_t>(a.axis)], count);
    c.result(c.t(0).dtype, std::move(dims));
  }
  return c.result(DType::I64, {count}) && c.result(DType::I64, {all}) && c.result(DType::I64, {count});
}

bool infer_non_max_suppression(InferContext& c) {
  const Type &boxes = c.t(0), &scores = c.t(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dtype != DType::F32 || scores.dtype != DType::F32)
    return c.fail("needs boxes f32[batch,n,4] and scores f32[batch,classes,n], has " + c.show(0) + " and " + c.show(1));
  if (!require_equal(c, boxes.dims[2], Dim(4), "coordinates of a box") ||
      !require_equal(c, boxes.dims[0], scores.dims[0], "batches") ||
      !require_equal(c, boxes.dims[1], scores.dims[2], "numbers of boxes"))
    return false;
  return one_number(c, 2, true) && one_number(c, 3, false) && one_number(c, 4, false) &&
         c.result(DType::I64, {c.dims().fresh("selected"), Dim(3)});
}

bool infer_image_decode(InferContext& c) {
  if (c.t(0).dtype != DType::U8 || c.t(0).rank() != 1) return c.fail("needs the bytes of a file, u8[n], is " + c.show(0));
  const int64_t channels = c.a<ImageDecodeAttrs>().format == PixelFormat::Grayscale ? 1 : 3;
  return c.result(DType::U8, {c.dims().fresh("height"), c.dims().fresh("width"), Dim(channels)});
}

bool infer_random(InferContext& c) {
  const auto& a = c.a<RandomAttrs>();
  if (!is_float(a.to)) return c.fail("random numbers are floats");
  return c.result(a.to, a.dims);
}

bool infer_reshape_to(InferContext& c) {
  const int64_t rank = c.t(1).rank() == 1 ? c.dims().constant_value(c.t(1).dims[0]).value_or(-1) : -1;
  if (!is_integer(c.t(1).dtype) || rank < 0 || rank > 64)
    return c.fail("the sizes must be integers of known number, are " + c.show(1));
  std::vector<Dim> dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(c.dims().fresh("size"));
  return c.result(c.t(0).dtype, std::move(dims));
}

bool infer_det(InferContext& c) {
  const auto& d = c.t(0).dims;
  if (d.size() < 2 || !is_float(c.t(0).dtype)) return c.fail("needs square matrices of floats, is " + c.show(0));
  return require_equal(c, d[d.size() - 2], d.back(), "sides of the matrix") && c.result(c.t(0).dtype, {d.begin(), d.end() - 2});
}

bool infer_bit_cast(InferContext& c) {
  const DType from = c.t(0).dtype, to = c.a<CastAttrs>().to;
  const auto part = [](DType t) { return t == DType::C64 ? DType::F32 : DType::F64; };
  std::vector<Dim> dims = c.t(0).dims;
  if (is_complex(from) && to == part(from)) {  // real and imaginary part become a last axis
    dims.emplace_back(2);
    return c.result(to, std::move(dims));
  }
  if (is_complex(to) && from == part(to)) {
    if (dims.empty() || dims.back() != Dim(2)) return c.fail("the last axis of " + c.show(0) + " must hold two parts");
    dims.pop_back();
    return c.result(to, std::move(dims));
  }
  if (bits(to) == 0 || bits(to) != bits(c.t(0).dtype))
    return c.fail("bits of " + c.show(0) + " cannot be read as " + std::string(name(to)));
  return c.result(to, c.t(0).dims);
}

bool infer_string_normalize(InferContext& c) {
  if (!text_operand(c, 0)) return false;
  std::vector<Dim> dims = c.t(0).dims;
  if (dims.empty() || dims.size() > 2 || (dims.size() == 2 && !require_equal(c, dims[0], Dim(1), "the first size")))
    return c.error.empty() ? c.fail("needs strings [n] or [1,n], is " + c.show(0)) : false;
  dims.back() = c.dims().fresh("words");
  return c.result(DType::String, std::move(dims));
}

bool infer_string_concat(InferContext& c) {
  std::vector<Dim> dims;
  return text_operand(c, 0) && text_operand(c, 1) && broadcast(c, c.t(0).dims, c.t(1).dims, &dims) &&
         c.result(DType::String, std::move(dims));
}

bool infer_string_equal(InferContext& c) {
  std::vector<Dim> dims;
  return text_operand(c, 0) && text_operand(c, 1) && broadcast(c, c.t(0).dims, c.t(1).dims, &dims) &&
         c.result(DType::Bool, std::move(dims));
}

bool infer_string_split(InferContext& c) {
  if (!text_operand(c, 0)) return false;
  std::vector<Dim> dims = c.t(0).dims;
  dims.push_back(c.dims().fresh("pieces"));
  return c.result(DType::String, std::move(dims)) && c.result(DType::I64, c.t(0).dims);
}

bool infer_string_index(InferContext& c) { return text_operand(c, 0) && c.result(DType::I64, c.t(0).dims); }

bool infer_string_match(InferContext& c) { return text_operand(c, 0) && c.result(DType::Bool, c.t(0).dims); }

bool infer_ngram(InferContext& c) {
  const auto& a = c.a<NgramAttrs>();
  const DType t = c.t(0).dtype;
  if (t != DType::I32 && t != DType::I64 && t != DType::String) return c.fail("needs i32, i64 or strings, is " + c.show(0));
  if (c.t(0).rank() < 1 || c.t(0).rank() > 2) return c.fail("needs [n] or [rows,n], is " + c.show(0));
  int64_t size = 0;
  for (int64_t i : a.indexes) {
    if (i < 0 || i >= Dim::kMax) return c.fail("an index is out of range");
    size = std::max(size, i + 1);
  }
  std::vector<Dim> dims = c.t(0).dims;
  dims.back() = Dim(size);
  return c.result(DType::F32, std::move(dims));
}

}  // namespace rlxc
