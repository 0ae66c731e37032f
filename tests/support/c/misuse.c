// Calls a package with every kind of invalid argument. The package is built by tests/e2e/package_calls.sh.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"

static int faults = 0;
#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) {                                             \
      printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++faults;                                                     \
    }                                                               \
  } while (0)

static const int64_t kTwo[] = {2}, kThree[] = {3}, kNegative[] = {-1}, kHuge[] = {INT64_MAX / 2}, kLarge[] = {(int64_t)1 << 40};

static void check_tables(void) {
  CHECK(!caller_input(-1) && !caller_input(CALLER_INPUTS) && !caller_output(-1) && !caller_output(CALLER_OUTPUTS));
  CHECK(!caller_size_name(-1) && !caller_size_name(CALLER_SIZES) && !caller_weight_name(-1) && !caller_weight_name(CALLER_WEIGHTS));
  CHECK(strcmp(caller_input(0)->name, "x") == 0 && strcmp(caller_input(0)->dtype, "f32") == 0);
  CHECK(caller_input(0)->rank == 2 && caller_input(0)->element_bits == 32 && caller_input(0)->alignment == 4);
  CHECK(strcmp(caller_input(0)->dims[0], "batch") == 0 && strcmp(caller_input(0)->dims[1], "8") == 0);
  CHECK(strcmp(caller_size_name(0), "batch") == 0);
  CHECK(strcmp(caller_output(0)->name, "y") == 0 && caller_output(1)->rank == 2 && strcmp(caller_output(1)->dims[1], "kept") == 0);
  for (int error = CALLER_OK; error <= CALLER_BAD_INDEX; ++error)
    for (int other = CALLER_OK; other < error; ++other) CHECK(strcmp(caller_strerror(error), caller_strerror(other)) != 0);
  CHECK(strcmp(caller_strerror(-1), "unknown error") == 0 && strcmp(caller_strerror(1000), "unknown error") == 0);
  CHECK(caller_set_threads(-1) == CALLER_BAD_ARGUMENT && caller_set_threads(1025) == CALLER_BAD_ARGUMENT);
  CHECK(caller_set_threads(3) == CALLER_OK && caller_set_threads(0) == CALLER_OK);
}

static void check_null_context(void) {
  const void* in[CALLER_INPUTS] = {NULL};
  void* out[CALLER_OUTPUTS] = {NULL};
  CHECK(caller_set_sizes(NULL, kTwo, 1) == CALLER_BAD_ARGUMENT);
  CHECK(caller_run(NULL, in, CALLER_INPUTS, out, CALLER_OUTPUTS) == CALLER_BAD_ARGUMENT);
  CHECK(caller_arena_size(NULL) == 0 && caller_input_bytes(NULL, 0) == 0 && caller_output_bytes(NULL, 0) == 0);
  CHECK(caller_input_dim(NULL, 0, 0) == -1 && caller_output_dim(NULL, 0, 0) == -1);
  caller_destroy(NULL);
}

static void check_weights(const char* folder, const char* other) {
  int error = CALLER_OK;
  CHECK(!caller_create("/nowhere", NULL, &error) && error == CALLER_NO_WEIGHTS);
  CHECK(!caller_create(NULL, NULL, &error) && error == CALLER_BAD_ARGUMENT);
  CHECK(!caller_create(NULL, NULL, NULL));
  CHECK(!caller_create(other, NULL, &error) && error == CALLER_WRONG_WEIGHTS);
  const void* none[CALLER_WEIGHTS] = {NULL};
  CHECK(!caller_create_from(none, CALLER_WEIGHTS, &error) && error == CALLER_BAD_ARGUMENT);
  CHECK(!caller_create_from(none, CALLER_WEIGHTS + 1, &error) && error == CALLER_BAD_ARGUMENT);
  CHECK(!caller_create_from(NULL, CALLER_WEIGHTS, &error) && error == CALLER_BAD_ARGUMENT);
  CHECK(!caller_create_from(NULL, CALLER_WEIGHTS, NULL));
  caller_ctx* c = caller_create(folder, NULL, NULL);
  CHECK(c);
  caller_destroy(c);
}

static void check_sizes(caller_ctx* c) {
  CHECK(caller_input_bytes(c, 0) == 0 && caller_output_dim(c, 0, 0) == -1 && caller_arena_size(c) == 0);
  CHECK(caller_set_sizes(c, NULL, 1) == CALLER_BAD_ARGUMENT);
  CHECK(caller_set_sizes(c, kTwo, 0) == CALLER_BAD_ARGUMENT && caller_set_sizes(c, kTwo, 2) == CALLER_BAD_ARGUMENT);
  CHECK(caller_set_sizes(c, kNegative, 1) == CALLER_NO_SIZES);
  CHECK(caller_set_sizes(c, kTwo, 1) == CALLER_OK);
  CHECK(caller_input_bytes(c, 0) == 64 && caller_input_bytes(c, 1) == 16 && caller_output_bytes(c, 0) == 160);
  CHECK(caller_input_bytes(c, -1) == 0 && caller_input_bytes(c, 2) == 0 && caller_output_bytes(c, 2) == 0);
  CHECK(caller_output_dim(c, 0, 0) == 2 && caller_output_dim(c, 0, 1) == 20 && caller_input_dim(c, 1, 0) == 2);
  CHECK(caller_output_dim(c, 0, 2) == -1 && caller_output_dim(c, 0, 9) == -1 && caller_output_dim(c, 0, -1) == -1);
  CHECK(caller_output_dim(c, 2, 0) == -1 && caller_input_dim(c, -1, 0) == -1);
  CHECK(caller_output_dim(c, 1, 1) == -1);  // known after a run
  CHECK(caller_set_sizes(c, kHuge, 1) == CALLER_NO_SIZES);
  CHECK(caller_input_bytes(c, 0) == 0 && caller_output_dim(c, 0, 0) == -1);  // the previous sizes are gone
  (void)kLarge;
}

static void check_run(caller_ctx* c) {
  float x[3 * 8 + 1], y[3 * 20 + 1];
  int64_t ids[3] = {0, 1, 2}, kept[3];
  for (int i = 0; i < 24; ++i) x[i] = 1;
  const void* in[] = {x, ids};
  void* out[] = {y, kept};
  CHECK(caller_run(c, in, 2, out, 2) == CALLER_NO_SIZES);  // after the failure above
  CHECK(caller_set_sizes(c, kThree, 1) == CALLER_OK);
  CHECK(caller_run(c, NULL, 2, out, 2) == CALLER_BAD_ARGUMENT && caller_run(c, in, 2, NULL, 2) == CALLER_BAD_ARGUMENT);
  CHECK(caller_run(c, in, 1, out, 2) == CALLER_BAD_ARGUMENT && caller_run(c, in, 2, out, 3) == CALLER_BAD_ARGUMENT);
  const void* missing[] = {x, NULL};
  void* no_output[] = {NULL, kept};
  CHECK(caller_run(c, missing, 2, out, 2) == CALLER_BAD_ARGUMENT && caller_run(c, in, 2, no_output, 2) == CALLER_BAD_ARGUMENT);
  const void* shifted[] = {(const char*)x + 1, ids};
  void* shifted_output[] = {(char*)y + 2, kept};
  CHECK(caller_run(c, shifted, 2, out, 2) == CALLER_UNALIGNED && caller_run(c, in, 2, shifted_output, 2) == CALLER_UNALIGNED);
  const void* by_element[] = {x + 1, ids};
  x[24] = 1;
  CHECK(caller_run(c, by_element, 2, out, 2) == CALLER_OK);
  CHECK(caller_run(c, in, 2, out, 2) == CALLER_OK);
  // 8 products of 1 and 0.5, and the row of the table.
  for (int i = 0; i < 60; ++i) CHECK(fabsf(y[i] - (4.0f + (float)(i / 20))) < 1e-5f);
  CHECK(caller_output_dim(c, 1, 1) == 2 && kept[0] == 1 && kept[1] == 2);
  CHECK(caller_set_sizes(c, kTwo, 2) == CALLER_BAD_ARGUMENT && caller_output_dim(c, 1, 1) == 2);  // nothing changed
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  check_tables();
  check_null_context();
  check_weights(argv[1], argv[2]);
  int error = CALLER_OK;
  caller_ctx* c = caller_create(argv[1], NULL, &error);
  CHECK(c && error == CALLER_OK);
  if (!c) return 1;
  check_sizes(c);
  check_run(c);
  caller_destroy(c);
  return faults > 0;
}
