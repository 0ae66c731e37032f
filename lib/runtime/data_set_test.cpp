#include "runtime/data_set.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "eval/value.h"
#include "ir/builder.h"
#include "runtime/npy.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

TensorData numbers(float first) { return make_data(DType::F32, {2}, std::vector<float>{first, 2}); }

void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// A model of inputs "x" and, if it has two, "y".
struct Model {
  Module m;
  explicit Model(bool two = false, std::vector<Dim> dims = {Dim(2)}) {
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(DType::F32, dims));
    m.main().add_output(two ? b.add(x, b.input("y", tensor_type(DType::F32, {2}))) : b.unary(OpKind::Neg, x), {});
  }

  // "name: first element of x" of each data set, or the error.
  std::string read(const std::string& path, bool stacked = false) {
    Diagnostics d;
    const auto sets = read_data_sets(m, path, d, stacked);
    if (!sets) return d.text();
    std::string out;
    for (const DataSet& s : *sets)
      out += (out.empty() ? "" : ", ") + s.name + ": " + std::to_string(static_cast<int>(eval::numbers(s.inputs.at(0))[0]));
    return out;
  }
};

}  // namespace

TEST_CASE("a file is a data set of a model with one input") {
  const TempDir folder;
  put(folder / "any.npy", npy_bytes(numbers(3)));
  CHECK(Model().read(folder / "any.npy") == "any.npy: 3");
  CHECK(Model(true).read(folder / "any.npy").find("holds one value, and the model has 2 inputs") != std::string::npos);
  put(folder / "any.txt", "3");
  CHECK(Model().read(folder / "any.txt").find("holds no data that is known") != std::string::npos);
  CHECK(Model().read(folder / "none.npy").find("does not exist") != std::string::npos);
}

TEST_CASE("files of a folder are data sets in the order of their names, if none has the name of an input") {
  const TempDir folder;
  put(folder / "b.npy", npy_bytes(numbers(4)));
  put(folder / "a.npy", npy_bytes(numbers(3)));
  put(folder / "notes.txt", "3");
  CHECK(Model().read(folder.path()) == "a.npy: 3, b.npy: 4");
  CHECK(Model(true).read(folder.path()).find("there is no data for input \"x\"") != std::string::npos);
  put(folder / "c.npz", npz_bytes({{"y", numbers(1)}, {"x", numbers(5)}}));
  CHECK(Model(true).read(folder.path()) == "c.npz: 5");
  put(folder / "x.npy", npy_bytes(numbers(7)));
  CHECK(Model().read(folder.path()) == std::filesystem::path(folder.path()).filename().string() + ": 7");
}

TEST_CASE("an array has samples along an axis that the only input lacks or has as 1") {
  const TempDir folder;
  const std::string path = folder / "all.npy";
  put(path, npy_bytes(make_data(DType::F32, {3, 2}, std::vector<float>{5, 0, 6, 0, 7, 0})));
  const std::string samples = "all.npy[0]: 5, all.npy[1]: 6, all.npy[2]: 7";
  CHECK(Model().read(path, true) == samples);
  CHECK(Model(false, {Dim(1), Dim(2)}).read(path, true) == samples);
  CHECK(Model(false, {Dim(1), Dim(2)}).read(folder.path(), true) == samples);
  CHECK(Model(false, {Dim(3), Dim(2)}).read(path, true) == "all.npy: 5");
  for (const std::vector<Dim>& dims :
       {std::vector<Dim>{}, std::vector{Dim(3)}, std::vector{Dim(1), Dim(3)}, std::vector{Dim(2), Dim(2)}})
    CHECK(Model(false, dims).read(path, true).find("holds f32[3,2], input \"x\" takes f32[") != std::string::npos);
  CHECK(Model().read(path).find("holds f32[3,2], input \"x\" takes f32[2]") != std::string::npos);
  put(path, npy_bytes(make_data(DType::F32, {0, 2}, std::vector<float>{})));
  CHECK(Model().read(path, true).find("holds f32[0,2], input \"x\" takes f32[2]") != std::string::npos);
}
