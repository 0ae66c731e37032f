// Runs the package on raw files: run WEIGHTS [SIZE=VALUE...] INPUT... writes output_<i>.bin. WEIGHTS is the folder with the
// weights; the compiled kernels and launch.json are those of the current folder.
#include <cstdio>

#include "device.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  try {
    std::map<std::string, int64_t> sizes;
    std::vector<std::string> files;
    for (int i = 2; i < argc; ++i) {
      const std::string argument = argv[i];
      const size_t equals = argument.rfind('=');
      if (equals == std::string::npos) files.push_back(argument);
      else sizes[argument.substr(0, equals)] = std::stoll(argument.substr(equals + 1));
    }
    if (argc < 2) rlxc::fail(std::string("usage: ") + argv[0] + " WEIGHTS [SIZE=VALUE...] INPUT...");
    const auto device = rlxc::make_device();
    rlxc::Program program(*device, ".", argv[1]);
    if (files.size() != program.inputs()) rlxc::fail("the model has " + std::to_string(program.inputs()) + " inputs");
    if (!sizes.empty()) program.set_sizes(sizes);
    std::vector<std::string> data(files.size()), results(program.outputs());
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t i = 0; i < files.size(); ++i) {
      data[i] = rlxc::read_text(files[i]);
      if (data[i].size() != program.input_bytes(i)) rlxc::fail(files[i] + ": the input \"" + program.input_name(i) + "\" has " + std::to_string(program.input_bytes(i)) + " bytes");
      inputs.push_back(data[i].data());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].resize(program.output_bytes(i));
      outputs.push_back(results[i].data());
    }
    program.run(inputs, outputs);
    for (size_t i = 0; i < results.size(); ++i) std::ofstream("output_" + std::to_string(i) + ".bin", std::ios::binary) << results[i];
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
