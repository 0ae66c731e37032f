// Reads files named by flags: precision maps and calibration records. Both are JSON; see `rlxc schema precision-map` and `rlxc
// schema calibration`.
#pragma once
#include <bitset>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace rlxc {

bool read_precision_map(const std::string& path, PrecisionClassMap*, Diagnostics&);
// Adds the ops of these names: of ops ("MatMul", "matmul") or op classes ("Activation", "Binary", "Compare"). Unknown names are
// errors about `where`.
void add_kinds(const std::vector<std::string>& names, const std::string& where, std::bitset<kOpCount>* out, Diagnostics&);
// Reads such names, one per line ('#' starts a comment) or as a JSON list.
bool read_supported_ops(const std::string& path, std::bitset<kOpCount>* out, Diagnostics&);
// Parses TYPE[:GROUP SIZE], as --weights has it.
std::optional<CastConfig> weight_cast_from(std::string_view);
bool read_calibration(const std::string& path, CalibrationRecord*, Diagnostics&);
// Returns the rules in the form of --shard, the last one first: of flags, later ones decide. See `rlxc schema shard-rules`.
std::optional<std::vector<std::string>> read_shard_rules(const std::string& path, Diagnostics&);
// Returns false if the record names a model whose hash differs from this one (LoadedModel::content_hash).
bool check_calibrated_model(const std::string& path, std::string_view model, Diagnostics&);

}  // namespace rlxc
