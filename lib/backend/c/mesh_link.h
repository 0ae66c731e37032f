// The parts of a cpu package that differ if several devices run it together: their names, exchange of data, slices of weights.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

// Values of $LINK..., $SLICE... and $FIRST_RANK in host files; empty for one device. Code::* of the header are those of `name`.
std::vector<std::pair<std::string, std::string>> link_values(const codegen::Package&);

bool has_parts(std::span<const codegen::Port>);  // whether a device has a part of one

// The index of the group of devices that are the stages of a pipeline, in Package::groups. Null without a pipeline.
std::optional<size_t> pipeline_group(const codegen::Package&);

// By weight: bit s if the devices of stage s of a pipeline read it. Empty without a pipeline.
std::vector<uint32_t> weight_stages(const codegen::Package&);

// The files of an MPI host; none for one device.
std::vector<TextFile> link_files(const codegen::Package&);

}  // namespace rlxc
