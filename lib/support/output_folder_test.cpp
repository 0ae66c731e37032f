#include "support/output_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "support/temp_dir.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

std::string get(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put_all(const fs::path& folder, const std::vector<std::string>& files, const std::string& text) {
  std::string manifest;
  for (const std::string& f : files) {
    put(folder / f, text);
    manifest += (manifest.empty() ? "" : ", ") + ("{\"path\": \"" + f) + "\", \"bytes\": " + std::to_string(text.size()) + "}";
  }
  put(folder / "manifest.json", "{\"files\": [" + manifest + "]}");
}

bool write(const fs::path& folder, const std::vector<std::string>& files, const std::string& text) {
  Diagnostics d;
  auto out = OutputFolder::create(folder.string(), d);
  REQUIRE_MESSAGE(out, d.text());
  put_all(out->staging(), files, text);
  return out->commit(d);
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> all;
  for (const auto& e : fs::recursive_directory_iterator(folder)) all.push_back(e.path().lexically_relative(folder).string());
  std::ranges::sort(all);
  return all;
}

TEST_CASE("a new folder appears with its files and the rights of the umask") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "a" / "out";
  CHECK(write(out, {"lir.json", "kernels/cpu/m.c"}, "1"));
  CHECK(names(out) == std::vector<std::string>{"kernels", "kernels/cpu", "kernels/cpu/m.c", "lir.json", "manifest.json"});
  CHECK(names(out.parent_path()).front() == "out");
  struct stat info;
  REQUIRE(stat(out.c_str(), &info) == 0);
  const mode_t mask = umask(0);
  umask(mask);
  CHECK((info.st_mode & 0777) == (0777 & ~mask));
}

TEST_CASE("files of the older manifest go, foreign files stay") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  CHECK(write(out, {"lir.json", "kernels/cuda/k.cu"}, "1"));
  put(out / "notes.txt", "mine");
  put(out / "kernels" / "mine.c", "mine");
  fs::create_symlink("notes.txt", out / "link");
  CHECK(write(out, {"lir.json", "kernels/cpu/m.c"}, "22"));
  CHECK(get(out / "lir.json") == "22");
  CHECK(get(out / "notes.txt") == "mine");
  CHECK(get(out / "kernels" / "mine.c") == "mine");
  CHECK(fs::read_symlink(out / "link") == "notes.txt");
  CHECK_FALSE(fs::exists(out / "kernels" / "cuda"));
}

TEST_CASE("a folder of other things keeps them and gets the files one by one") {
  const test::TempDir dir;
  const fs::path out = dir.path();
  put(out / "model.onnx", "model");
  CHECK(write(out, {"lir.json"}, "1"));
  CHECK(write(out, {"plan.json"}, "2"));
  CHECK(names(out) == std::vector<std::string>{"manifest.json", "model.onnx", "plan.json"});
}

TEST_CASE("without a commit nothing changes and nothing is left") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  CHECK(write(out, {"lir.json"}, "old"));
  {
    Diagnostics d;
    const auto again = OutputFolder::create(out.string(), d);
    put_all(again->staging(), {"lir.json"}, "new");
  }
  CHECK(get(out / "lir.json") == "old");
  CHECK(names(dir.path()) == std::vector<std::string>{"out", "out/lir.json", "out/manifest.json"});
}

TEST_CASE("a file that differs from the manifest stops the commit") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  CHECK(write(out, {"lir.json"}, "old"));
  Diagnostics d;
  auto again = OutputFolder::create(out.string(), d);
  put_all(again->staging(), {"lir.json"}, "new");
  put(fs::path(again->staging()) / "lir.json", "cut short");
  CHECK_FALSE(again->commit(d));
  CHECK(d.errors() == 1);
  CHECK(get(out / "lir.json") == "old");
}

TEST_CASE("paths of a manifest that lead out of the folder are left alone") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  put(fs::path(dir.path()) / "precious", "1");
  put_all(out, {"../precious"}, "1");
  CHECK(write(out, {"lir.json"}, "2"));
  CHECK(get(fs::path(dir.path()) / "precious") == "1");
}

TEST_CASE("of writers at the same time one wins whole") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  const std::vector<std::string> files = {"a", "b", "c", "d/e"};
  CHECK(write(out, files, "0"));
  put(out / "foreign", "mine");
  std::vector<std::thread> writers;
  for (int w = 1; w <= 4; ++w)
    writers.emplace_back([&, w] {
      for (int i = 0; i < 25; ++i) write(out, files, std::to_string(w));
    });
  for (std::thread& t : writers) t.join();
  const std::string winner = get(out / "a");
  for (const std::string& f : files) CHECK(get(out / f) == winner);
  CHECK(get(out / "foreign") == "mine");
  CHECK(names(dir.path()).size() == 8);
}

TEST_CASE("a file in the place of the folder is an error") {
  const test::TempDir dir;
  put(fs::path(dir.path()) / "out", "text");
  Diagnostics d;
  CHECK_FALSE(OutputFolder::create(dir.path() + "/out", d));
  CHECK(d.errors() == 1);
}

// As put_all, for a target.
void put_package(const fs::path& folder, const std::string& target, const std::string& text) {
  const std::string file = "kernels/" + target + "/m.c";
  put(folder / file, text);
  put(folder / "manifest.json",
      R"({"target": ")" + target + R"(", "files": [{"path": ")" + file + R"(", "bytes": )" + std::to_string(text.size()) + "}]}");
}

TEST_CASE("a package of another target stays, and one of the same target goes") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  const auto write_package = [&](const std::string& target) {
    Diagnostics d;
    auto folder = OutputFolder::create(out.string(), d);
    REQUIRE(folder);
    put_package(folder->staging(), target, target);
    REQUIRE_MESSAGE(folder->commit(d), d.text());
    return folder->kept();
  };
  CHECK(write_package("cpu").empty());
  put(out / "kernels/cpu/old.c", "mine");
  CHECK(write_package("wgpu") == std::set<std::string>{"kernels/cpu"});
  CHECK(get(out / "kernels/cpu/m.c") == "cpu");
  CHECK(get(out / "kernels/wgpu/m.c") == "wgpu");
  CHECK(write_package("wgpu").empty());
  CHECK(fs::exists(out / "kernels/cpu/m.c"));
}

TEST_CASE("folders with manifests in a folder are replaced together") {
  const test::TempDir dir;
  const fs::path out = fs::path(dir.path()) / "out";
  const auto write_targets = [&](const std::string& text, bool good) {
    Diagnostics d;
    auto folder = OutputFolder::create(out.string(), d);
    REQUIRE(folder);
    for (const char* target : {"cpu", "cuda"}) put_all(fs::path(folder->staging()) / target, {"lir.json", text + ".txt"}, text);
    if (!good) put(fs::path(folder->staging()) / "cuda/lir.json", "cut short");
    return folder->commit(d);
  };
  REQUIRE(write_targets("1", true));
  put(out / "notes.txt", "mine");
  REQUIRE(write_targets("2", true));
  CHECK(get(out / "cpu/lir.json") == "2");
  CHECK(get(out / "cuda/lir.json") == "2");
  CHECK_FALSE(fs::exists(out / "cpu/1.txt"));
  CHECK(get(out / "notes.txt") == "mine");
  CHECK_FALSE(write_targets("3", false));
  CHECK(get(out / "cpu/lir.json") == "2");
  CHECK(names(fs::path(dir.path())).front() == "out");
}

}  // namespace
}  // namespace rlxc
