#include "driver/prepack.h"

#include <filesystem>
#include <thread>

#include "runtime/process.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = 8000;  // of what a failed build prints

}  // namespace

std::optional<MappedFile> prepack(const std::string& folder, const std::string& name, const std::string& model_folder,
                                  Diagnostics& d) {
  const target::WorkFolder work;
  const auto fail = [&](const std::string& why) {
    d.error(Code::ToolFailed, "--prepack: " + why, "package " + name, "`make prepack` in the package does the same later");
    return std::nullopt;
  };
  if (work.path().empty()) {
    d.error(Code::NotWritable, "--prepack: cannot make a temporary folder", {}, "TMPDIR names where");
    return std::nullopt;
  }
  // Links keep what is built out of the package, and characters of paths out of the command lines of make.
  std::error_code error;
  for (fs::directory_iterator it(fs::absolute(folder), error), end; !error && it != end; it.increment(error))
    fs::create_symlink(it->path(), fs::path(work.path()) / it->path().filename(), error);
  if (!error)
    fs::create_directory_symlink(fs::absolute(model_folder.empty() ? "." : model_folder), work.path() + "/.model", error);
  if (error) return fail("cannot link to the files: " + error.message());
  std::string output;
  const std::string jobs = std::to_string(std::max(1u, std::thread::hardware_concurrency()));
  if (!target::run_command({"make", "-s", "-j", jobs, "-C", work.path(), "prepack", "MODEL=.model"}, work.path() + "/.log",
                           &output))
    return fail(output.empty() ? "make failed" : output.substr(0, kMostText));
  return open_model_file(work.path() + "/" + name + ".packed", d);
}

}  // namespace rlxc
