#include "eval/image/library.h"

#include <doctest/doctest.h>
#include <stdlib.h>

using namespace rlxc::eval::codec;

namespace {

struct StandardLibrary : Library {
  explicit StandardLibrary(const char* file = "libc.so.6") : Library(file) {}
  RLXC_LIBRARY_FUNCTION(atoi);
};

struct Absent : StandardLibrary {
  Absent() : StandardLibrary("librlxc-absent.so.7") {}
};

struct Old : StandardLibrary {
  int (*later)() = function<int (*)()>("rlxc_added_later");
};

}  // namespace

TEST_CASE("libraries of image formats: functions of an open library are called") {
  Decoding d;
  const auto* const library = open_library<StandardLibrary>(d);
  REQUIRE(library);
  CHECK(d.error.empty());
  CHECK(library->atoi("42") == 42);
}

TEST_CASE("libraries of image formats: an error names the library that is absent, or too old") {
  Decoding d;
  CHECK_FALSE(open_library<Absent>(d));
  CHECK(d.error.starts_with("the library that reads it can't be opened: librlxc-absent.so.7: "));
  d.error.clear();
  CHECK_FALSE(open_library<Old>(d));
  CHECK(d.error == "the library that reads it, libc.so.6, has no function rlxc_added_later");
}
