#include "runtime/npy.h"

#include <doctest/doctest.h>

#include "eval/eval.h"
#include "eval/value.h"
#include "support/output_file.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::span<const std::byte> as_bytes_of(const std::string& s) { return std::as_bytes(std::span(s)); }

TensorData round_trip(const TensorData& t) {
  Diagnostics d;
  const auto back = parse_npy(as_bytes_of(npy_bytes(t)), "test", d);
  REQUIRE_MESSAGE(back, d.text());
  return *back;
}

bool same(const TensorData& a, const TensorData& b) {
  return a.dtype == b.dtype && eval::compare(eval::host_value(a), eval::host_value(b), 0, 0).pass;
}

// A file with this header (a Python literal) and these elements.
std::string npy_file(const std::string& header, const std::string& elements) {
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header + elements;
}

}  // namespace

TEST_CASE("arrays of every type of NumPy come back, in any rank") {
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                  DType::U32, DType::U64, DType::Bool})
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {1}, {3}, {0, 2}, {2, 3}, {2, 1, 2}}) {
      size_t count = 1;
      for (int64_t n : dims) count *= static_cast<size_t>(n);
      std::vector<double> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = t == DType::Bool ? static_cast<double>(i % 2) : static_cast<double>(i);
      const TensorData x = eval::tensor_of(t, dims, values).tensor;
      CHECK(same(round_trip(x), x));
    }
  const TensorData words = eval::strings_of({2, 2}, {"", "cat", "Übung", "\xE6\x97\xA5\xF0\x9F\x98\x80"}).tensor;
  CHECK(round_trip(words).strings == words.strings);
  CHECK(round_trip(make_splat(DType::F32, {2, 2}, element_bytes(DType::F32, 1.5))).bytes.size() == 16);
}

TEST_CASE("types that NumPy lacks are widened without loss") {
  for (DType t : {DType::BF16, DType::F8E4M3FN, DType::I4}) {
    const TensorData x = eval::tensor_of(t, {3}, {1, -2, 0.5}).tensor, y = round_trip(x);
    CHECK(y.dtype == (is_float(t) ? DType::F32 : DType::I8));
    for (int64_t i = 0; i < 3; ++i) CHECK(element_as_double(y, i) == element_as_double(x, i));
  }
}

TEST_CASE("columns become rows") {
  Diagnostics d;
  const std::string file = npy_file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", {0, 3, 1, 4, 2, 5});
  const auto x = parse_npy(as_bytes_of(file), "test", d);
  REQUIRE(x);
  for (int64_t i = 0; i < 6; ++i) CHECK(element_as_int(*x, i) == i);
}

TEST_CASE("malformed arrays are errors that say why") {
  const std::string good = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "cut short"},
      {npy_file(good, "a"), "bytes of elements"},
      {npy_file("{'descr': '>f4', 'fortran_order': False, 'shape': (), }", "abcd"), "big-endian"},
      {npy_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "abcd"), "malformed"},
      {npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "abcd"), "malformed"},
      {npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 99999999999999), }", "abcd"), "malformed"},
      {npy_file("{'descr': '', 'fortran_order': False, 'shape': (), }", "abcd"), "malformed"},
      {npy_file("{'descr': '<M8', 'fortran_order': False, 'shape': (), }", "abcdefgh"), "are not read"},
      {npy_file("{'descr': '<U0', 'fortran_order': True, 'shape': (2, 3), }", ""), "are not read"},
      {npy_file("{'descr': '<U0', 'fortran_order': False, 'shape': (9000000000000,), }", ""), "are not read"},
      {npy_file("{'descr': '<U1x', 'fortran_order': False, 'shape': (1,), }", "abcd"), "are not read"},
      {npy_file(good, "ab").substr(0, 30), "cut short"}};
  for (const auto& [file, why] : cases) {
    Diagnostics d;
    CHECK_FALSE(parse_npy(as_bytes_of(file), "test", d));
    CHECK_MESSAGE(d.text().find(why) != std::string::npos, d.text());
  }
}

TEST_CASE("an archive holds arrays by name; a damaged one is an error at any length") {
  const TempDir dir;
  const NamedArrays arrays{{"x", eval::tensor_of(DType::F32, {2}, {1, 2}).tensor},
                           {"y z", eval::tensor_of(DType::I64, {}, {7}).tensor}};
  const std::string bytes = npz_bytes(arrays);
  Diagnostics d;
  write_file(dir / "a.npz", bytes, d);
  const auto back = read_npz(dir / "a.npz", d);
  REQUIRE_MESSAGE(back, d.text());
  REQUIRE(back->size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK((*back)[i].first == arrays[i].first);
    CHECK(same((*back)[i].second, arrays[i].second));
  }
  std::string other = bytes;
  other[other.find("NUMPY") + 80] ^= 1;  // the sum of the archive does not fit
  write_file(dir / "c.npz", other, d);
  CHECK_FALSE(read_npz(dir / "c.npz", d));
  for (size_t n = 0; n < bytes.size(); n += 7) {
    Diagnostics damaged;
    write_file(dir / "b.npz", bytes.substr(0, n), damaged);
    CHECK_FALSE(read_npz(dir / "b.npz", damaged));
  }
}

TEST_CASE("a compressed archive") {
  const TempDir dir;
  const TensorData x = eval::tensor_of(DType::F32, {2}, {1, 2}).tensor;
  const std::string array = npy_bytes(x), stored = npz_bytes({{"x", x}});
  const auto number = [](size_t v, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i));
    return out;
  };
  // One block of deflate that copies.
  const std::string packed = '\1' + number(array.size(), 2) + number(~array.size(), 2) + array;
  const size_t directory = stored.find("PK\1\2");
  const std::string common =
      stored.substr(4, 4) + number(8, 2) + stored.substr(10, 8) + number(packed.size(), 4) + stored.substr(22, 8);
  const std::string entry = "PK\1\2" + stored.substr(directory + 4, 2) + common + std::string(14, '\0') + "x.npy";
  const std::string first = "PK\3\4" + common + "x.npy" + packed;
  Diagnostics d;
  write_file(dir / "a.npz",
             first + entry + "PK\5\6" + number(0, 4) + number(1, 2) + number(1, 2) + number(entry.size(), 4) +
                 number(first.size(), 4) + number(0, 2),
             d);
  const auto back = read_npz(dir / "a.npz", d);
  REQUIRE_MESSAGE(back, d.text());
  REQUIRE(back->size() == 1);
  CHECK(same((*back)[0].second, x));
}
