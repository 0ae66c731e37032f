// Feeds what one model computes into another: two_models BERT_FOLDER MLP_FOLDER
#include <stdio.h>

#include "bert.h"
#include "mlp.h"

static int fail(const char* model, const char* reason) {
  fprintf(stderr, "%s: %s\n", model, reason);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return fail("usage", "two_models BERT_FOLDER MLP_FOLDER");
  int bert_error = BERT_OK, mlp_error = MLP_OK, status = 0;
  bert_ctx* bert = bert_create(argv[1], NULL, &bert_error);
  mlp_ctx* mlp = mlp_create(argv[2], NULL, &mlp_error);

  // 2 texts of 16 tokens become 2 x 16 vectors of 64 numbers.
  static int64_t ids[2 * 16], mask[2 * 16];
  static float vectors[2 * 16 * 64], rows[2 * 4];
  for (int i = 0; i < 32; ++i) ids[i] = i * 7 % 100, mask[i] = 1;
  const void* bert_inputs[BERT_INPUTS] = {ids, mask};
  void* bert_outputs[BERT_OUTPUTS] = {vectors};
  if (!bert_error) bert_error = bert_run(bert, bert_inputs, BERT_INPUTS, bert_outputs, BERT_OUTPUTS);

  // The first 8 numbers are 2 rows of 4.
  const int64_t batch = 2;
  const void* mlp_inputs[MLP_INPUTS] = {vectors};
  void* mlp_outputs[MLP_OUTPUTS] = {rows};
  if (!mlp_error) mlp_error = mlp_set_sizes(mlp, &batch, MLP_SIZES);
  if (!mlp_error) mlp_error = mlp_run(mlp, mlp_inputs, MLP_INPUTS, mlp_outputs, MLP_OUTPUTS);

  if (bert_error) status = fail("bert", bert_strerror(bert_error));
  else if (mlp_error) status = fail("mlp", mlp_strerror(mlp_error));
  else
    for (int i = 0; i < 2; ++i)
      printf("%.6f %.6f %.6f %.6f\n", rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]);
  bert_destroy(bert);
  mlp_destroy(mlp);
  return status;
}
