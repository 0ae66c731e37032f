// Operators of com.microsoft on tokens, packed batches and sub-graphs, against the definitions of onnxruntime.
#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::vector<std::vector<double>> results_of(OnnxPair& p, const std::vector<std::string>& names) {
  for (const std::string& n : names) p.model().output(n);
  return p.model().run();
}

void check_equal(const std::vector<double>& a, const std::vector<double>& b) { check_close(a, b, 0); }

}  // namespace

TEST_CASE("no n-gram of the ids is repeated") {
  OnnxPair p;
  p.model().input("ids", DType::I64, {2, 5}, {1, 2, 3, 1, 2, 0, 0, 0, 4, 4});
  p.model().input("scores", DType::F32, {2, 5}, std::vector<double>(10, 1));
  p.ms("NGramRepeatBlock", {"ids", "scores"}, {"y"}, {attribute("ngram_size", 3)});
  p.ms("NGramRepeatBlock", {"ids", "scores"}, {"one"}, {attribute("ngram_size", 1)});
  p.ms("NGramRepeatBlock", {"ids", "scores"}, {"long"}, {attribute("ngram_size", 7)});
  const auto got = results_of(p, {"y", "one", "long"});
  const double inf = -std::numeric_limits<double>::infinity();
  CHECK(got[0] == std::vector<double>{1, 1, 1, inf, 1, 1, 1, 1, 1, 1});
  CHECK(got[1] == std::vector<double>{1, inf, inf, inf, 1, inf, 1, 1, 1, inf});
  CHECK(got[2] == std::vector<double>(10, 1));
}

TEST_CASE("predicted tokens up to the first that differs, and the only match of their end") {
  OnnxPair p;
  p.model().input("source", DType::I64, {6}, {5, 6, 7, 8, 7, 9});
  p.model().input("tokens", DType::I64, {2}, {5, 6});
  p.model().input("from", DType::I64, {1}, {2});
  p.model().input("guess", DType::I64, {5}, {7, 8, 3, 9, 1});
  const auto sizes = std::vector<std::string>{attribute("min_ngram_size", 1), attribute("max_ngram_size", 3)};
  p.ms("BifurcationDetector", {"source", "tokens", "from", "guess"}, {"y", "at"}, sizes);
  p.ms("BifurcationDetector", {"source", "tokens", "from"}, {"same", "end"}, sizes);
  const auto got = results_of(p, {"y", "at", "same", "end"});
  check_equal(got[0], {5, 6, 7, 8, 3});
  check_equal(got[1], {-1});  // 3 is not in the source
  check_equal(got[2], {5, 6});
  check_equal(got[3], {2});
}

TEST_CASE("MurmurHash3 of numbers") {
  OnnxPair p;
  p.model().input("x", DType::I32, {2}, {3, 4});
  p.model().input("wide", DType::I64, {1}, {3});
  p.ms("MurmurHash3", {"x"}, {"y"}, {attribute("positive", 0)}).ms("MurmurHash3", {"x"}, {"z"}, {attribute("seed", 42)});
  p.ms("MurmurHash3", {"wide"}, {"w"}, {attribute("positive", 0)});
  const auto got = results_of(p, {"y", "z", "w"});
  CHECK(got[0][0] == 847579505);  // as in onnxruntime's tests
  CHECK(got[0][1] == 1889779975);
  CHECK(got[1][0] != got[1][1]);
  CHECK(got[2][0] == -1556392013);
}

TEST_CASE("distinct elements in the order of their first occurrence") {
  OnnxPair p;
  p.model().input("x", DType::F32, {6}, {2, 1, 1, 3, 4, 3});
  p.ms("Unique", {"x"}, {"y", "at", "counts"});
  const auto got = results_of(p, {"y", "at", "counts"});
  check_equal(got[0], {2, 1, 3, 4});
  check_equal(got[1], {0, 1, 1, 2, 3, 2});
  check_equal(got[2], {1, 2, 2, 1});
}

TEST_CASE("windows of an axis") {
  OnnxPair p;
  p.model().input("x", DType::F32, {1, 5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  p.ms("UnfoldTensor", {"x"}, {"y"}, {attribute("dim", 1), attribute("size", 3), attribute("step", 2)});
  check_equal(results_of(p, {"y"})[0], {0, 2, 4, 1, 3, 5, 4, 6, 8, 5, 7, 9});
}

TEST_CASE("crops are resized by corners") {
  OnnxPair p;
  p.model().input("x", DType::F32, {1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  p.model().input("boxes", DType::F32, {2, 4}, {0, 0, 1, 1, 0.5, 0.5, 1.5, 0.5});
  p.model().input("image", DType::I32, {2}, {0, 0});
  p.model().add(node("Constant", {}, {"size64"}, {attribute("value_ints", std::vector<int64_t>{2, 2})}));
  p.on("Cast", {"size64"}, "size", {attribute("to", 6)});
  p.ms("CropAndResize", {"x", "boxes", "image", "size"}, {"y"}, {attribute("extrapolation_value", -1.0)});
  p.ms("CropAndResize", {"x", "boxes", "image", "size"}, {"z"}, {attribute("mode", "nearest")});
  const auto got = results_of(p, {"y", "z"});
  check_close(got[0], {0, 2, 6, 8, 4, 4, -1, -1});
  check_close(got[1], {0, 2, 6, 8, 4, 4, 0, 0});
}

TEST_CASE("words by their characters") {
  OnnxPair p;
  p.model().input("words", DType::I32, {3, 3}, {1, 2, 1, 2, 0, 0, 0, 0, 0});
  p.model().input("w", DType::F32, {1, 1, 2, 1}, {1, 2});
  p.model().input("b", DType::F32, {1}, {0.5});
  p.model().input("c", DType::F32, {3, 1}, {0.25, 0.5, -1});
  p.ms("WordConvEmbedding", {"words", "w", "b", "c"}, {"y"});
  // Windows of the first word: 0.5 - 2 + 0.5, -1 + 1 + 0.5. The second word is one character, followed by embedding 0.
  check_close(results_of(p, {"y"})[0], {std::tanh(0.5), std::tanh(-1 + 2 * 0.25 + 0.5), 0});
}

TEST_CASE("whether all numbers are finite") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  OnnxPair p;
  p.model().input("a", DType::F32, {2}, {1, 2});
  p.model().input("b", DType::F32, {2}, {1, inf});
  p.model().input("c", DType::F32, {2}, {1, nan});
  p.ms("IsAllFinite", {"a"}, {"fine"}).ms("IsAllFinite", {"a", "b"}, {"infinite"}).ms("IsAllFinite", {"c"}, {"nan"});
  p.ms("IsAllFinite", {"b"}, {"no_nan"}, {attribute("isnan_only", 1)});
  const auto got = results_of(p, {"fine", "infinite", "nan", "no_nan"});
  CHECK(got[0][0] == 1);
  CHECK(got[1][0] == 0);
  CHECK(got[2][0] == 0);
  CHECK(got[3][0] == 1);
}

TEST_CASE("padding is removed and restored") {
  OnnxPair p;
  p.model().input("x", DType::F32, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  p.model().input("counts", DType::I32, {2}, {1, 2});
  p.ms("RemovePadding", {"x", "counts"}, {"rows", "offsets", "sums", "most"}).ms("RestorePadding", {"rows", "offsets"}, {"y"});
  const auto got = results_of(p, {"rows", "offsets", "sums", "most", "y"});
  check_equal(got[0], {1, 2, 7, 8, 9, 10});
  check_equal(got[1], {0, 3, 4, 1, 2, 5});
  check_equal(got[2], {0, 1, 3});
  check_equal(got[3], {2});
  check_equal(got[4], {1, 2, 0, 0, 0, 0, 7, 8, 9, 10, 0, 0});
}

TEST_CASE("attention of a batch without padding, as of one with padding") {
  OnnxPair p;
  p.real("x", {2, 3, 4}).real("w", {4, 12}).real("b", {12}).real("bias", {1, 2, 3, 3});
  p.model().input("counts", DType::I32, {2}, {2, 3});
  const auto heads = attribute("num_heads", 2);
  p.ms("RemovePadding", {"x", "counts"}, {"rows", "offsets", "sums", "most"});
  p.ms("PackedAttention", {"rows", "w", "b", "offsets", "sums", "bias"}, {"packed"}, {heads});
  p.ms("RestorePadding", {"packed", "offsets"}, {"y"});
  // Attention with lengths of keys, and zeros for padding.
  p.ms("Attention", {"x", "w", "b", "counts", "", "bias"}, {"full"}, {heads, attribute("mask_filter_value", -1e30)});
  p.model().input("real", DType::F32, {2, 3, 1}, {1, 1, 0, 1, 1, 1});
  p.on("Mul", {"full", "real"}, "y2");
  // The same from projected q, k and v.
  p.on("MatMul", {"rows", "w"}, "qkv");
  p.node_of("", "Split", {"qkv"}, {"q", "k", "v"}, {attribute("axis", 1), attribute("num_outputs", 3)});
  p.ms("PackedMultiHeadAttention", {"q", "k", "v", "b", "offsets", "sums", "bias"}, {"packed2"}, {heads});
  p.agree({{"y", "y2"}, {"packed", "packed2"}});
}

TEST_CASE("paged attention reads the keys of its blocks") {
  // One sequence with two cached keys and one new token, as attention with a past.
  OnnxPair p;
  p.real("q", {1, 8}).real("k", {1, 4}).real("v", {1, 4}).real("kc", {3, 2, 1, 4}).real("vc", {3, 2, 1, 4});
  p.model().input("sums", DType::I32, {2}, {0, 1});
  p.model().input("past", DType::I32, {1}, {2});
  p.model().input("table", DType::I32, {1, 2}, {2, 0});
  p.ms("PagedAttention", {"q", "k", "v", "kc", "vc", "sums", "past", "table"}, {"y", "ko", "vo"},
       {attribute("num_heads", 2), attribute("kv_num_heads", 1)});
  p.ints("two", {2}).ints("keys", {1, 1, 2, 4}).ints("one", {1, 1, 1, 4}).ints("query", {1, 2, 1, 4}).ints("flat", {1, 8});
  for (const std::string n : {"k", "v"}) {
    p.on("Gather", {n + "c", "two"}, n + "_block").on("Reshape", {n + "_block", "keys"}, n + "_old");
    p.on("Reshape", {n, "one"}, n + "_new").on("Concat", {n + "_old", n + "_new"}, n + "_all", {attribute("axis", 2)});
  }
  p.on("Reshape", {"q", "query"}, "q4").on("Attention", {"q4", "k_all", "v_all"}, "a").on("Reshape", {"a", "flat"}, "y2");
  // The new key is row 0 of block 0.
  p.ints("at", {0, 0}).ints("pair", {1, 2}).on("Reshape", {"at", "pair"}, "place").ints("row", {1, 1, 4});
  p.on("Reshape", {"k", "row"}, "k_row").on("ScatterND", {"kc", "place", "k_row"}, "ko2");
  p.agree({{"y", "y2"}, {"ko", "ko2"}});
}
