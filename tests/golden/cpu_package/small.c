// The host side of small: weights, memory, and the order of the kernels.
#include "small.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels.h"

enum { RLXC_NO_SIZES = SMALL_NO_SIZES, RLXC_DYNAMIC_SIZE = SMALL_DYNAMIC_SIZE };

const char SMALL_IDENTITY = 0;

#define DIMS (const char* const[])
static const small_tensor kInputs[SMALL_INPUTS + 1] = {
    {"x", "f32", 32, 4, 2, DIMS{"batch", "8"}},
    {"", "", 0, 1, 0, 0}};
static const small_tensor kOutputs[SMALL_OUTPUTS + 1] = {
    {"y", "f32", 32, 4, 2, DIMS{"batch", "20"}},
    {"", "", 0, 1, 0, 0}};
static const unsigned char kIsState[SMALL_INPUTS + 1] = {0, 0};
static const char* const kSizes[SMALL_SIZES + 1] = {"batch", ""};

enum { FILES = 1, WEIGHTS = 2, HEADER = 64 };

// The first file is the package's own, the others are the model's; -1 is none: only small_create_from can give it.
static const char* const kFiles[FILES] = {"small.weights"};
static const char kHeader[] = "rlxc weights 1 8f14e8f23ca3e80e05946943a2ae97e7";
#define EMBEDDED 0

typedef struct {
  const char* name;
  int file, alignment;
  uint64_t offset, stored, bytes;  // in the file; stored < bytes: one element, which all are equal to
  int in_runs;  // read by runs; else only to prepare others
} weight_row;

static const weight_row kWeights[WEIGHTS + 1] = {
    {"w", 0, 4, 64u, 4u, 640u, 0},
    {"%2", 0, 4, 128u, 80u, 80u, 1},
    {"", 0, 1, 0, 0, 0, 0}};

// Weights as kernels read them, in memory or in a file of a context before.
enum { PACKED_FILES = 1, PACKED_HEADER = 4096 };
#define PACKED ((int64_t)2048)
static const char kPackedFile[] = "small.packed", kPackedHeader[] = "rlxc packed weights 1 fe466de7296e2745ee9d2df835a1b321";

struct small_ctx {
  const void* weights[WEIGHTS + 1];
  unsigned char* copies[WEIGHTS + 1];  // of weights that cannot be used in place
  const unsigned char* files[FILES];
  size_t file_bytes[FILES];
  const unsigned char* packed_file;
  unsigned char *packed, *arena, *held, *scratch, *end;
  int64_t n[4 + 1];  // sizes
  int sized, done, busy;  // sizes are set; the last run succeeded; in use
};

// Gives back the memory of a mapped weight that was copied. Later reads come from the file again.
static __attribute__((unused)) void release(small_ctx* c, int i) {
#ifdef MADV_DONTNEED
  const weight_row* w = &kWeights[i];
  if (w->file < EMBEDDED || !c->files[w->file] || c->copies[i]) return;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)c->files[w->file] + w->offset;
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + w->stored) / page * page;
  if (begin < end) madvise((void*)begin, end - begin, MADV_DONTNEED);
#else
  (void)c, (void)i;
#endif
}

#define W(i, offset) ((const void*)((const unsigned char*)c->weights[i] + (offset)))
#define P(offset) ((void*)(c->packed + (offset)))
#define A(offset) ((void*)(a + (offset)))
#define H(offset) ((void*)(c->held + (offset)))
#define S(offset) ((void*)(scratch + (offset)))
#define IN(i, offset) ((const void*)((const unsigned char*)in[i] + (offset)))
#define OUT(i, offset) ((void*)((unsigned char*)out[i] + (offset)))

#define UNUSED __attribute__((unused))
// Checked arithmetic on sizes: sets `bad` on overflow.
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
  release(c, 0);
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

const char* small_strerror(int error) {
  switch (error) {
    case SMALL_OK: return "no error";
    case SMALL_NO_MEMORY: return "out of memory";
    case SMALL_NO_WEIGHTS: return "a weights file is missing or too short";
    case SMALL_NO_SIZES: return "the sizes are not set, or they do not fit the model";
    case SMALL_DYNAMIC_SIZE: return "a data-dependent dim is larger than planned, or differs from a size that the model requires";
    case SMALL_BAD_ARGUMENT: return "a null pointer, or a number of arguments that is not the model's";
    case SMALL_UNALIGNED: return "a buffer is not aligned as its tensor needs it";
    case SMALL_WRONG_WEIGHTS: return "a weights file belongs to another model";
    case SMALL_NOT_WRITTEN: return "a file could not be written";
    case SMALL_BUSY: return "the context is in use by another thread";
    case SMALL_BAD_INDEX: return "an index that the inputs give is out of range";
    default: return "unknown error";
  }
}

const small_tensor* small_input(int i) { return i >= 0 && i < SMALL_INPUTS ? &kInputs[i] : NULL; }
const small_tensor* small_output(int i) { return i >= 0 && i < SMALL_OUTPUTS ? &kOutputs[i] : NULL; }
const char* small_size_name(int i) { return i >= 0 && i < SMALL_SIZES ? kSizes[i] : NULL; }
const char* small_weight_name(int i) { return i >= 0 && i < WEIGHTS ? kWeights[i].name : NULL; }

int small_set_threads(int threads) {
  if (threads < 0 || threads > 1024) return SMALL_BAD_ARGUMENT;
  rlxc_use_threads(threads);
  return SMALL_OK;
}

static int lock(small_ctx* c) { return __atomic_exchange_n(&c->busy, 1, __ATOMIC_ACQUIRE) ? SMALL_BUSY : SMALL_OK; }
static int unlock(small_ctx* c, int status) {
  __atomic_store_n(&c->busy, 0, __ATOMIC_RELEASE);
  return status;
}

void* small_allocate(size_t bytes) {
  size_t unit = 64;
#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
  if (bytes >= 4 << 20) unit = 2 << 20;
#endif
  if (bytes > SIZE_MAX - unit) return NULL;
  const size_t size = ((bytes > 0 ? bytes : 1) + unit - 1) / unit * unit;
  void* p = aligned_alloc(unit, size);
#ifdef MADV_HUGEPAGE
  if (p && unit > 64) madvise(p, size, MADV_HUGEPAGE);
#endif
  return p;
}

static int set_sizes(small_ctx* c, const int64_t* s) {
  int64_t* n = c->n;
  int bad = 0;
  (void)n, (void)s;
  c->sized = c->done = 0;
  for (int i = 0; i < SMALL_SIZES; ++i)
    if (s[i] < 0) return SMALL_NO_SIZES;
  n[0] = s[0];  // batch
  n[1] = rlxc_mul(&bad, 32, s[0]);  // 32*batch
  n[2] = rlxc_mul(&bad, 80, s[0]);  // 80*batch
  n[3] = rlxc_mul(&bad, 64, rlxc_floordiv(&bad, rlxc_add(&bad, rlxc_mul(&bad, 80, s[0]), 63), 64));  // 64*floordiv(80*batch+63,64)
  const int64_t total = rlxc_add(&bad, rlxc_add(&bad, n[3], 0), 0);
  if (bad) return SMALL_NO_SIZES;
  free(c->arena);
  c->arena = small_allocate((size_t)total);
  if (!c->arena) return SMALL_NO_MEMORY;
  c->held = c->arena + n[3];
  c->scratch = c->held + 0;
  c->end = c->scratch + 0;
  c->sized = 1;
  return SMALL_OK;
}

int small_set_sizes(small_ctx* c, const int64_t* sizes, int count) {
  if (!c || count != SMALL_SIZES || (!sizes && SMALL_SIZES > 0)) return SMALL_BAD_ARGUMENT;
  const int status = lock(c);
  return status ? status : unlock(c, set_sizes(c, sizes));
}

size_t small_arena_size(const small_ctx* c) { return c && c->sized ? (size_t)(c->end - c->arena) : 0; }

size_t small_input_bytes(const small_ctx* c, int i) {
  if (!c || !c->sized) return 0;
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
    case 0: return (size_t)n[1];
    default: return 0;
  }
}

size_t small_output_bytes(const small_ctx* c, int i) {
  if (!c || !c->sized) return 0;
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
    case 0: return (size_t)n[2];
    default: return 0;
  }
}

int64_t small_input_dim(const small_ctx* c, int i, int axis) {
  if (!c || !c->sized || i < 0 || i >= SMALL_INPUTS || axis < 0 || axis >= kInputs[i].rank) return -1;
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
    case 0: return ((const int64_t[]){n[0], 8})[axis];
    default: return -1;
  }
}

int64_t small_output_dim(const small_ctx* c, int i, int axis) {
  if (!c || !c->sized || i < 0 || i >= SMALL_OUTPUTS || axis < 0 || axis >= kOutputs[i].rank) return -1;
  const int64_t* n = c->n;
  int bad = 0;
  (void)bad, (void)n;
  switch (i) {
    case 0: return ((const int64_t[]){n[0], 20})[axis];
    default: return -1;
  }
}

// Expands a weight stored as one repeated element, and copies a misaligned weight to aligned memory.
static int place_weight(small_ctx* c, int i) {
  const weight_row* w = &kWeights[i];
  if (w->bytes == 0 || (w->stored == w->bytes && (uintptr_t)c->weights[i] % (unsigned)w->alignment == 0)) return SMALL_OK;
  if (!c->weights[i]) return SMALL_OK;
  c->copies[i] = small_allocate(w->bytes);
  if (!c->copies[i]) return SMALL_NO_MEMORY;
  for (uint64_t at = 0; at < w->bytes; at += w->stored) memcpy(c->copies[i] + at, c->weights[i], w->stored);
  c->weights[i] = c->copies[i];
  return SMALL_OK;
}

static small_ctx* finish(small_ctx* c, int status, int* error) {
  unsigned char* scratch = NULL;
  if (!status && !c->packed_file) {
    scratch = small_allocate(0);
    c->packed = small_allocate(PACKED);
    status = c->packed && scratch ? SMALL_OK : SMALL_NO_MEMORY;
  }
  for (int i = 0; !status && i < WEIGHTS; ++i) status = place_weight(c, i);
  if (!status && !c->packed_file) status = load(c, scratch);
  if (!status && SMALL_SIZES == 0) status = set_sizes(c, NULL);
  free(scratch);
  if (error) *error = status;
  if (!status) return c;
  small_destroy(c);
  return NULL;
}

small_ctx* small_create_from(const void* const* weights, int count, int* error) {
  small_ctx* c = calloc(1, sizeof *c);
  int status = c ? SMALL_OK : SMALL_NO_MEMORY;
  if (count != WEIGHTS || (!weights && WEIGHTS > 0)) status = SMALL_BAD_ARGUMENT;
  for (int i = 0; !status && i < WEIGHTS; ++i) {
    c->weights[i] = weights[i];
    if (!weights[i] && kWeights[i].bytes > 0) status = SMALL_BAD_ARGUMENT;
  }
  return finish(c, status, error);
}

// FOLDER/NAME and a suffix, to be freed.
static char* path_of(const char* folder, const char* name, const char* suffix) {
  const size_t length = strlen(folder) + strlen(name) + strlen(suffix) + 2;
  char* path = malloc(length);
  if (path) snprintf(path, length, "%s/%s%s", folder, name, suffix);
  return path;
}

static int map_file(const char* folder, const char* name, const unsigned char** to, size_t* size) {
  if (!folder) return SMALL_BAD_ARGUMENT;
  char* path = path_of(folder, name, "");
  if (!path) return SMALL_NO_MEMORY;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  free(path);
  struct stat info;
  if (file < 0) return SMALL_NO_WEIGHTS;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    void* bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes != MAP_FAILED) *to = bytes, *size = (size_t)info.st_size;
  }
  close(file);
  return *to ? SMALL_OK : SMALL_NO_WEIGHTS;
}

// Maps the file of packed weights, if this package wrote it.
static void map_packed(small_ctx* c, const char* folder) {
  const unsigned char* file = NULL;
  size_t size = 0;
  if (PACKED == 0 || !folder || !PACKED_FILES || map_file(folder, kPackedFile, &file, &size)) return;
  if (size == PACKED_HEADER + (size_t)PACKED && memcmp(file, kPackedHeader, sizeof kPackedHeader) == 0) {
    c->packed_file = file;
    c->packed = (unsigned char*)(uintptr_t)file + PACKED_HEADER;  // never written
  } else munmap((void*)(uintptr_t)file, size);
}

static int write_packed(const small_ctx* c, const char* path) {
  unsigned char header[PACKED_HEADER] = {0};
  memcpy(header, kPackedHeader, sizeof kPackedHeader);
  FILE* f = fopen(path, "wb");
  if (!f) return 0;
  const int written = fwrite(header, 1, sizeof header, f) == sizeof header && fwrite(c->packed, 1, (size_t)PACKED, f) == (size_t)PACKED;
  return fclose(f) == 0 && written;
}

int small_save_packed(const small_ctx* c, const char* folder) {
  if (!c || !folder) return SMALL_BAD_ARGUMENT;
  if (PACKED == 0 || !PACKED_FILES) return SMALL_OK;
  char suffix[32];
  snprintf(suffix, sizeof suffix, ".tmp-%ld", (long)getpid());
  char *path = path_of(folder, kPackedFile, ""), *beside = path_of(folder, kPackedFile, suffix);
  int status = path && beside ? SMALL_OK : SMALL_NO_MEMORY;
  if (!status && (!write_packed(c, beside) || rename(beside, path) != 0)) status = SMALL_NOT_WRITTEN;
  if (status == SMALL_NOT_WRITTEN) unlink(beside);
  free(path), free(beside);
  return status;
}

// Opens file i. The package's weights file must begin with the model's fingerprint.
static int open_file(small_ctx* c, const char* folder, int i) {
#if EMBEDDED
  if (i == 0) {
    c->files[0] = small_weights_begin, c->file_bytes[0] = (size_t)(small_weights_end - small_weights_begin);
    return SMALL_OK;
  }
#endif
  const int status = map_file(folder, kFiles[i], &c->files[i], &c->file_bytes[i]);
  if (status || i > 0) return status;
  if (c->file_bytes[0] < HEADER) return SMALL_NO_WEIGHTS;
  return memcmp(c->files[0], kHeader, strlen(kHeader)) == 0 ? SMALL_OK : SMALL_WRONG_WEIGHTS;
}

small_ctx* small_create(const char* folder, const char* model_folder, int* error) {
  small_ctx* c = calloc(1, sizeof *c);
  int status = c ? SMALL_OK : SMALL_NO_MEMORY;
  if (c) map_packed(c, folder);
  for (int i = 0; !status && i < WEIGHTS; ++i) {
    const weight_row* w = &kWeights[i];
    if (w->bytes == 0 || (c->packed_file && !w->in_runs)) continue;
    if (w->file < 0) status = SMALL_NO_WEIGHTS;
    else if (!c->files[w->file]) status = open_file(c, w->file == 0 ? folder : model_folder, w->file);
    if (!status && (w->offset > c->file_bytes[w->file] || w->stored > c->file_bytes[w->file] - w->offset)) status = SMALL_NO_WEIGHTS;
    if (!status) c->weights[i] = c->files[w->file] + w->offset;
  }
  return finish(c, status, error);
}

static int check_buffer(const small_tensor* t, const void* p, size_t bytes) {
  if (!p) return bytes > 0 ? SMALL_BAD_ARGUMENT : SMALL_OK;
  return (uintptr_t)p % (unsigned)t->alignment == 0 ? SMALL_OK : SMALL_UNALIGNED;
}

static int run(small_ctx* c, const void* const* inputs, void* const* outputs) {
  c->done = 0;
  int status = c->sized ? SMALL_OK : SMALL_NO_SIZES;
  for (int i = 0; !status && i < SMALL_INPUTS; ++i)
    status = check_buffer(&kInputs[i], inputs[i], kIsState[i] ? 0 : small_input_bytes(c, i));
  for (int i = 0; !status && i < SMALL_OUTPUTS; ++i) status = check_buffer(&kOutputs[i], outputs[i], small_output_bytes(c, i));
  if (status) return status;
  status = graph_0(c, c->arena, inputs, outputs);
  c->done = !status;
  return status;
}

int small_run(small_ctx* c, const void* const* inputs, int input_count, void* const* outputs, int output_count) {
  if (!c || input_count != SMALL_INPUTS || output_count != SMALL_OUTPUTS) return SMALL_BAD_ARGUMENT;
  if ((!inputs && SMALL_INPUTS > 0) || (!outputs && SMALL_OUTPUTS > 0)) return SMALL_BAD_ARGUMENT;
  const int status = lock(c);
  return status ? status : unlock(c, run(c, inputs, outputs));
}

void small_destroy(small_ctx* c) {
  if (!c) return;
  for (int i = EMBEDDED; i < FILES; ++i)
    if (c->files[i]) munmap((void*)(uintptr_t)c->files[i], c->file_bytes[i]);
  for (int i = 0; i < WEIGHTS; ++i) free(c->copies[i]);
  if (c->packed_file) munmap((void*)(uintptr_t)c->packed_file, PACKED_HEADER + (size_t)PACKED);
  else free(c->packed);
  free(c->arena), free(c);
}
