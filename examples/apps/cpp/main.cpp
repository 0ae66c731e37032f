// Runs a model for several sizes, and shows what an error looks like: app MLP_FOLDER
#include <cstdio>
#include <vector>

#include "mlp.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    mlp_model model(argv[1]);
    for (int64_t batch : {1, 3}) {
      model.set_sizes({{"batch", batch}});
      std::vector<float> x(static_cast<size_t>(batch) * 4, 0.5f), y(x.size());
      model.run({x.data()}, {y.data()});
      std::printf("[%lld,%lld]", static_cast<long long>(model.output_shape(0)[0]),
                  static_cast<long long>(model.output_shape(0)[1]));
      for (float value : y) std::printf(" %.6f", value);
      std::printf("\n");
    }
    model.run({nullptr}, {nullptr});
  } catch (const mlp_error& e) {
    std::printf("%s\n", e.what());
    return e.code == MLP_BAD_ARGUMENT ? 0 : 1;
  }
  return 1;
}
