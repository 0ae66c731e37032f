// Attributes of ops. Each struct lists its fields once, in `reflect`; printing, parsing, JSON, equality, hashing and the schema
// use this list. Axes are normalised (0..rank-1). Dims and positions may be symbolic. Attributes are interned per module: a node
// holds an AttrId, and equal attributes have equal ids.
#pragma once
#include <array>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/data.h"
#include "ir/dim.h"
#include "ir/opkind.h"

namespace rlxc {

using AttrId = Id<struct AttrTag>;

// Enumerations as attribute fields: `enum_names(E{})` returns the texts in order.
#define RLXC_ENUM(E, ...)                                      \
  inline std::span<const std::string_view> enum_names(E) {     \
    static constexpr std::string_view names[] = {__VA_ARGS__}; \
    return names;                                              \
  }
enum class ReduceOp : uint8_t { Sum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare };
RLXC_ENUM(ReduceOp, "sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square")
enum class PadMode : uint8_t { Constant, Reflect, Edge, Wrap };
RLXC_ENUM(PadMode, "constant", "reflect", "edge", "wrap")
enum class MaskKind : uint8_t { None, Causal, SlidingWindow, Custom, Bias };
RLXC_ENUM(MaskKind, "none", "causal", "sliding_window", "custom", "bias")
enum class AttentionLayout : uint8_t { BHSD, BSHD, Packed };  // [B,H,S,D], [B,S,H,D], [B,S,H*D]
RLXC_ENUM(AttentionLayout, "bhsd", "bshd", "packed")
enum class RopeStyle : uint8_t { NeoX, GptJ };  // rotate halves, rotate adjacent pairs
RLXC_ENUM(RopeStyle, "neox", "gptj")
enum class FakeQuantizeMode : uint8_t { PerBatch, Fixed };  // scale from the values at hand, or given
RLXC_ENUM(FakeQuantizeMode, "per_batch", "fixed")
// Derivative of a rounded value: 1; 1 where |x| <= limit; max(0, 1 - |x| / limit); 1 - tanh(x / scale)^2.
enum class StraightThroughKind : uint8_t { Identity, ClippedIdentity, HardTanh, Tanh };
RLXC_ENUM(StraightThroughKind, "identity", "clipped_identity", "hard_tanh", "tanh")
enum class Reduction : uint8_t { None, Add, Mul, Max, Min };
RLXC_ENUM(Reduction, "none", "add", "mul", "max", "min")
enum class FftNorm : uint8_t { None, InverseN, Unitary };  // scale of the result: 1, 1/n, 1/sqrt(n)
RLXC_ENUM(FftNorm, "none", "inverse_n", "unitary")
enum class ResizeMode : uint8_t { Nearest, Linear, Cubic };
RLXC_ENUM(ResizeMode, "nearest", "linear", "cubic")
enum class CoordMode : uint8_t {
  HalfPixel,
  HalfPixelSymmetric,
  PytorchHalfPixel,
  AlignCorners,
  Asymmetric,
  TfHalfPixelForNn,
  TfCropAndResize
};
RLXC_ENUM(CoordMode, "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
          "tf_half_pixel_for_nn", "tf_crop_and_resize")
enum class NearestMode : uint8_t { RoundPreferFloor, RoundPreferCeil, Floor, Ceil };
RLXC_ENUM(NearestMode, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
enum class RnnDirection : uint8_t { Forward, Reverse, Bidirectional };
RLXC_ENUM(RnnDirection, "forward", "reverse", "bidirectional")

#define RLXC_REFLECT(...)                  \
  template <class Self, class F>           \
  static void reflect(Self& self, F&& f) { \
    (void)self, (void)f;                   \
    __VA_ARGS__                            \
  }

struct NoAttrs {
  RLXC_REFLECT()
  bool operator==(const NoAttrs&) const = default;
};
struct DataAttrs {
  DataId data = {};
  DataId place = {};  // without `data`: a row that has no bytes, and says in which file they would be
  RLXC_REFLECT(f("data", self.data); f("place", self.place);)
};
struct DimsAttrs {
  std::vector<Dim> dims;
  bool scalar = false;
  RLXC_REFLECT(f("dims", self.dims); f("scalar", self.scalar);)
};
struct PermAttrs {
  std::vector<int64_t> perm;
  RLXC_REFLECT(f("perm", self.perm);)
};
// The inverse of `perm`, which must be a permutation of 0, 1, ...
std::vector<int64_t> inverse_permutation(std::span<const int64_t> perm);
struct AxisAttrs {
  int64_t axis = 0;
  RLXC_REFLECT(f("axis", self.axis);)
  bool operator==(const AxisAttrs&) const = default;
};
struct AxesAttrs {
  std::vector<int64_t> axes;
  RLXC_REFLECT(f("axes", self.axes);)
};
struct BatchDimsAttrs {
  int64_t batch_dims = 0;
  RLXC_REFLECT(f("batch_dims", self.batch_dims);)
};
struct AlphaBetaAttrs {
  double alpha = 0, beta = 0;
  RLXC_REFLECT(f("alpha", self.alpha); f("beta", self.beta);)
  bool operator==(const AlphaBetaAttrs&) const = default;
};
struct ClampAttrs {
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  RLXC_REFLECT(f("min", self.min); f("max", self.max);)
  bool operator==(const ClampAttrs&) const = default;
};
struct CastAttrs {
  DType to = DType::F32;
  bool saturate = true;
  RLXC_REFLECT(f("to", self.to); f("saturate", self.saturate);)
};
struct NarrowAttrs {
  int64_t axis = 0;
  Dim start, len;
  RLXC_REFLECT(f("axis", self.axis); f("start", self.start); f("len", self.len);)
};
struct SliceAttrs {
  int64_t axis = 0;
  Dim start, len;
  int64_t step = 1;
  RLXC_REFLECT(f("axis", self.axis); f("start", self.start); f("len", self.len); f("step", self.step);)
};
struct ScatterAttrs {
  int64_t axis = 0;
  Reduction reduction = Reduction::None;
  RLXC_REFLECT(f("axis", self.axis); f("reduction", self.reduction);)
};
struct PadAttrs {
  std::vector<Dim> before, after;
  PadMode mode = PadMode::Constant;
  RLXC_REFLECT(f("before", self.before); f("after", self.after); f("mode", self.mode);)
};
struct TriluAttrs {
  bool upper = true;
  int64_t diagonal = 0;
  RLXC_REFLECT(f("upper", self.upper); f("diagonal", self.diagonal);)
};
struct OneHotAttrs {
  int64_t axis = 0;
  Dim depth;
  RLXC_REFLECT(f("axis", self.axis); f("depth", self.depth);)
};
struct ResizeAttrs {
  std::vector<Dim> sizes;      // result dims, one per axis
  std::vector<double> scales;  // result / operand per axis, as the coordinate rule uses them; empty: derived from sizes
  std::vector<double> roi;     // starts then ends, for tf_crop_and_resize
  ResizeMode mode = ResizeMode::Nearest;
  CoordMode coord = CoordMode::HalfPixel;
  NearestMode nearest = NearestMode::RoundPreferFloor;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
  RLXC_REFLECT(f("sizes", self.sizes); f("scales", self.scales); f("roi", self.roi); f("mode", self.mode); f("coord", self.coord);
               f("nearest", self.nearest); f("cubic_a", self.cubic_a); f("extrapolation", self.extrapolation);
               f("exclude_outside", self.exclude_outside); f("antialias", self.antialias);)
};
struct MatMulAttrs {
  bool trans_a = false, trans_b = false;
  RLXC_REFLECT(f("trans_a", self.trans_a); f("trans_b", self.trans_b);)
};
struct DotGeneralAttrs {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  RLXC_REFLECT(f("lhs_batch", self.lhs_batch); f("rhs_batch", self.rhs_batch); f("lhs_contracting", self.lhs_contracting);
               f("rhs_contracting", self.rhs_contracting);)
};
struct ReduceAttrs {
  ReduceOp op = ReduceOp::Sum;
  std::vector<int64_t> axes;
  bool keep_dim = false;
  RLXC_REFLECT(f("op", self.op); f("axes", self.axes); f("keep_dim", self.keep_dim);)
  bool operator==(const ReduceAttrs&) const = default;
};
struct ArgAttrs {
  int64_t axis = 0;
  bool largest = true, keep_dim = true, select_last = false;
  RLXC_REFLECT(f("axis", self.axis); f("largest", self.largest); f("keep_dim", self.keep_dim);
               f("select_last", self.select_last);)
};
struct CumAttrs {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  RLXC_REFLECT(f("axis", self.axis); f("exclusive", self.exclusive); f("reverse", self.reverse);)
};
struct TopKAttrs {
  Dim k;
  int64_t axis = 0;
  bool largest = true, sorted = true;
  RLXC_REFLECT(f("k", self.k); f("axis", self.axis); f("largest", self.largest); f("sorted", self.sorted);)
};
struct FftAttrs {
  int64_t axis = 0;
  bool inverse = false, onesided = false;
  FftNorm norm = FftNorm::None;
  Dim length;  // 0: the dim of the axis
  RLXC_REFLECT(f("axis", self.axis); f("inverse", self.inverse); f("onesided", self.onesided); f("norm", self.norm);
               f("length", self.length);)
};
struct NormAttrs {
  int64_t axis = 0;
  double eps = 1e-5;
  RLXC_REFLECT(f("axis", self.axis); f("eps", self.eps);)
  bool operator==(const NormAttrs&) const = default;
};
struct GroupNormAttrs {
  int64_t groups = 1;
  double eps = 1e-5;
  RLXC_REFLECT(f("groups", self.groups); f("eps", self.eps);)
  bool operator==(const GroupNormAttrs&) const = default;
};
struct LrnAttrs {
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, bias = 1;
  RLXC_REFLECT(f("size", self.size); f("alpha", self.alpha); f("beta", self.beta); f("bias", self.bias);)
};
// The bhsd and bshd layouts take heads and head sizes from the shapes; the packed layout needs num_heads (and num_kv_heads). A
// causal or window mask may be combined with a bool keep mask operand, as for kind custom: a key is visible if both allow it. A
// row without a visible key gives 0. With `finite_mask`, hidden scores are the lowest finite number instead of -infinity, and
// this row gives the mean of v.
struct AttentionAttrs {
  int64_t num_heads = 0, num_kv_heads = 0;
  AttentionLayout layout = AttentionLayout::BHSD;  // of q, k, v
  AttentionLayout out_layout = AttentionLayout::BHSD;
  MaskKind mask = MaskKind::None;
  int64_t window = 0;
  double scale = 0, softcap = 0;  // scale 0: 1/sqrt(head size); softcap 0: none
  bool k_transposed = false;      // k is [B,H,D,S] (bhsd layout only)
  bool finite_mask = false;       // for causal, sliding_window and custom masks
  int64_t kv_heads() const { return num_kv_heads ? num_kv_heads : num_heads; }
  RLXC_REFLECT(f("num_heads", self.num_heads); f("num_kv_heads", self.num_kv_heads); f("layout", self.layout);
               f("out_layout", self.out_layout); f("mask", self.mask); f("window", self.window); f("scale", self.scale);
               f("softcap", self.softcap); f("k_transposed", self.k_transposed); f("finite_mask", self.finite_mask);)
};
inline constexpr size_t kRopeAppendCaches = 5;  // first cache among the operands of FusedRopeAppend: keys, values, rows
inline constexpr size_t kAttentionScale = 4, kRopeFactor = 4;  // operands that quantize the results
inline constexpr size_t kResultScale = 1;                      // the same of softmax and resize
// x is [B,H,S,D] (bhsd), [B,S,H,D] (bshd) or [B,S,H*D] (packed, head_dim given); tables are [..., S, n_rot/2] or [..., S, n_rot].
struct RopeAttrs {
  int64_t head_dim = 0, n_rot = 0;
  RopeStyle style = RopeStyle::NeoX;
  AttentionLayout layout = AttentionLayout::BHSD;
  double eps = 0;  // for a norm with gamma
  RLXC_REFLECT(f("head_dim", self.head_dim); f("n_rot", self.n_rot); f("style", self.style); f("layout", self.layout);
               f("eps", self.eps);)
};
struct ConvAttrs {
  std::vector<int64_t> strides, pads_begin, pads_end, dilations, output_padding;
  int64_t groups = 1;  // the lists have one entry per spatial axis
  RLXC_REFLECT(f("strides", self.strides); f("pads_begin", self.pads_begin); f("pads_end", self.pads_end);
               f("dilations", self.dilations); f("output_padding", self.output_padding); f("groups", self.groups);)
  bool operator==(const ConvAttrs&) const = default;
};
struct PoolAttrs {
  ReduceOp op = ReduceOp::Max;
  std::vector<int64_t> kernel, strides, pads_begin, pads_end, dilations;
  bool ceil_mode = false, count_include_pad = false, column_major = false;
  double p = 2;  // exponent of Lp pooling
  RLXC_REFLECT(f("op", self.op); f("kernel", self.kernel); f("strides", self.strides); f("pads_begin", self.pads_begin);
               f("pads_end", self.pads_end); f("dilations", self.dilations); f("ceil_mode", self.ceil_mode);
               f("count_include_pad", self.count_include_pad); f("column_major", self.column_major); f("p", self.p);)
};
struct RnnAttrs {
  int64_t hidden = 0;
  RnnDirection direction = RnnDirection::Forward;
  std::vector<std::string> activations;
  std::vector<double> activation_alpha, activation_beta;
  double clip = 0;  // 0: no clipping
  bool input_forget = false, linear_before_reset = false, batch_first = false;
  RLXC_REFLECT(f("hidden", self.hidden); f("direction", self.direction); f("activations", self.activations);
               f("activation_alpha", self.activation_alpha); f("activation_beta", self.activation_beta); f("clip", self.clip);
               f("input_forget", self.input_forget); f("linear_before_reset", self.linear_before_reset);
               f("batch_first", self.batch_first);)
};
struct QuantAttrs {
  int64_t axis = 0, block = 0;
  DType to = DType::I8;
  bool saturate = true;  // `block` 0: per tensor or per axis
  RLXC_REFLECT(f("axis", self.axis); f("block", self.block); f("to", self.to); f("saturate", self.saturate);)
};
// Signed values of `bits` bits without the least one; one scale, or one per coordinate of `axis`.
struct FakeQuantizeAttrs {
  int64_t bits = 8, axis = -1;
  FakeQuantizeMode mode = FakeQuantizeMode::PerBatch;
  StraightThroughKind ste = StraightThroughKind::Identity;
  RLXC_REFLECT(f("bits", self.bits); f("axis", self.axis); f("mode", self.mode); f("ste", self.ste);)

  double largest() const { return static_cast<double>((int64_t{1} << (bits - 1)) - 1); }
};
inline constexpr double kLeastFakeScale = 1e-12;  // of FakeQuantize
// An epilogue activation: a unary elementwise op with its alpha and beta. `has` is false if there is none.
struct Epilogue {
  bool has = false;
  OpKind op{};
  double alpha = 0, beta = 0;
  bool operator==(const Epilogue&) const = default;
};
struct FusedMatMulAttrs {
  bool trans_a = false, trans_b = false;
  Epilogue act;
  RLXC_REFLECT(f("trans_a", self.trans_a); f("trans_b", self.trans_b); f("act", self.act);)
};
struct FusedConvAttrs {
  ConvAttrs conv;
  Epilogue act;
  RLXC_REFLECT(ConvAttrs::reflect(self.conv, f); f("act", self.act);)
};
struct SwiGLUAttrs {
  bool gate_first = false;
  Epilogue act;
  RLXC_REFLECT(f("gate_first", self.gate_first); f("act", self.act);)
};
struct GatedMatMulAttrs {
  bool trans_b = false, gate_first = false;
  Epilogue act;
  RLXC_REFLECT(f("trans_b", self.trans_b); f("gate_first", self.gate_first); f("act", self.act);)
};
struct DequantMatMulAttrs {
  bool trans_b = false;
  int64_t block = 0;  // group size along the contracted axis; 0: the whole axis
  Epilogue act;
  bool gated = false, gate_first = false;  // as in FusedMatMulSwiGLU
  bool int8_x = false;                     // x is rounded to 8 bits, with a scale per row and block
  RLXC_REFLECT(f("trans_b", self.trans_b); f("block", self.block); f("act", self.act); f("gated", self.gated);
               f("gate_first", self.gate_first); f("int8_x", self.int8_x);)
};
struct IfAttrs {  // pairs of dims that are equal if the branch runs
  std::vector<Dim> then_equal, else_equal;
  RLXC_REFLECT(f("then_equal", self.then_equal); f("else_equal", self.else_equal);)
};
struct LoopAttrs {
  int64_t carries = 0;
  RLXC_REFLECT(f("carries", self.carries);)
};
struct ScanAttrs {
  int64_t states = 0, scan_inputs = 0;
  std::vector<int64_t> input_axes, input_reverse, output_axes, output_reverse;
  RLXC_REFLECT(f("states", self.states); f("scan_inputs", self.scan_inputs); f("input_axes", self.input_axes);
               f("input_reverse", self.input_reverse); f("output_axes", self.output_axes);
               f("output_reverse", self.output_reverse);)
};
// An operation defined by a file. Its bodies, in this order: its results; if `vjp`, operands, results and gradients of results to
// gradients of the float operands; if `jvp`, operands and tangents of the float operands to tangents of the float results; if
// `vmap`, operands to results, each with an axis of samples in front.
// Kernels replace the first body on their targets: each has a source, three extents of its grid and three of its workgroups.
// Sources name operands and results (`ports`) and `sizes`.
struct CustomAttrs {
  std::string name;  // DOMAIN.NAME
  bool vjp = false, jvp = false, vmap = false;
  std::vector<std::string> targets = {}, sources = {}, ports = {}, size_names = {};
  std::vector<Dim> grids = {}, sizes = {};
  std::vector<int64_t> threads = {};
  RLXC_REFLECT(f("name", self.name); f("vjp", self.vjp); f("jvp", self.jvp); f("vmap", self.vmap); f("targets", self.targets);
               f("sources", self.sources); f("ports", self.ports); f("size_names", self.size_names); f("grids", self.grids);
               f("sizes", self.sizes); f("threads", self.threads);)
};
struct SequenceConcatAttrs {
  int64_t axis = 0;
  bool new_axis = false;
  RLXC_REFLECT(f("axis", self.axis); f("new_axis", self.new_axis);)
};
struct SequenceSplitAttrs {
  int64_t axis = 0;
  bool keep_dim = true;
  RLXC_REFLECT(f("axis", self.axis); f("keep_dim", self.keep_dim);)
};
struct OptionalAttrs {  // the type of an empty optional, or of its element
  DType to = DType::F32;
  bool sequence = false;
  RLXC_REFLECT(f("to", self.to); f("sequence", self.sequence);)
};
struct UniqueAttrs {
  int64_t axis = 0;
  bool flat = true, sorted = true;
  RLXC_REFLECT(f("axis", self.axis); f("flat", self.flat); f("sorted", self.sorted);)
};
struct ReshapeToAttrs {
  bool allow_zero = false;
  RLXC_REFLECT(f("allow_zero", self.allow_zero);)
};
struct NmsAttrs {
  bool center_point = false;
  RLXC_REFLECT(f("center_point", self.center_point);)
};
enum class PixelFormat : uint8_t { Rgb, Bgr, Grayscale };
RLXC_ENUM(PixelFormat, "RGB", "BGR", "Grayscale")
struct ImageDecodeAttrs {
  PixelFormat format = PixelFormat::Rgb;
  RLXC_REFLECT(f("format", self.format);)
};
struct RandomAttrs {  // uniform in [a, b), or normal with mean a and deviation b
  std::vector<Dim> dims;
  DType to = DType::F32;
  bool normal = false;
  double a = 0, b = 1;
  int64_t seed = 0;
  RLXC_REFLECT(f("dims", self.dims); f("to", self.to); f("normal", self.normal); f("a", self.a); f("b", self.b);
               f("seed", self.seed);)
};
enum class LetterCase : uint8_t { None, Lower, Upper };
RLXC_ENUM(LetterCase, "none", "lower", "upper")
struct StringNormalizeAttrs {
  LetterCase change = LetterCase::None;
  bool case_sensitive = false;
  std::vector<std::string> stopwords;
  RLXC_REFLECT(f("change", self.change); f("case_sensitive", self.case_sensitive); f("stopwords", self.stopwords);)
};
struct StringSplitAttrs {  // empty delimiter: white space; max_splits -1: no limit
  std::string delimiter;
  int64_t max_splits = -1;
  RLXC_REFLECT(f("delimiter", self.delimiter); f("max_splits", self.max_splits);)
};
struct StringIndexAttrs {
  std::vector<std::string> strings;
  RLXC_REFLECT(f("strings", self.strings);)
};
struct StringMatchAttrs {
  std::string pattern;
  RLXC_REFLECT(f("pattern", self.pattern);)
};
struct MapKeysAttrs {  // integers or strings, not both; `all`: a map must have no other keys
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  bool all = false;
  RLXC_REFLECT(f("ints", self.ints); f("strings", self.strings); f("all", self.all);)

  size_t size() const { return ints.size() + strings.size(); }
};
enum class NgramWeight : uint8_t { Tf, Idf, TfIdf };
RLXC_ENUM(NgramWeight, "TF", "IDF", "TFIDF")
struct NgramAttrs {  // ONNX TfIdfVectorizer
  NgramWeight mode = NgramWeight::Tf;
  int64_t min_length = 1, max_length = 1, max_skip = 0;
  std::vector<int64_t> counts, indexes, pool_ints;
  std::vector<std::string> pool_strings;
  std::vector<double> weights;
  RLXC_REFLECT(f("mode", self.mode); f("min_length", self.min_length); f("max_length", self.max_length);
               f("max_skip", self.max_skip); f("counts", self.counts); f("indexes", self.indexes); f("pool_ints", self.pool_ints);
               f("pool_strings", self.pool_strings); f("weights", self.weights);)
};
// A group: the devices of the mesh that differ in the axes `along` alone, in row-major order of these axes.
struct CollectiveAttrs {
  std::string mesh;                // all axes of devices with their sizes, "data=2,model=4" (ir/mesh.h)
  std::vector<std::string> along;  // axes of the group
  int64_t axis = 0;                // of the operand; of all_to_all: the axis that is cut
  int64_t to = 0;                  // all_to_all: the axis that is joined
  int64_t blocks = 1;              // the axis consists of so many blocks, each of which is cut or joined
  int64_t padding = 0;             // device_slice of one block: zeros that follow the axis, so that parts have equal sizes
  ReduceOp op = ReduceOp::Sum;
  std::vector<int64_t> source;  // collective_permute: position of the sender, by position of the receiver; -1: none
  RLXC_REFLECT(f("mesh", self.mesh); f("along", self.along); f("axis", self.axis); f("to", self.to); f("blocks", self.blocks);
               f("padding", self.padding); f("op", self.op); f("source", self.source);)
};
struct DecoderAttrs {
  int64_t num_heads = 0, head_dim = 0, num_kv_heads = 0;
  double eps = 1e-5;
  MaskKind mask = MaskKind::Causal;
  int64_t kv_heads() const { return num_kv_heads ? num_kv_heads : num_heads; }
  RLXC_REFLECT(f("num_heads", self.num_heads); f("head_dim", self.head_dim); f("num_kv_heads", self.num_kv_heads);
               f("eps", self.eps); f("mask", self.mask);)
};
// Attributes of the op of a step.
using StepAttrs = std::variant<NoAttrs, AlphaBetaAttrs, ClampAttrs, AxisAttrs, NormAttrs, GroupNormAttrs, ReduceAttrs, ConvAttrs>;
// An op of a fused node. An argument is operand i of the node, or the value of an earlier step (kStep | index).
struct RegionStep {
  static constexpr uint16_t kStep = 0x8000, kNone = 0x7FFF;
  OpKind op{};
  DType dtype = DType::F32;  // of the step's value
  std::array<uint16_t, 3> args{kNone, kNone, kNone};
  StepAttrs attrs = {};  // of div, alpha 1: see allow_reciprocals

  // Parameters of an elementwise op: alpha and beta, or min and max of clamp; else 0.
  double alpha() const;
  double beta() const;
  template <class A>
  const A& as() const {
    return std::get<A>(attrs);
  }
  bool operator==(const RegionStep&) const = default;
};
// The value of the last step is the first result; those of the steps `also` are further results.
struct FusionAttrs {
  std::vector<RegionStep> steps;
  std::vector<int64_t> also = {};
  RLXC_REFLECT(f("steps", self.steps); f("also", self.also);)
};
// Elementwise steps, some of whose values are concatenated along `axis`. `parts`: the steps that compute the parts of the first
// result, then those of the others. A part has the broadcast shape of the operands that its steps read. Reduce steps reduce rows
// along `axis`, then the last one: the other axes have the sizes of the result there, and all parts have one size.
struct ConcatRegionAttrs {
  std::vector<RegionStep> steps;
  int64_t axis = 0;
  int64_t results = 1;
  std::vector<int64_t> parts = {};
  RLXC_REFLECT(f("steps", self.steps); f("axis", self.axis); f("results", self.results); f("parts", self.parts);)
};
bool is_norm(const RegionStep&);
// Index of the last norm step, or the number of steps if there is none.
size_t last_norm_step(std::span<const RegionStep>);

using AttrVariant =
    std::variant<NoAttrs, DataAttrs, DimsAttrs, PermAttrs, AxisAttrs, AxesAttrs, BatchDimsAttrs, AlphaBetaAttrs, ClampAttrs,
                 CastAttrs, NarrowAttrs, SliceAttrs, ScatterAttrs, PadAttrs, TriluAttrs, OneHotAttrs, ResizeAttrs, MatMulAttrs,
                 DotGeneralAttrs, ReduceAttrs, ArgAttrs, CumAttrs, TopKAttrs, FftAttrs, NormAttrs, GroupNormAttrs, LrnAttrs,
                 AttentionAttrs, RopeAttrs, ConvAttrs, PoolAttrs, RnnAttrs, QuantAttrs, FusedMatMulAttrs, FusedConvAttrs,
                 SwiGLUAttrs, IfAttrs, CustomAttrs, LoopAttrs, ScanAttrs, SequenceConcatAttrs, DecoderAttrs, FusionAttrs,
                 SequenceSplitAttrs, OptionalAttrs, UniqueAttrs, NmsAttrs, RandomAttrs, StringNormalizeAttrs, StringSplitAttrs,
                 StringIndexAttrs, StringMatchAttrs, NgramAttrs, ReshapeToAttrs, GatedMatMulAttrs, MapKeysAttrs,
                 DequantMatMulAttrs, ImageDecodeAttrs, CollectiveAttrs, FakeQuantizeAttrs, ConcatRegionAttrs>;

template <class A, class Variant>
inline constexpr bool is_alternative = false;
template <class A, class... All>
inline constexpr bool is_alternative<A, std::variant<All...>> = (std::is_same_v<A, All> || ...);

// The attributes of a node: one of these structs. Copying and destroying this wide variant costs seconds of compile time, so both
// are defined in one file.
class Attrs : public AttrVariant {
 public:
  Attrs();
  template <class A, std::enable_if_t<is_alternative<A, AttrVariant>, int> = 0>
  Attrs(A a) noexcept : AttrVariant(std::in_place_type<A>, std::move(a)) {}
  Attrs(const Attrs&);
  Attrs(Attrs&&) noexcept;
  Attrs& operator=(const Attrs&);
  Attrs& operator=(Attrs&&) noexcept;
  ~Attrs();
};

class AttrTable {
 public:
  AttrId intern(Attrs);
  const Attrs& operator[](AttrId id) const { return rows_[id.raw]; }

 private:
  std::deque<Attrs> rows_;
  std::unordered_map<std::string, uint32_t> index_;
};

// The attributes as those of a step; NoAttrs if no step has these.
StepAttrs step_attrs(const Attrs&);

// The attribute struct of an op, with defaults.
const Attrs& default_attrs(OpKind);

// Attributes as name/value pairs, for text and JSON. Symbolic dims, enumerations and dtypes are text; a region step is
// "op(arg,arg;name=value) : dtype" with arguments i0.. and s0..; an epilogue is "op" or "op(alpha,beta)". Data is not listed.
using AttrValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
using AttrFields = std::vector<std::pair<std::string, AttrValue>>;
AttrFields attr_fields(const Attrs&, const DimTable&, bool with_defaults = false, OpKind op = OpKind::Input);
// The inverse. Returns false with a message if the name is unknown or the value has a wrong kind or range.
bool set_attr_field(Attrs&, std::string_view name, const AttrValue&, DimTable&, std::string* message);

}  // namespace rlxc
