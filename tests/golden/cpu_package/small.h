// small: a model as C, made by rlxc. README.md shows a worked call.
//
// input 0: "x" f32[batch,8]
// output 0: "y" f32[batch,20]
// size 0: "batch"
//
// Tensors are dense, row-major, little-endian. bool is a byte, 0 or 1; f16 and bf16 are their bits as uint16_t. The buffers of a
// call do not overlap, and each begins at a multiple of its tensor's `alignment`.
//
// Functions that return int return SMALL_OK or an error. They check pointers, counts, indices and alignment; a bad index gives the
// value that the comment names. Contexts are independent: each may run in a thread of its own.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Identifies the code and weights of this package. Two packages of one name do not link into one program: compile one with --name.
#define SMALL_IDENTITY small_identity_5eb35235343161b2
extern const char SMALL_IDENTITY;
#ifdef __GNUC__
static const char* const small_identity __attribute__((used)) = &SMALL_IDENTITY;
#endif

enum {
  SMALL_OK = 0,
  SMALL_NO_MEMORY = 1,
  SMALL_NO_WEIGHTS = 2,     // a weights file is missing or too short
  SMALL_NO_SIZES = 3,       // sizes were not set, or they do not fit the model
  SMALL_DYNAMIC_SIZE = 4,   // a data-dependent dim is larger than planned, or differs from a size that the model requires
  SMALL_BAD_ARGUMENT = 5,   // a null pointer, or a number of arguments that is not the model's
  SMALL_UNALIGNED = 6,      // a buffer does not begin at a multiple of its tensor's alignment
  SMALL_WRONG_WEIGHTS = 7,  // a weights file belongs to another model
  SMALL_BUSY = 8,           // the context is in use by another thread
  SMALL_NOT_WRITTEN = 11,   // a file could not be written; an older one of its name is whole
  SMALL_BAD_INDEX = 9       // an index of an input is not in the range above; with --hardened, any index that the inputs give
};
const char* small_strerror(int error);  // "unknown error" for other numbers

enum { SMALL_INPUTS = 1, SMALL_OUTPUTS = 1, SMALL_SIZES = 1, SMALL_WEIGHTS = 2 };

typedef struct {
  const char* name;   // UTF-8
  const char* dtype;  // "f32", "i64", "bool", ...
  int element_bits;   // elements of fewer than 8 bits are packed, the first in the low bits
  int alignment;      // in bytes
  int rank;
  const char* const* dims;  // of each axis: a number, or an expression over the sizes below
} small_tensor;

const small_tensor* small_input(int i);   // NULL where there is none
const small_tensor* small_output(int i);  // NULL where there is none
const char* small_size_name(int i);    // of a symbolic size; NULL where there is none

typedef struct small_ctx small_ctx;

// Maps the weights and prepares them. NULL where that fails, and the error in *error (which may be NULL). `folder` holds
// small.weights; `model_folder` the weights files of the model itself (none here: it may be NULL).
// A file of prepared weights in `folder` is mapped in place of those that only it needs.
small_ctx* small_create(const char* folder, const char* model_folder, int* error);
// The same with the bytes of each weight as they are stored (one element where all are equal), in the order of
// small_weight_name; they must outlive the context. `count` is SMALL_WEIGHTS.
small_ctx* small_create_from(const void* const* weights, int count, int* error);
const char* small_weight_name(int i);  // NULL where there is none

// Writes the prepared weights to small.packed in `folder`. Later contexts map it, and processes share its memory. It fits this
// package and its weights only: write it again when one of them changes. A file of another package is not read.
int small_save_packed(const small_ctx*, const char* folder);

// Sets all symbolic sizes, in the order of small_size_name, and allocates the memory that they need. Needed before the first run
// where SMALL_SIZES > 0. `count` is SMALL_SIZES. After an error the context has no sizes.
int small_set_sizes(small_ctx*, const int64_t* sizes, int count);

// Bytes of activations and scratch memory, and of an input or output; 0 without sizes or for a bad index.
size_t small_arena_size(const small_ctx*);
size_t small_input_bytes(const small_ctx*, int i);
size_t small_output_bytes(const small_ctx*, int i);
// The size of an axis; -1 without sizes or for a bad index.
int64_t small_input_dim(const small_ctx*, int i, int axis);
int64_t small_output_dim(const small_ctx*, int i, int axis);

// Memory for the buffers of a call, aligned for vectors; NULL if there is none. Large blocks use huge pages, which reduces TLB
// misses: let the caches of a decoder share one. Released by free().
void* small_allocate(size_t bytes);

// One run. `input_count` is SMALL_INPUTS, `output_count` SMALL_OUTPUTS. After an error the outputs hold nothing of use; the context
// can run again. A buffer without bytes may be NULL.
int small_run(small_ctx*, const void* const* inputs, int input_count, void* const* outputs, int output_count);
void small_destroy(small_ctx*);  // NULL is allowed

// Threads that share the loops of this model, for all contexts: 1 to 1024, or 0 for RLXC_THREADS of the environment or, without
// it, the number of processors (the default).
int small_set_threads(int threads);

#ifdef __cplusplus
}
#endif
