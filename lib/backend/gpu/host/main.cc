// Runs the package on raw files: run [--repeat N] WEIGHTS [SIZE=VALUE...] INPUT... writes output_<i>.bin and prints their sizes.
// WEIGHTS is the folder of the weights. The compiled kernels and launch.json must be in the current folder. With --repeat N it
// runs N times more, from the states of the run before and with data that stays on the device, and prints the mean time.
#include <chrono>
#include <cstdio>

#include "device.hpp"
#include "program.hpp"
#ifdef RLXC_RANKS
#include "link.hpp"
#endif

namespace {

int64_t whole_number(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::stoll(text);
}

// Milliseconds of a run.
double mean_time(rlxc::Program& program, rlxc::Device& device, int64_t count) {
  const std::vector<const void*> inputs(program.inputs());
  const std::vector<void*> outputs(program.outputs());
  program.run(inputs, outputs);  // may record the launches
  device.wait();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) program.run(inputs, outputs);
  device.wait();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(count);
}

}  // namespace

int main(int argc, char** argv) {
  rlxc::Link* link = nullptr;
#ifdef RLXC_RANKS
  rlxc::NcclLink ranks(&argc, &argv);
  link = &ranks;
#endif
  try {
    std::map<std::string, int64_t> sizes;
    std::vector<std::string> files;
    int next = 1;
    int64_t repeat = 0;
    if (argc > 2 && std::string(argv[1]) == "--repeat") repeat = whole_number(argv[2]), next = 3;
    if (argc <= next || repeat < 0) rlxc::fail(std::string("usage: ") + argv[0] + " [--repeat N] WEIGHTS [SIZE=VALUE...] INPUT...");
    const std::string weights = argv[next++];
    for (; next < argc; ++next) {
      const std::string argument = argv[next];
      const size_t equals = argument.rfind('=');
      if (equals == std::string::npos) files.push_back(argument);
      else if (const int64_t size = whole_number(argument.substr(equals + 1)); size < 0) rlxc::fail(argument + ": not a size");
      else sizes[argument.substr(0, equals)] = size;
    }
    const auto device = rlxc::make_device();
    rlxc::Program program(*device, ".", weights, link);
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
    if (repeat > 0) {
      const double milliseconds = mean_time(program, *device, repeat);
      if (!link || link->rank() == 0) std::printf("ms of %lld runs: mean %.4f\n", static_cast<long long>(repeat), milliseconds);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s%s\n", link ? ("rank " + std::to_string(link->rank()) + ": ").c_str() : "", e.what());
#ifdef RLXC_RANKS
    rlxc::NcclLink::end(1);
#endif
    return 1;
  }
}
