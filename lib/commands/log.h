// Progress messages on standard error: --verbose. Results and errors are printed elsewhere. Several threads may write.
#pragma once
#include <memory>
#include <string_view>

#include "ir/graph.h"

namespace spdlog {
class logger;
}

namespace rlxc {

class Log {
 public:
  explicit Log(bool on);
  void stage(std::string_view target, std::string_view name, bool changed, const Module&);
  void message(std::string_view);

 private:
  std::shared_ptr<spdlog::logger> logger_;  // null: silent
};

}  // namespace rlxc
