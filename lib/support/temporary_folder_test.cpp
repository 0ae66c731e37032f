#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "support/temp_dir.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

void make_old(const fs::path& p) {
  const struct timeval long_ago[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(utimes(p.c_str(), long_ago) == 0);
}

TEST_CASE("a temporary folder goes with its owner, unless it is released") {
  const test::TempDir dir;
  std::string path, kept;
  {
    TemporaryFolder folder(dir.path(), "rlxc-"), released(dir.path(), "rlxc-");
    path = folder.path(), kept = released.path();
    std::ofstream(path + "/file") << "text";
    CHECK(fs::path(path).filename().string().starts_with("rlxc-"));
    released.release();
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(fs::exists(kept));
}

TEST_CASE("folders of dead processes are removed, those of live ones and foreign ones are not") {
  const test::TempDir dir;
  const fs::path stale = fs::path(dir.path()) / "rlxc-abcdef", young = fs::path(dir.path()) / "rlxc-ghijkl",
                 foreign = fs::path(dir.path()) / "rlxc-mine";
  for (const fs::path& p : {stale, young, foreign}) fs::create_directory(p);
  const TemporaryFolder live(dir.path(), "rlxc-");
  for (const fs::path& p : {stale, foreign, fs::path(live.path())}) make_old(p);
  const TemporaryFolder next(dir.path(), "rlxc-");
  CHECK_FALSE(fs::exists(stale));
  CHECK(fs::exists(young));
  CHECK(fs::exists(foreign));
  CHECK(fs::exists(live.path()));
}

TEST_CASE("a parent that cannot be written to gives an empty path") {
  CHECK(TemporaryFolder("/nonexistent", "rlxc-").path().empty());
}

}  // namespace
}  // namespace rlxc
