#include "support/shared_library.h"

#include <doctest/doctest.h>

namespace rlxc {

TEST_CASE("shared libraries: a function of an open library is called, and errors name what is missing") {
  REQUIRE(opens_libraries());
  void* const library = open_library("libm.so.6");
  REQUIRE(library);
  double (*cosine)(double) = nullptr;
  REQUIRE(find_symbol(library, "cos", &cosine));
  CHECK(cosine(0.0) == 1.0);
  CHECK_FALSE(find_symbol(library, "rlxc_added_later", &cosine));
  CHECK(library_error().find("rlxc_added_later") != std::string::npos);
  CHECK(library_error().empty());  // said once
  close_library(library);
  CHECK_FALSE(open_library("librlxc-absent.so.7"));
  CHECK(library_error().find("librlxc-absent.so.7") != std::string::npos);
  close_library(nullptr);
}

}  // namespace rlxc
