#include "support/output_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/temp_dir.h"

using namespace rlxc;
namespace fs = std::filesystem;

static std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

static size_t files_in(const std::string& dir) { return static_cast<size_t>(std::distance(fs::directory_iterator(dir), {})); }

TEST_CASE("a file appears on commit, with its sha256") {
  test::TempDir dir;
  Diagnostics d;
  const std::string path = dir / "a.json";
  {
    auto file = OutputFile::create(path, d);
    REQUIRE(file);
    CHECK(file->write("ab"));
    CHECK(file->write("c"));
    CHECK_FALSE(fs::exists(path));
    OutputFile moved = std::move(*file);
    CHECK(moved.commit());
    CHECK_FALSE(moved.commit());
    CHECK(moved.size() == 3);
    CHECK(moved.sha256_hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  }
  CHECK(content(path) == "abc");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("blocks of a large file, which a thread writes, arrive in their order") {
  test::TempDir dir;
  Diagnostics d;
  const std::string path = dir / "large";
  auto file = OutputFile::create(path, d);
  REQUIRE(file);
  std::string all;
  for (size_t i = 0; all.size() < 6 << 20; ++i) {
    const std::string block((i * 7919) % (400 << 10) + 1, static_cast<char>('a' + i % 26));
    REQUIRE(file->write(block));
    all += block;
  }
  Sha256 whole;
  whole.update(bytes_of(all));
  CHECK(file->sha256_hex() == whole.hex());
  CHECK(file->size() == all.size());
  CHECK(file->commit());
  CHECK(content(path) == all);
}

TEST_CASE("a file of a temporary folder is written in place, and never over another") {
  test::TempDir dir;
  Diagnostics d;
  auto file = OutputFile::create_in_temporary(dir / "a", d, "shown/a");
  REQUIRE(file);
  CHECK(file->write("abc"));
  CHECK(fs::exists(dir / "a"));
  CHECK(file->commit());
  CHECK(content(dir / "a") == "abc");
  CHECK_FALSE(OutputFile::create_in_temporary(dir / "a", d, "shown/a"));
  CHECK(d.text().find("\"shown/a\"") != std::string::npos);
  CHECK(content(dir / "a") == "abc");
}

TEST_CASE("without commit the old file stays and nothing else is left") {
  test::TempDir dir;
  Diagnostics d;
  const std::string path = dir / "a";
  REQUIRE(write_file(path, "old", d));
  { CHECK(OutputFile::create(path, d)->write("new")); }
  CHECK(content(path) == "old");
  CHECK(files_in(dir.path()) == 1);
  CHECK(write_file(path, "new", d));
  CHECK(content(path) == "new");
}

TEST_CASE("what a process left that was killed goes with the next file of that name") {
  test::TempDir dir;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  REQUIRE(::waitpid(dead, nullptr, 0) == dead);
  const fs::path stale = dir / ("a.tmp-" + std::to_string(dead)), live = dir / ("a.tmp-" + std::to_string(::getppid())),
                 other = dir / ("b.tmp-" + std::to_string(dead)), foreign = dir / "a.tmp-1x";
  for (const fs::path& p : {stale, live, other, foreign}) {
    std::ofstream(p) << "old";
    fs::last_write_time(p, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  }
  Diagnostics d;
  CHECK(write_file(dir / "a", "new", d));
  CHECK_FALSE(fs::exists(stale));
  for (const fs::path& p : {live, other, foreign}) CHECK(fs::exists(p));
}

TEST_CASE("a link is followed, a device is written in place") {
  test::TempDir dir;
  Diagnostics d;
  REQUIRE(write_file(dir / "real", "old", d));
  fs::create_symlink("real", dir / "link");
  CHECK(write_file(dir / "link", "new", d));
  CHECK(fs::is_symlink(dir / "link"));
  CHECK(content(dir / "real") == "new");
  CHECK(write_file("/dev/null", "x", d));
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(d.ok());
}

TEST_CASE("what cannot be written is reported, once") {
  test::TempDir dir;
  Diagnostics d;
  CHECK_FALSE(OutputFile::create(dir.path(), d));
  CHECK_FALSE(OutputFile::create(dir / "no/such/folder", d));
  CHECK_FALSE(OutputFile::create("", d));
  CHECK(d.errors() == 3);
  CHECK(d.exit() == ExitCode::Unwritable);
  auto full = OutputFile::create("/dev/full", d);
  REQUIRE(full);
  CHECK_FALSE(full->write("x"));
  CHECK_FALSE(full->write("x"));
  CHECK_FALSE(full->commit());
  CHECK(d.errors() == 4);
}
