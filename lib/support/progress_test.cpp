#include "support/progress.h"

#include <string>

using namespace rlxc;

TEST_CASE("progress names the stage and the node, cut short and printable") {
  note_stage("constant_folding");
  CHECK(std::string(progress_text().text) == "stage constant_folding");
  note_node("a\nb\x80");
  CHECK(std::string(progress_text().text) == "stage constant_folding, node \"a?b?\"");
  note_stage(std::string(1000, 's'));
  note_node(std::string(1000, 'n'));
  const std::string text = progress_text().text;
  CHECK(text == "stage " + std::string(95, 's') + ", node \"" + std::string(95, 'n') + "\"");
  note_stage("plan");
  CHECK(std::string(progress_text().text) == "stage plan");
}
