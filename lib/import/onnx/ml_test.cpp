#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

OnnxPair& ml(OnnxPair& p, std::string_view op, const std::string& in, const std::vector<std::string>& out,
             const std::vector<std::string>& attributes) {
  return p.node_of("ai.onnx.ml", op, {in}, out, attributes);
}
using Reals = std::vector<double>;
using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

std::string tensor_attribute(std::string_view name, DType t, const std::vector<double>& values) {
  std::string raw;
  for (double v : values)
    for (std::byte b : element_bytes(t, v)) raw += static_cast<char>(b);
  const std::string tensor =
      field(1, static_cast<int64_t>(values.size())) + field(2, static_cast<int64_t>(onnx_dtype(t))) + field(9, raw);
  return field(1, name) + field(5, tensor) + field(20, 4);
}

}  // namespace

TEST_CASE("linear models, scalers and features") {
  OnnxPair p;
  p.model().input("x", DType::F32, {3, 2}, {0.2, 5, 0.7, -1, 0.7, 3});
  ml(p, "LinearRegressor", "x", {"line"}, {attribute("coefficients", Reals{2, 1}), attribute("intercepts", Reals{0.5})});
  ml(p, "Scaler", "x", {"scaled"}, {attribute("offset", Reals{0.2, 1}), attribute("scale", Reals{10, 2})});
  ml(p, "Binarizer", "x", {"binary"}, {attribute("threshold", 0.5)});
  ml(p, "Normalizer", "x", {"unit"}, {attribute("norm", "L1")});
  ml(p, "Imputer", "x", {"filled"},
     {attribute("imputed_value_floats", Reals{9, 8}), attribute("replaced_value_float", 0.7),
      attribute("replaced_value_int64", 0),
      attribute("imputed_value_int64s", std::vector<int64_t>{})});  // what belongs to integers has no effect
  p.node_of("ai.onnx.ml", "FeatureVectorizer", {"x", "line"}, {"joined"}, {});
  for (const char* name : {"line", "scaled", "binary", "unit", "filled", "joined"}) p.model().output(name);
  const auto got = p.model().run();
  check_close(got[0], {5.9, 0.9, 4.9});
  check_close(got[1], {0, 8, 5, -4, 5, 4});
  check_close(got[2], {0, 1, 1, 0, 1, 1});
  check_close(got[3], {0.2 / 5.2, 5 / 5.2, 0.7 / 1.7, -1 / 1.7, 0.7 / 3.7, 3 / 3.7});
  check_close(got[4], {0.2, 5, 9, -1, 9, 3});
  check_close(got[5], {0.2, 5, 5.9, 0.7, -1, 0.9, 0.7, 3, 4.9});
  OnnxPair q;
  q.model().input("x", DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  q.ints("which", {2, 0});
  q.node_of("ai.onnx.ml", "ArrayFeatureExtractor", {"x", "which"}, {"chosen"}, {});
  q.model().output("chosen");
  CHECK(q.model().run()[0] == Reals{3, 1, 6, 4});
}

TEST_CASE("labels of linear classifiers, and transforms of their scores") {
  OnnxPair p;
  p.real("x", {4, 2}).number("zero", 0).number("tiny", 1e-7).number("half", 0.5);
  const std::vector<std::string> model{attribute("coefficients", Reals{1, -1, 0.5, 2, -1, 0}),
                                       attribute("intercepts", Reals{0.1, 0, -0.2}),
                                       attribute("classlabels_ints", Ints{7, 3, 5})};
  const auto transformed = [&](const char* transform) {
    auto a = model;
    a.push_back(attribute("post_transform", transform));
    return a;
  };
  ml(p, "LinearClassifier", "x", {"label", "raw"}, model);
  ml(p, "LinearClassifier", "x", {"l1", "soft"}, transformed("SOFTMAX"));
  ml(p, "LinearClassifier", "x", {"l2", "logistic"}, transformed("LOGISTIC"));
  ml(p, "LinearClassifier", "x", {"l3", "soft0"}, transformed("SOFTMAX_ZERO"));
  p.model().raw_graph(field(
      5, field(1, int64_t{2}) + field(1, int64_t{3}) + field(2, int64_t{1}) + field(8, "w") + [] {
        std::string f;
        for (float v : {1.f, 0.5f, -1.f, -1.f, 2.f, 0.f}) f += fixed32(4, v);
        return f;
      }()));
  p.on("MatMul", {"x", "w"}, "xw")
      .on("Constant", {}, "b", {attribute("value_floats", Reals{0.1, 0, -0.2})})
      .on("Add", {"xw", "b"}, "raw2");
  p.on("Softmax", {"raw2"}, "soft2").on("Sigmoid", {"raw2"}, "logistic2").ints("names", {7, 3, 5});
  p.on("ArgMax", {"raw2"}, "best", {attribute("axis", 1), attribute("keepdims", 0)}).on("Gather", {"names", "best"}, "label2");
  p.agree({{"raw", "raw2"}, {"soft", "soft2"}, {"logistic", "logistic2"}, {"soft0", "soft2"}, {"label", "label2"}});
}

TEST_CASE("what linear and support vector models leave out is 0") {
  OnnxPair p;
  p.model().input("x", DType::F32, {2, 2}, {1, 2, 3, -1});
  const auto of = [](const Reals& coefficients, const std::vector<std::string>& more = {}) {
    std::vector<std::string> a{attribute("coefficients", coefficients), attribute("classlabels_ints", Ints{7, 3})};
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  ml(p, "LinearClassifier", "x", {"l1", "both"}, of({1, -1, 0.5, 2}));
  ml(p, "LinearClassifier", "x", {"l2", "one"}, of({1, -1}));
  ml(p, "SVMClassifier", "x", {"l3", "linear"}, of({1, -1, 0.5, 2}));
  ml(p, "SVMClassifier", "x", {"l4", "pair"},
     of({2, -1}, {attribute("vectors_per_class", Ints{1, 1}), attribute("support_vectors", Reals{1, 0, 0, 1})}));
  ml(p, "SVMRegressor", "x", {"line"}, {attribute("coefficients", Reals{2, 3})});
  p.node_of("ai.onnx.ml", "FeatureVectorizer", {"x", "line"}, {"joined"}, {attribute("inputdimensions", Ints{1, 2})});
  for (const char* name : {"l1", "both", "l2", "one", "l3", "linear", "l4", "pair", "line", "joined"}) p.model().output(name);
  const auto got = p.model().run();
  CHECK(got[0] == Reals{3, 7});
  check_close(got[1], {-1, 4.5, 4, -0.5});
  CHECK(got[2] == Reals{7, 3});
  check_close(got[3], {1, -1, -4, 4});
  CHECK(got[4] == got[0]);
  check_close(got[5], got[1]);
  CHECK(got[6] == Reals{3, 7});  // 2 x0 - x1 > 0 is a vote for the first
  check_close(got[7], {0, 0, -7, 7});
  check_close(got[8], {8, 3});
  check_close(got[9], {1, 8, 0, 3, 3, 0});
}

TEST_CASE("the probit transform inverts the normal distribution") {
  OnnxPair p;
  p.model().input("x", DType::F32, {5, 1}, {0.02, 0.3, 0.5, 0.8, 0.99});
  ml(p, "LinearRegressor", "x", {"y"}, {attribute("coefficients", Reals{1}), attribute("post_transform", "PROBIT")});
  p.model().output("y");
  check_close(p.model().run()[0], {-2.0537, -0.5244, 0, 0.8416, 2.3263}, 5e-3);
}

TEST_CASE("tables of labels") {
  OnnxPair p;
  p.model().input("n", DType::I64, {2, 2}, {3, 1, 4, 9});
  p.model().input("f", DType::F32, {3}, {0.5, std::nan(""), 2});
  ml(p, "LabelEncoder", "n", {"a"},
     {attribute("keys_int64s", Ints{1, 3, 4}), attribute("values_floats", Reals{10, 30, 40}), attribute("default_float", -1.0)});
  ml(p, "LabelEncoder", "f", {"b"},
     {attribute("keys_floats", Reals{std::nan(""), 0.5}), attribute("values_int64s", Ints{7, 8}),
      attribute("default_int64", -2)});
  ml(p, "LabelEncoder", "n", {"c"},
     {attribute("keys_int64s", Ints{1, 3}), attribute("values_strings", Texts{"one", "three"}),
      attribute("default_string", "?")});
  ml(p, "LabelEncoder", "c", {"d"}, {attribute("keys_strings", Texts{"one", "?"}), attribute("values_int64s", Ints{1, 0})});
  ml(p, "LabelEncoder", "n", {"e"},
     {tensor_attribute("keys_tensor", DType::I64, {9, 4}), tensor_attribute("values_tensor", DType::F64, {0.25, 0.5}),
      tensor_attribute("default_tensor", DType::F64, {2})});
  ml(p, "CategoryMapper", "c", {"g"}, {attribute("cats_strings", Texts{"three", "?"}), attribute("cats_int64s", Ints{33, 44})});
  ml(p, "CategoryMapper", "g", {"h"},
     {attribute("cats_strings", Texts{"three", "?"}), attribute("cats_int64s", Ints{33, 44}),
      attribute("default_string", "none")});
  ml(p, "LabelEncoder", "h", {"i"}, {attribute("classes_strings", Texts{"none", "?", "three"})});
  ml(p, "OneHotEncoder", "n", {"hot"}, {attribute("cats_int64s", Ints{9, 3})});
  ml(p, "OneHotEncoder", "h", {"word"}, {attribute("cats_strings", Texts{"three", "none"})});
  for (const char* name : {"a", "b", "d", "e", "g", "i", "hot", "word"}) p.model().output(name);
  const auto got = p.model().run();
  CHECK(got[0] == Reals{30, 10, 40, -1});
  CHECK(got[1] == Reals{8, 7, -2});
  CHECK(got[2] == Reals{-1, 1, 0, 0});
  CHECK(got[3] == Reals{2, 2, 0.5, 0.25});
  CHECK(got[4] == Reals{33, -1, 44, 44});
  CHECK(got[5] == Reals{2, 0, 1, 1});
  CHECK(got[6] == Reals{0, 1, 0, 0, 0, 0, 1, 0});
  CHECK(got[7] == Reals{1, 0, 0, 1, 0, 0, 0, 0});
}

// Tree 0: x0 <= 0.5 ? 1 : (x1 < 0 ? 2 : 4); tree 1: a leaf of 10.
TEST_CASE("trees: sums, several comparisons, missing values") {
  OnnxPair p;
  p.model().input("x", DType::F32, {4, 2}, {0.2, 5, 0.7, -1, 0.7, 3, std::nan(""), -1});
  const auto trees = [&](const std::string& votes, const std::vector<std::string>& more) {
    std::vector<std::string> a{attribute("nodes_treeids", Ints{0, 0, 0, 0, 0, 1}),
                               attribute("nodes_nodeids", Ints{0, 1, 2, 3, 4, 0}),
                               attribute("nodes_featureids", Ints{0, 0, 1, 0, 0, 0}),
                               attribute("nodes_values", Reals{0.5, 0, 0, 0, 0, 0}),
                               attribute("nodes_truenodeids", Ints{1, 0, 3, 0, 0, 0}),
                               attribute("nodes_falsenodeids", Ints{2, 0, 4, 0, 0, 0}),
                               attribute("nodes_modes", Texts{"BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF", "LEAF"}),
                               attribute(votes + "_treeids", Ints{0, 0, 0, 1}),
                               attribute(votes + "_nodeids", Ints{1, 3, 4, 0})};
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  const auto target = [&](const char* how, bool missing) {
    return trees("target", {attribute("target_ids", Ints{0, 0, 0, 0}), attribute("target_weights", Reals{1, 2, 4, 10}),
                            attribute("aggregate_function", how), attribute("base_values", Reals{0.5}),
                            attribute("nodes_missing_value_tracks_true", Ints{missing, 0, 0, 0, 0, 0})});
  };
  ml(p, "TreeEnsembleRegressor", "x", {"sum"}, target("SUM", false));
  ml(p, "TreeEnsembleRegressor", "x", {"missing"}, target("SUM", true));
  ml(p, "TreeEnsembleRegressor", "x", {"mean"}, target("AVERAGE", false));
  ml(p, "TreeEnsembleRegressor", "x", {"least"}, target("MIN", false));
  ml(p, "TreeEnsembleRegressor", "x", {"most"}, target("MAX", false));
  ml(p, "TreeEnsembleClassifier", "x", {"label", "scores"},
     trees("class", {attribute("class_ids", Ints{0, 1, 2, 1}), attribute("class_weights", Reals{11, 2, 40, 10}),
                     attribute("classlabels_int64s", Ints{5, 6, 7})}));
  ml(p, "TreeEnsembleClassifier", "x", {"sure", "probability"},
     trees("class", {attribute("class_ids", Ints{0, 0, 0, 0}), attribute("class_weights", Reals{0.1, 0.2, 0.4, 0.2}),
                     attribute("classlabels_int64s", Ints{5, 6})}));
  ml(p, "TreeEnsembleClassifier", "x", {"second", "votes"},
     trees("class", {attribute("class_ids", Ints{1, 1, 1, 1}), attribute("class_weights", Reals{0.1, -0.2, 0.4, -0.2}),
                     attribute("classlabels_int64s", Ints{5, 6})}));
  ml(p, "TreeEnsembleClassifier", "x", {"only", "score"},
     trees("class", {attribute("class_ids", Ints{0, 0, 0, 0}), attribute("class_weights", Reals{0.1, -0.2, 0.4, -0.2}),
                     attribute("classlabels_int64s", Ints{5})}));
  for (const char* name :
       {"sum", "missing", "mean", "least", "most", "label", "scores", "sure", "probability", "second", "votes", "only", "score"})
    p.model().output(name);
  const auto got = p.model().run();
  check_close(got[0], {11.5, 12.5, 14.5, 12.5});
  check_close(got[1], {11.5, 12.5, 14.5, 11.5});
  check_close(got[2], {6, 6.5, 7.5, 6.5});
  check_close(got[3], {1.5, 2.5, 4.5, 2.5});
  check_close(got[4], {10.5, 10.5, 10.5, 10.5});
  check_close(got[5], {5, 6, 7, 6});
  check_close(got[6], {11, 10, 0, 0, 12, 0, 0, 10, 40, 0, 12, 0});
  check_close(got[7], {5, 5, 6, 5});
  check_close(got[8], {0.7, 0.3, 0.6, 0.4, 0.4, 0.6, 0.6, 0.4});
  check_close(got[9], {5, 5, 6, 5});
  check_close(got[10], {0, -0.1, 0, -0.4, 0, 0.2, 0, -0.4});
  check_close(got[11], {5, 5, 5, 5});
  check_close(got[12], {-0.1, -0.4, 0.2, -0.4});
}

// x0 <= 3 ? (x1 in {1.2, 3.7, 8} ? leaf 0 : leaf 1) : leaf 2; and a tree of one leaf.
TEST_CASE("trees of the fifth version: sets") {
  OnnxPair p;
  p.model().input("x", DType::F64, {4, 2}, {1, 3.7, 1, 2, 4, 8, 3, 8});
  const std::vector<std::string> trees{attribute("n_targets", 2),
                                       attribute("tree_roots", Ints{0, 2}),
                                       attribute("nodes_featureids", Ints{0, 1, 0}),
                                       tensor_attribute("nodes_modes", DType::U8, {0, 6, 0}),
                                       tensor_attribute("nodes_splits", DType::F64, {3, 0, 0}),
                                       attribute("nodes_truenodeids", Ints{1, 0, 3}),
                                       attribute("nodes_trueleafs", Ints{0, 1, 1}),
                                       attribute("nodes_falsenodeids", Ints{2, 1, 3}),
                                       attribute("nodes_falseleafs", Ints{1, 1, 1}),
                                       attribute("leaf_targetids", Ints{0, 1, 0, 1}),
                                       tensor_attribute("leaf_weights", DType::F64, {5.25, 12.5, -1, 0.5}),
                                       tensor_attribute("membership_values", DType::F64, {1.2, 3.7, 8, std::nan("")})};
  ml(p, "TreeEnsemble", "x", {"y"}, trees);
  auto logistic = trees;
  logistic.push_back(attribute("post_transform", 2));
  ml(p, "TreeEnsemble", "x", {"z"}, logistic);
  for (const char* name : {"y", "z"}) p.model().output(name);
  const auto got = p.model().run();
  check_close(got[0], {5.25, 0.5, 0, 13, -1, 0.5, 5.25, 0.5});
  for (size_t i = 0; i < 8; ++i) CHECK(got[1][i] == doctest::Approx(1 / (1 + std::exp(-got[0][i]))));
}

TEST_CASE("support vector regression") {
  OnnxPair p;
  const auto x = some(6, 1), v = some(8, 2), c = some(4, 3);
  p.model().input("x", DType::F32, {3, 2}, x);
  const auto vectors = [&](const char* kernel, int one_class) {
    return std::vector<std::string>{attribute("kernel_type", kernel), attribute("kernel_params", Reals{0.7, 0.3, 3}),
                                    attribute("n_supports", 4),       attribute("support_vectors", v),
                                    attribute("coefficients", c),     attribute("rho", Reals{0.25}),
                                    attribute("one_class", one_class)};
  };
  const std::vector<const char*> kernels{"LINEAR", "POLY", "RBF", "SIGMOID"};
  for (const char* k : kernels) ml(p, "SVMRegressor", "x", {k}, vectors(k, 0)), p.model().output(k);
  ml(p, "SVMRegressor", "x", {"one"}, vectors("RBF", 1));
  p.model().output("one");
  const auto got = p.model().run();
  for (size_t k = 0; k < 4; ++k)
    for (size_t r = 0; r < 3; ++r) {
      double y = 0.25;
      for (size_t s = 0; s < 4; ++s) {
        const double dot = x[2 * r] * v[2 * s] + x[2 * r + 1] * v[2 * s + 1],
                     d = std::pow(x[2 * r] - v[2 * s], 2) + std::pow(x[2 * r + 1] - v[2 * s + 1], 2);
        y += c[s] * (k == 0   ? dot
                     : k == 1 ? std::pow(0.7 * dot + 0.3, 3)
                     : k == 2 ? std::exp(-0.7 * d)
                              : std::tanh(0.7 * dot + 0.3));
      }
      CHECK(got[k][r] == doctest::Approx(y).epsilon(1e-4));
      if (k == 2) CHECK(got[4][r] == (y > 0 ? 1 : -1));
    }
}

// Three classes with 2, 1 and 2 vectors: pairwise votes, and probabilities by libsvm's iteration.
TEST_CASE("support vector classification") {
  const auto x = some(10, 11), v = some(10, 12), c = some(10, 13);
  const Reals rho{0.1, -0.2, 0.05}, a{-1.5, -2, -1}, b{0.1, -0.1, 0.2};
  const std::vector<size_t> first{0, 2, 3}, count{2, 1, 2};
  const std::vector<std::string> model{attribute("kernel_type", "RBF"),
                                       attribute("kernel_params", Reals{0.5, 0, 0}),
                                       attribute("vectors_per_class", Ints{2, 1, 2}),
                                       attribute("support_vectors", v),
                                       attribute("coefficients", c),
                                       attribute("rho", rho),
                                       attribute("classlabels_strings", Texts{"a", "b", "c"})};
  auto with = model;
  with.push_back(attribute("prob_a", a)), with.push_back(attribute("prob_b", b));
  OnnxPair p;
  p.model().input("x", DType::F32, {5, 2}, x);
  ml(p, "SVMClassifier", "x", {"word", "scores"}, model);
  ml(p, "SVMClassifier", "x", {"w2", "probability"}, with);
  ml(p, "LabelEncoder", "word", {"label"},
     {attribute("keys_strings", Texts{"a", "b", "c"}), attribute("values_int64s", Ints{0, 1, 2})});
  for (const char* name : {"label", "scores", "probability"}) p.model().output(name);
  const auto got = p.model().run();
  for (size_t r = 0; r < 5; ++r) {
    Reals kernel(5), score, votes(3, 0);
    for (size_t s = 0; s < 5; ++s)
      kernel[s] = std::exp(-0.5 * (std::pow(x[2 * r] - v[2 * s], 2) + std::pow(x[2 * r + 1] - v[2 * s + 1], 2)));
    double q[3][3] = {}, pair[3][3] = {};
    for (size_t i = 0, e = 0; i < 3; ++i)
      for (size_t j = i + 1; j < 3; ++j, ++e) {
        double sum = rho[e];
        for (size_t k = first[i]; k < first[i] + count[i]; ++k) sum += c[(j - 1) * 5 + k] * kernel[k];
        for (size_t k = first[j]; k < first[j] + count[j]; ++k) sum += c[i * 5 + k] * kernel[k];
        score.push_back(sum);
        ++votes[sum > 0 ? i : j];
        pair[i][j] = 1 / (1 + std::exp(a[e] * sum + b[e]));
        pair[j][i] = 1 - pair[i][j];
      }
    size_t label = 0;
    for (size_t i = 1; i < 3; ++i)
      if (votes[i] > votes[label]) label = i;
    CHECK(got[0][r] == static_cast<double>(label));
    for (size_t e = 0; e < 3; ++e) CHECK(got[1][r * 3 + e] == doctest::Approx(score[e]).epsilon(1e-4));
    double prob[3] = {1. / 3, 1. / 3, 1. / 3};
    for (size_t t = 0; t < 3; ++t)
      for (size_t j = 0; j < 3; ++j)
        if (j != t) q[t][t] += pair[j][t] * pair[j][t], q[t][j] = -pair[j][t] * pair[t][j];
    for (int round = 0; round < 100; ++round) {
      double qp[3] = {}, pqp = 0, worst = 0;
      for (size_t t = 0; t < 3; ++t)
        for (size_t j = 0; j < 3; ++j) qp[t] += q[t][j] * prob[j];
      for (size_t t = 0; t < 3; ++t) pqp += prob[t] * qp[t];
      for (double e : qp) worst = std::max(worst, std::abs(e - pqp));
      if (worst < 0.005 / 3) break;
      for (size_t t = 0; t < 3; ++t) {
        const double d = (pqp - qp[t]) / q[t][t];
        prob[t] += d;
        pqp = (pqp + d * (d * q[t][t] + 2 * qp[t])) / (1 + d) / (1 + d);
        for (size_t j = 0; j < 3; ++j) qp[j] = (qp[j] + d * q[t][j]) / (1 + d), prob[j] /= 1 + d;
      }
    }
    for (size_t i = 0; i < 3; ++i) CHECK(got[2][r * 3 + i] == doctest::Approx(prob[i]).epsilon(1e-3));
  }
}
