// Two contexts in two threads with parallel loops, then one context used by two threads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wide.h"

enum { kRows = 64, kRuns = 40, kElements = kRows * 256 };
static int wrong = 0, busy = 0;

static int run(wide_ctx* c, float value, float* y) {
  float* x = malloc(sizeof(float) * kElements);
  for (int i = 0; i < kElements; ++i) x[i] = value;
  const void* in[] = {x};
  void* out[] = {y};
  const int error = wide_run(c, in, 1, out, 1);
  free(x);
  return error;
}

static void* own_context(void* folder) {
  int error = 0;
  wide_ctx* c = wide_create(folder, NULL, &error);
  float *first = malloc(sizeof(float) * kElements), *y = malloc(sizeof(float) * kElements);
  if (!c || run(c, 0.25f, first)) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
  for (int i = 0; c && i < kRuns; ++i) {
    wide_set_threads(1 + i % 4);
    if (run(c, 0.25f, y) || memcmp(first, y, sizeof(float) * kElements) != 0) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
  }
  wide_destroy(c);
  free(first), free(y);
  return NULL;
}

static void* same_context(void* c) {
  float* y = malloc(sizeof(float) * kElements);
  for (int i = 0; i < kRuns; ++i) {
    const int error = run(c, 0.5f, y);
    if (error == WIDE_BUSY) __atomic_add_fetch(&busy, 1, __ATOMIC_RELAXED);
    else if (error) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
  }
  free(y);
  return NULL;
}

static void twice(void* (*body)(void*), void* argument) {
  pthread_t a, b;
  if (pthread_create(&a, NULL, body, argument) || pthread_create(&b, NULL, body, argument)) exit(2);
  pthread_join(a, NULL), pthread_join(b, NULL);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  wide_set_threads(3);
  twice(own_context, argv[1]);
  wide_ctx* c = wide_create(argv[1], NULL, NULL);
  if (!c) return 2;
  twice(same_context, c);
  wide_destroy(c);
  printf("%d wrong, %d busy\n", wrong, busy);
  return wrong > 0;
}
