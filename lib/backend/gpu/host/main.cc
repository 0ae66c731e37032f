// Runs the package on raw files: run WEIGHTS [SIZE=VALUE...] INPUT... writes output_<i>.bin and prints their sizes. WEIGHTS is
// the folder of the weights. The compiled kernels and launch.json must be in the current folder.
#include <cstdio>

#include "device.hpp"
#include "program.hpp"
#ifdef RLXC_RANKS
#include "link.hpp"
#endif

int main(int argc, char** argv) {
  rlxc::Link* link = nullptr;
#ifdef RLXC_RANKS
  rlxc::NcclLink ranks(&argc, &argv);
  link = &ranks;
#endif
  try {
    std::map<std::string, int64_t> sizes;
    std::vector<std::string> files;
    for (int i = 2; i < argc; ++i) {
      const std::string argument = argv[i];
      const size_t equals = argument.rfind('=');
      const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
      if (equals == std::string::npos) files.push_back(argument);
      else if (value.empty() || value.size() > 18 || value.find_first_not_of("0123456789") != std::string::npos) rlxc::fail(argument + ": not a size");
      else sizes[argument.substr(0, equals)] = std::stoll(value);
    }
    if (argc < 2) rlxc::fail(std::string("usage: ") + argv[0] + " WEIGHTS [SIZE=VALUE...] INPUT...");
    const auto device = rlxc::make_device();
    rlxc::Program program(*device, ".", argv[1], link);
    if (files.size() != program.inputs()) rlxc::fail("the model has " + std::to_string(program.inputs()) + " inputs");
    program.set_sizes(sizes);
    std::vector<std::string> data(files.size()), results(program.outputs());
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t i = 0; i < files.size(); ++i) {
      data[i] = rlxc::read_text(files[i]);
      if (data[i].size() != program.input_bytes(i)) rlxc::fail(files[i] + ": the input \"" + program.input_name(i) + "\" has " + std::to_string(program.input_bytes(i)) + " bytes");
      inputs.push_back(data[i].data());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].resize(program.output_room(i));
      outputs.push_back(results[i].data());
    }
    program.run(inputs, outputs);
    for (size_t i = 0; i < results.size() && (!link || link->rank() == 0); ++i) {
      const std::string file = "output_" + std::to_string(i) + ".bin";
      std::ofstream(file, std::ios::binary).write(results[i].data(), static_cast<std::streamsize>(program.output_bytes(i)));
      std::string shape;
      for (int64_t n : program.output_shape(i)) shape += (shape.empty() ? "" : ",") + std::to_string(n);
      std::printf("%s [%s]\n", file.c_str(), shape.c_str());
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s%s\n", link ? ("rank " + std::to_string(link->rank()) + ": ").c_str() : "", e.what());
#ifdef RLXC_RANKS
    rlxc::NcclLink::end(1);
#endif
    return 1;
  }
}
