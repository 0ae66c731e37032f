#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

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

TEST_CASE("folders of dead processes are removed at once, those of live ones and foreign ones are not") {
  const test::TempDir dir;
  const fs::path stale = fs::path(dir.path()) / "rlxc-abcdef", foreign = fs::path(dir.path()) / "rlxc-mine";
  for (const fs::path& p : {stale / "a" / "b", foreign}) fs::create_directories(p);
  std::ofstream(stale / "a" / "file") << "text";
  const TemporaryFolder live(dir.path(), "rlxc-");
  CHECK_FALSE(fs::exists(stale));
  const TemporaryFolder next(dir.path(), "rlxc-");
  CHECK(fs::exists(foreign));
  CHECK(fs::exists(live.path()));
}

TEST_CASE("a parent that cannot be written to gives an empty path") {
  CHECK(TemporaryFolder("/nonexistent", "rlxc-").path().empty());
}

}  // namespace
}  // namespace rlxc
