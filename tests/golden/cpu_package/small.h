// small: a model as C, made by rlxc.
//
// input 0: "x" f32[batch,8]
// output 0: "y" f32[batch,20]
// size 0: "batch"
//
// Tensors are dense, row-major, little-endian; bool is a byte, 0 or 1; f16 and bf16 are their bits as uint16_t.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SMALL_OK = 0,
  SMALL_NO_MEMORY = 1,
  SMALL_NO_WEIGHTS = 2,      // a weights file is missing or too short
  SMALL_NO_SIZES = 3,        // set_sizes was not called, or these sizes do not fit the model
  SMALL_DYNAMIC_SIZE = 4,    // a data-dependent dim is larger than there is room for, or differs between iterations
};

enum { SMALL_INPUTS = 1, SMALL_OUTPUTS = 1, SMALL_SIZES = 1, SMALL_WEIGHTS = 2 };

typedef struct small_ctx small_ctx;

// Maps the weights and prepares them. NULL and an error code where that fails. `folder` holds small.weights; `model_folder`
// the weight files of the model itself (none here: it may be NULL).
small_ctx* small_create(const char* folder, const char* model_folder, int* error);
// The same with the bytes of each weight as they are stored (one element where all are equal), in the order of
// small_weight_name; they must outlive the context.
small_ctx* small_create_from(const void* const* weights, int* error);
const char* small_weight_name(int i);

// Gives the sizes above their values and makes room for them. Not needed where there are none.
int small_set_sizes(small_ctx*, const int64_t* sizes);
size_t small_arena_size(const small_ctx*);              // bytes of activations, and of scratch memory
size_t small_input_bytes(const small_ctx*, int i);
size_t small_output_bytes(const small_ctx*, int i);
// The size of an axis of an output.
int64_t small_output_dim(const small_ctx*, int i, int axis);

// One run. Not to be called for one context from two threads at a time.
int small_run(small_ctx*, const void* const* inputs, void* const* outputs);
void small_destroy(small_ctx*);

#ifdef __cplusplus
}
#endif
