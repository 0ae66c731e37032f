// Sets of instructions of the processor that runs the program. The C library found them when the program was loaded; to ask the
// processor again takes some ten microseconds for each question in a virtual machine, and libgcc's __builtin_cpu_supports asks at
// every start.
#pragma once

namespace rlxc {

#if defined(__x86_64__)
bool has_avx2();
bool has_avx512f();
bool has_avx512_bf16();
bool has_fma();
bool has_sha();   // and SSE 4.1
bool has_vnni();  // dot products of bytes in the widest vectors: AVX512-VNNI, or AVX-VNNI without AVX-512
#elif defined(__aarch64__)
bool has_bf16();
bool has_i8mm();
#endif

}  // namespace rlxc
