// Reads the rewrites of --rules (schemas/rules.schema.json).
#pragma once
#include <memory>
#include <string>

#include "passes/simplify/rule_set.h"
#include "support/diagnostics.h"

namespace rlxc {

// Null after an error, which names the rule and the part.
std::shared_ptr<const RuleSet> read_rules(const std::string& path, Diagnostics&);

}  // namespace rlxc
