#include "commands/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "ir/graphs.h"

namespace rlxc {

Log::Log(bool on) {
  if (!on) return;
  logger_ = std::make_shared<spdlog::logger>("rlxc", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger_->set_pattern("%n: +%o ms %v");  // milliseconds since the previous message
}

void Log::stage(std::string_view target, std::string_view name, bool changed, const Module& m) {
  if (logger_) logger_->info("{}: {}{}, {} nodes", target, name, changed ? "" : " (unchanged)", live_nodes(m));
}

void Log::message(std::string_view text) {
  if (logger_) logger_->info("{}", text);
}

}  // namespace rlxc
