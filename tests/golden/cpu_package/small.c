// The host side of small: weights, memory, and the order of the kernels.
#include "small.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels.h"

enum { RLXC_NO_SIZES = SMALL_NO_SIZES, RLXC_DYNAMIC_SIZE = SMALL_DYNAMIC_SIZE };

enum { FILES = 1, WEIGHTS = 2 };

// The first file is the package's own, the others are the model's; -1 is none: only small_create_from can give it.
static const char* const kFiles[FILES] = {"small.weights"};

typedef struct {
  const char* name;
  int file, alignment;
  uint64_t offset, stored, bytes;  // in the file; stored < bytes: one element, which all are equal to
} weight_row;

static const weight_row kWeights[WEIGHTS + 1] = {
    {"w", 0, 4, 0u, 4u, 640u},
    {"%2", 0, 4, 64u, 80u, 80u},
    {"", 0, 1, 0, 0, 0}};

struct small_ctx {
  const void* weights[WEIGHTS + 1];
  unsigned char* copies[WEIGHTS + 1];  // of weights that can't be used where they are
  void* maps[FILES];
  size_t map_bytes[FILES];
  unsigned char *packed, *arena, *held, *scratch, *end;
  int64_t n[4 + 1];  // sizes
  int sized;
};

#define W(i, offset) ((const void*)((const unsigned char*)c->weights[i] + (offset)))
#define P(offset) ((void*)(c->packed + (offset)))
#define A(offset) ((void*)(a + (offset)))
#define H(offset) ((void*)(c->held + (offset)))
#define S(offset) ((void*)(scratch + (offset)))
#define IN(i, offset) ((const void*)((const unsigned char*)in[i] + (offset)))
#define OUT(i, offset) ((void*)((unsigned char*)out[i] + (offset)))

#define UNUSED __attribute__((unused))
// Arithmetic on sizes sets `bad` where it overflows.
static UNUSED int64_t rlxc_add(int* bad, int64_t a, int64_t b) {
  int64_t r = 0;
  *bad |= __builtin_add_overflow(a, b, &r);
  return r;
}
static UNUSED int64_t rlxc_mul(int* bad, int64_t a, int64_t b) {
  int64_t r = 0;
  *bad |= __builtin_mul_overflow(a, b, &r);
  return r;
}
static UNUSED int64_t rlxc_floordiv(int* bad, int64_t a, int64_t b) {
  *bad |= b == -1 && a == INT64_MIN;
  return b == 0 || *bad ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static UNUSED int64_t rlxc_mod(int* bad, int64_t a, int64_t b) { return b == 0 ? 0 : a - rlxc_floordiv(bad, a, b) * b; }
static UNUSED int64_t rlxc_min(int* bad, int64_t a, int64_t b) { return (void)bad, a < b ? a : b; }
static UNUSED int64_t rlxc_max(int* bad, int64_t a, int64_t b) { return (void)bad, a > b ? a : b; }

static int graph_0(small_ctx* c, unsigned char* a, const void* const* in, void* const* out);

static int load_0(small_ctx* c, unsigned char* scratch) {
  (void)scratch;
  const int64_t* n = c->n;
  (void)n;
  // product
  small_matmul_pack_0(W(0, 0), P(0));
  return 0;
}

static int load(small_ctx* c, unsigned char* scratch) {
  int status = 0;
  (void)c, (void)scratch;
  if ((status = load_0(c, scratch))) return status;
  return status;
}

static int graph_0_0(small_ctx* c, unsigned char* a, const void* const* in, void* const* out) {
  unsigned char* scratch = c->scratch;
  (void)scratch, (void)a, (void)in, (void)out;
  const int64_t* n = c->n;
  (void)n;
  small_matmul_0(IN(0, 0), P(0), A(0), n[0]);
  // sum
  small_add_0(A(0), W(1, 0), OUT(0, 0), n[0]);
  return 0;
}

static int graph_0(small_ctx* c, unsigned char* a, const void* const* in, void* const* out) {
  int status = 0;
  (void)c, (void)a, (void)in, (void)out;
  if ((status = graph_0_0(c, a, in, out))) return status;
  return status;
}

// Huge pages spare a processor that walks through much memory many look-ups of addresses.
static unsigned char* allocate(int64_t bytes) {
  size_t unit = 64;
#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
  if (bytes >= 4 << 20) unit = 2 << 20;
#endif
  const size_t size = ((size_t)(bytes > 0 ? bytes : 1) + unit - 1) / unit * unit;
  unsigned char* p = aligned_alloc(unit, size);
#ifdef MADV_HUGEPAGE
  if (p && unit > 64) madvise(p, size, MADV_HUGEPAGE);
#endif
  return p;
}

int small_set_sizes(small_ctx* c, const int64_t* s) {
  int64_t* n = c->n;
  int bad = 0;
  (void)n, (void)s;
  c->sized = 0;
  for (int i = 0; i < SMALL_SIZES; ++i)
    if (s[i] < 0) return SMALL_NO_SIZES;
  n[0] = s[0];  // batch
  n[1] = rlxc_mul(&bad, 32, s[0]);  // 32*batch
  n[2] = rlxc_mul(&bad, 80, s[0]);  // 80*batch
  n[3] = rlxc_mul(&bad, 64, rlxc_floordiv(&bad, rlxc_add(&bad, rlxc_mul(&bad, 80, s[0]), 63), 64));  // 64*floordiv(80*batch+63,64)
  const int64_t total = rlxc_add(&bad, rlxc_add(&bad, n[3], 0), 0);
  if (bad) return SMALL_NO_SIZES;
  free(c->arena);
  c->arena = allocate(total);
  if (!c->arena) return SMALL_NO_MEMORY;
  c->held = c->arena + n[3];
  c->scratch = c->held + 0;
  c->end = c->scratch + 0;
  c->sized = 1;
  return SMALL_OK;
}

size_t small_arena_size(const small_ctx* c) {
  const int64_t* n = c->n;
  (void)n;
  return (size_t)(n[3] + 0 + 0);
}

size_t small_input_bytes(const small_ctx* c, int i) {
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
    case 0: return (size_t)n[1];
    default: return 0;
  }
}

size_t small_output_bytes(const small_ctx* c, int i) {
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
    case 0: return (size_t)n[2];
    default: return 0;
  }
}

int64_t small_output_dim(const small_ctx* c, int i, int axis) {
  const int64_t* n = c->n;
  int bad = 0;
  (void)bad, (void)n, (void)axis;
  switch (i) {
    case 0: return (const int64_t[]){n[0], 20}[axis];
    default: return 0;
  }
}

const char* small_weight_name(int i) { return i >= 0 && i < WEIGHTS ? kWeights[i].name : ""; }

// Weights of which one element is stored are written out, misaligned ones are moved.
static int place_weight(small_ctx* c, int i) {
  const weight_row* w = &kWeights[i];
  if (w->bytes == 0 || (w->stored == w->bytes && (uintptr_t)c->weights[i] % (unsigned)w->alignment == 0)) return SMALL_OK;
  c->copies[i] = allocate((int64_t)w->bytes);
  if (!c->copies[i]) return SMALL_NO_MEMORY;
  for (uint64_t at = 0; at < w->bytes; at += w->stored) memcpy(c->copies[i] + at, c->weights[i], w->stored);
  c->weights[i] = c->copies[i];
  return SMALL_OK;
}

static small_ctx* finish(small_ctx* c, int* error) {
  unsigned char* scratch = allocate(0);
  c->packed = allocate(2048);
  int status = c->packed && scratch ? SMALL_OK : SMALL_NO_MEMORY;
  for (int i = 0; !status && i < WEIGHTS; ++i) status = place_weight(c, i);
  if (!status) status = load(c, scratch);
  if (!status && SMALL_SIZES == 0) status = small_set_sizes(c, 0);
  free(scratch);
  if (error) *error = status;
  if (!status) return c;
  small_destroy(c);
  return 0;
}

small_ctx* small_create_from(const void* const* weights, int* error) {
  small_ctx* c = calloc(1, sizeof *c);
  if (!c) {
    if (error) *error = SMALL_NO_MEMORY;
    return 0;
  }
  for (int i = 0; i < WEIGHTS; ++i) c->weights[i] = weights[i];
  return finish(c, error);
}

static int map_file(small_ctx* c, const char* folder, int i) {
  const size_t length = strlen(folder) + strlen(kFiles[i]) + 2;
  char* path = malloc(length);
  if (!path) return SMALL_NO_MEMORY;
  strcpy(path, folder), strcat(path, "/"), strcat(path, kFiles[i]);
  const int file = open(path, O_RDONLY);
  free(path);
  struct stat info;
  if (file < 0) return SMALL_NO_WEIGHTS;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    void* bytes = mmap(0, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes != MAP_FAILED) c->maps[i] = bytes, c->map_bytes[i] = (size_t)info.st_size;
  }
  close(file);
  return SMALL_OK;
}

small_ctx* small_create(const char* folder, const char* model_folder, int* error) {
  small_ctx* c = calloc(1, sizeof *c);
  int status = c ? SMALL_OK : SMALL_NO_MEMORY;
  for (int i = 0; !status && i < WEIGHTS; ++i) {
    const weight_row* w = &kWeights[i];
    if (w->bytes == 0) continue;
    const char* from = w->file == 0 ? folder : w->file > 0 ? model_folder : 0;
    if (!from || !c->maps[w->file]) status = from ? map_file(c, from, w->file) : SMALL_NO_WEIGHTS;
    if (!status && (w->offset > c->map_bytes[w->file] || w->stored > c->map_bytes[w->file] - w->offset)) status = SMALL_NO_WEIGHTS;
    if (!status) c->weights[i] = (const unsigned char*)c->maps[w->file] + w->offset;
  }
  if (!status) return finish(c, error);
  if (error) *error = status;
  if (c) small_destroy(c);
  return 0;
}

int small_run(small_ctx* c, const void* const* inputs, void* const* outputs) {
  if (!c->sized) return SMALL_NO_SIZES;
  return graph_0(c, c->arena, inputs, outputs);
}

void small_destroy(small_ctx* c) {
  if (!c) return;
  for (int i = 0; i < FILES; ++i)
    if (c->maps[i]) munmap(c->maps[i], c->map_bytes[i]);
  for (int i = 0; i < WEIGHTS; ++i) free(c->copies[i]);
  free(c->packed), free(c->arena), free(c);
}
