// Complex numbers are pairs of real tensors. Arguments and results of the module are real.
#include <array>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

Value part_of(const Value& v, bool imaginary) {
  Value out = v;
  if (imaginary) out.id = v.imaginary;
  out.imaginary = {};
  return out;
}

Value joined(Op& op, const Value& real, const Value& imaginary) {
  if (!real.valid() || !imaginary.valid()) return {};
  Value out = op.with_dims(op.base(real), real.dims);
  out.imaginary = op.base(imaginary);
  return out;
}

void complex(Op& op) {
  if (!op.needs(2)) return;
  if (op.in(0).is_complex() || op.in(1).is_complex() || op.in(0).dtype != op.in(1).dtype || op.in(0).dims != op.in(1).dims)
    return (void)op.fail(Code::BadType, "it takes two real values of one shape and type");
  op.set(0, joined(op, op.in(0), op.in(1)));
}

void real(Op& op) {
  if (op.needs(1)) op.set(0, part_of(op.in(0), false));
}
void imag(Op& op) {
  if (!op.needs(1)) return;
  if (op.in(0).is_complex()) return op.set(0, part_of(op.in(0), true));
  op.set(0, op.broadcast(op.scalar_like(op.in(0), 0), op.in(0).dims, {}));
}

void abs(Op& op) {
  if (!op.needs(1) || !op.in(0).is_complex()) return real_abs(op);
  const Value a = part_of(op.in(0), false), b = part_of(op.in(0), true);
  op.set(0, op.elementwise(OpKind::Sqrt, {op.add(op.mul(a, a), op.mul(b, b))}));
}

void multiply(Op& op) {
  if (op.inputs() != 2 || (!op.in(0).is_complex() && !op.in(1).is_complex())) return real_multiply(op);
  if (!op.in(0).is_complex() || !op.in(1).is_complex() || op.in(0).dtype != op.in(1).dtype)
    return (void)op.fail(Code::BadType, "its operands are of different types");
  const Value a = part_of(op.in(0), false), b = part_of(op.in(0), true), c = part_of(op.in(1), false),
              d = part_of(op.in(1), true);
  op.set(0, joined(op, op.sub(op.mul(a, c), op.mul(b, d)), op.add(op.mul(a, d), op.mul(b, c))));
}

void convert_complex(Op& op) {
  if (!op.needs(1)) return;
  const DType t = op.declared(0);
  if (!is_complex(t))
    return op.in(0).is_complex() ? (void)op.fail(Code::BadType, "it makes a real number of a complex one") : real_convert(op);
  const Value a = op.cast(part_of(op.in(0), false), part_type(t));
  const Value b = op.in(0).is_complex() ? op.cast(part_of(op.in(0), true), part_type(t))
                                        : op.broadcast(op.scalar(part_type(t), 0), a.dims, {});
  op.set(0, joined(op, a, b));
}

// Transforms the last one to three axes, one after another.
void fft(Op& op) {
  if (!op.needs(1)) return;
  const std::string_view type = op.word("fft_type").empty() ? op.word("type") : op.word("fft_type");
  const auto lengths = op.ints("fft_length", "length");
  const Value& x = op.in(0);
  const bool from_real = type == "RFFT", to_real = type == "IRFFT", inverse = type == "IFFT" || to_real;
  if (!from_real && !to_real && type != "FFT" && type != "IFFT")
    return (void)op.fail(Code::BadAttribute, "its type is FFT, IFFT, RFFT or IRFFT");
  if (!lengths || lengths->empty() || lengths->size() > 3 || lengths->size() > x.dims.size())
    return (void)op.fail(Code::BadAttribute, "it needs 1 to 3 lengths");
  if (x.is_complex() == from_real || !is_float(x.dtype) || bits(x.dtype) < 32)
    return (void)op.fail(Code::BadType, "its operand does not fit its type");
  const size_t first = x.dims.size() - lengths->size(), last = x.dims.size() - 1;
  for (size_t i = first; i <= last; ++i) {
    const int64_t n = (*lengths)[i - first], have = to_real && i == last ? n / 2 + 1 : n;
    if (n < 1 || x.dims[i] != Dim(have)) return (void)op.fail(Code::BadShape, "its lengths do not fit its operand");
  }
  Dims one = x.dims;
  one.emplace_back(1);
  const auto parts_axis = static_cast<int64_t>(x.dims.size());
  const auto column = [&](bool imaginary) { return op.reshape(op.made(op.whole(part_of(x, imaginary))), one); };
  Value y = from_real ? column(false) : op.concat({column(false), column(true)}, parts_axis);
  const auto along = [&](size_t axis, bool onesided) {
    FftAttrs a;
    a.axis = static_cast<int64_t>(axis);
    a.inverse = inverse;
    a.onesided = onesided;
    a.norm = inverse ? FftNorm::InverseN : FftNorm::None;
    a.length = Dim((*lengths)[axis - first]);
    if (y.valid()) y = op.made(op.b().create(OpKind::Fft, {op.whole(y)}, std::move(a)));
  };
  if (from_real) along(last, true);
  for (size_t i = first; i < last; ++i) along(i, false);
  if (!from_real) along(last, to_real);
  if (!y.valid()) return;
  const auto part = [&](int64_t i) {
    Dims dims = y.dims;
    dims.pop_back();
    return op.reshape(op.narrow(y, parts_axis, Dim(i), Dim(1)), dims);
  };
  op.set(0, to_real ? part(0) : joined(op, part(0), part(1)));
}

constexpr OpRow kComplexRows[] = {
    {"abs", abs, true, Complex::Own},
    {"complex", complex, true, Complex::Own},
    {"convert", convert_complex, true, Complex::Own},
    {"fft", fft, false, Complex::Own},
    {"imag", imag, true, Complex::Own},
    {"multiply", multiply, true, Complex::Own},
    {"real", real, true, Complex::Own},
};

}  // namespace

std::span<const OpRow> complex_rows() { return kComplexRows; }

}  // namespace rlxc::stablehlo_import
