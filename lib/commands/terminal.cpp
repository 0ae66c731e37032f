// Prints diagnostics, in colour on a terminal.
#include <cstdlib>
#include <iostream>

#include "commands/commands.h"
#include "commands/progress_line.h"

namespace rlxc {
namespace {

bool use_colour(Terminal t) {
  const char* term = std::getenv("TERM");
  if (std::getenv("NO_COLOR")) return false;
  if (const char* force = std::getenv("FORCE_COLOR"); force && *force && *force != '0') return true;
  return t.err_is_tty && term && std::string_view(term) != "dumb";
}

// Colours error[...], warning[...] and help: up to the next colon.
std::string coloured(const std::string& text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string line = text.substr(at, end - at);
    for (auto [word, colour] : {std::pair{"error[", "\033[1;31m"}, {"warning[", "\033[1;33m"}, {"  help:", "\033[1;36m"}}) {
      const size_t p = line.find(word);
      if (p == line.npos || (p > 0 && line[p - 1] != ' ')) continue;
      const size_t stop = line.find(':', p);
      line.insert(stop == line.npos ? line.size() - 1 : stop, "\033[0m");
      line.insert(p, colour);
      break;
    }
    out += line;
    at = end;
  }
  return out;
}

}  // namespace

ExitCode print_diagnostics(const Diagnostics& d, Terminal t) {
  const std::string text = d.text(t.warnings);
  if (!text.empty()) clear_progress_line();
  std::cerr << (use_colour(t) ? coloured(text) : text);
  return d.exit();
}

}  // namespace rlxc
