// Which layers of a quantized model stay float: as few as possible, so that the whole is accurate enough.
#pragma once
#include <functional>
#include <optional>
#include <vector>

namespace rlxc {

// Whether the model is accurate enough with these layers in float; nullopt: an error ends the search.
using IsGood = std::function<std::optional<bool>(const std::vector<bool>& kept)>;

// `accuracy` of a model in which only layer i is quantized. Layers are kept from the worst on, their number by bisection; then
// each is quantized again if that does no harm. At most kept + log2(layers) + 2 calls. If nothing is good, all layers are kept.
std::optional<std::vector<bool>> layers_to_keep(const std::vector<double>& accuracy, const IsGood&);

}  // namespace rlxc
