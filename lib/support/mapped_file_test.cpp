#include "support/mapped_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "support/output_file.h"
#include "support/temp_dir.h"

using namespace rlxc;
namespace fs = std::filesystem;

static std::string_view text(const MappedFile& f) { return {reinterpret_cast<const char*>(f.data()), f.size()}; }

TEST_CASE("a file is mapped whole, moves without copying and may be shared") {
  test::TempDir dir;
  Diagnostics d;
  REQUIRE(write_file(dir / "m", "model", d));
  auto file = open_model_file(dir / "m", d);
  REQUIRE(file);
  const std::byte* address = file->data();
  const auto shared = std::make_shared<const MappedFile>(std::move(*file));
  CHECK(shared->data() == address);
  CHECK(file->size() == 0);
  CHECK(text(*shared) == "model");
  CHECK(shared->path() == dir / "m");
  REQUIRE(write_file(dir / "empty", "", d));
  CHECK(open_model_file(dir / "empty", d)->size() == 0);
  CHECK(d.ok());
}

TEST_CASE("released pages read the same again") {
  test::TempDir dir;
  Diagnostics d;
  std::string content(100000, 'x');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 / 5);
  REQUIRE(write_file(dir / "w", content, d));
  const auto file = open_model_file(dir / "w", d);
  CHECK(text(*file) == content);
  file->release(0, 100000);
  file->release(10, 50000);
  file->release(99999, ~uint64_t{0});
  file->release(~uint64_t{0}, 5);
  CHECK(text(*file) == content);
}

TEST_CASE("only regular files are models") {
  test::TempDir dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {dir.path(), dir / "pipe", dir / "missing", std::string("/dev/zero"), std::string("a\0b", 3)}) {
    Diagnostics d;
    CHECK_FALSE(open_model_file(path, d));
    REQUIRE(d.errors() == 1);
    CHECK(d.items()[0].code == Code::UnreadableFile);
  }
}

TEST_CASE("external data stays below the model's folder") {
  test::TempDir dir;
  Diagnostics d;
  fs::create_directories(dir / "model/sub");
  REQUIRE(write_file(dir / "secret", "secret", d));
  REQUIRE(write_file(dir / "model/w", "w", d));
  REQUIRE(write_file(dir / "model/sub/v", "v", d));
  REQUIRE(write_file(dir / "model/twice", "t", d));
  fs::create_symlink("../secret", dir / "model/link");
  fs::create_symlink("w", dir / "model/inner");
  fs::create_directory_symlink("..", dir / "model/up");
  fs::create_directory_symlink("model", dir / "alias");
  fs::create_hard_link(dir / "model/twice", dir / "model/thrice");
  REQUIRE(::mkfifo((dir / "model/pipe").c_str(), 0600) == 0);

  const auto code = [&](std::string_view path) {
    Diagnostics e;
    CHECK_FALSE(resolve_external(dir / "model", path, e));
    REQUIRE(e.errors() == 1);
    return e.items()[0].code;
  };
  CHECK(text(*resolve_external(dir / "model", "w", d)) == "w");
  CHECK(text(*resolve_external(dir / "model", "./sub//v", d)) == "v");
  CHECK(text(*resolve_external(dir / "alias", "w", d)) == "w");
  CHECK(resolve_external(dir / "model/", "sub/v", d)->path() == dir / "model//sub/v");
  CHECK(d.ok());
  const std::string absolute = dir / "model/w";
  for (std::string_view path :
       {std::string_view(absolute), std::string_view("../secret"), std::string_view("sub/../w"),
        std::string_view("sub/../../secret"), std::string_view(".."), std::string_view("sub\\v"), std::string_view("w\0x", 3),
        std::string_view(""), std::string_view("."), std::string_view("sub/"), std::string_view("link"),
        std::string_view("inner"), std::string_view("up/secret"), std::string_view("up/model/w"), std::string_view("twice")}) {
    CAPTURE(path);
    CHECK(code(path) == Code::UnsafePath);
  }
  for (std::string_view path : {"missing", "no/file", "w/file", "sub", "pipe"}) {
    CAPTURE(path);
    CHECK(code(path) == Code::MissingWeights);
  }
  CHECK(code(std::string(5000, 'a')) == Code::MissingWeights);
  Diagnostics e;
  CHECK_FALSE(resolve_external(dir / "nowhere", "w", e));
  CHECK(e.items()[0].code == Code::MissingWeights);
}
