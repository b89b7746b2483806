// libmemgauge_alloc.so: memgauge's caching allocator for C, for ctypes, and in the place of PyTorch's own
// (torch.cuda.memory.CUDAPluggableAllocator). docs/allocator.md describes how it works.
//
// Every function may be called from any thread. After a fork the child has no allocator: there, frees do nothing, and
// everything else fails with an error that says so. Nothing hangs.
#ifndef MEMGAUGE_ALLOC_H
#define MEMGAUGE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// PyTorch's pluggable allocator. Settings come from MEMGAUGE_ALLOC_CONF, else PYTORCH_ALLOC_CONF, else
// PYTORCH_CUDA_ALLOC_CONF, else GENESIS_CUDA_ALLOC_CONF; the driver is MEMGAUGE_ALLOC_DRIVER or cuda. A failed allocation
// throws the C++ exception that PyTorch expects: c10::OutOfMemoryError (torch.OutOfMemoryError), or std::runtime_error.
// A free never throws, because PyTorch frees in destructors: wrong frees are counted (memgauge_misuses).
void *memgauge_torch_alloc(ptrdiff_t size, int device, void *stream);
void memgauge_torch_free(void *p, ptrdiff_t size, int device, void *stream);
// Functions for the setters of the object that _cuda_customAllocator returns: set_init_fn, set_record_stream_fn,
// set_reset_fn (empty_cache), set_memory_fraction_fn, set_base_alloc_fn, set_begin_allocate_to_pool,
// set_end_allocate_to_pool_fn, set_release_pool; torch 2.0 and 2.1 have set_begin_allocate_stream_to_pool and
// set_end_allocate_stream_to_pool_fn. A MempoolId_t is two words; a filter is the address of a
// std::function<bool(cudaStream_t)> of libstdc++.
void memgauge_torch_init(int count);
void memgauge_torch_record_stream(void *p, void *stream);
void memgauge_torch_reset(void);
void memgauge_torch_fraction(double fraction, int device);
void *memgauge_torch_base(void *p, size_t *size);
void memgauge_torch_begin_pool(int device, uint64_t high, uint64_t low, void *filter);
void memgauge_torch_end_pool(int device, uint64_t high, uint64_t low);
void memgauge_torch_begin_pool_stream(int device, void *stream, uint64_t high, uint64_t low);
void memgauge_torch_end_pool_stream(int device, void *stream);
void memgauge_torch_release_pool(int device, uint64_t high, uint64_t low);

// memgauge_open opens an allocator on a device and returns its number, above 0; or 0 (see memgauge_error). driver is "cuda",
// "host" or "fake". conf is in the syntax of PYTORCH_ALLOC_CONF; NULL for the environment's. A second open of the same
// device returns the same allocator and ignores conf.
int memgauge_open(const char *driver, int device, const char *conf);
// memgauge_configure replaces the environment's settings for devices that are opened from now on with conf NULL. It
// returns 0, or -1.
int memgauge_configure(const char *conf);

// memgauge_alloc returns size bytes for use on a stream; NULL for 0 bytes, and when it fails (memgauge_error is then not
// NULL). stack is 0 or from memgauge_stack.
void *memgauge_alloc(int a, size_t size, void *stream, uint32_t stack);
// memgauge_free gives a block back and returns 0, or -1 (memgauge_error).
int memgauge_free(int a, void *p);
int memgauge_free_at(int a, void *p, uint32_t stack);     // the same, from a stack of memgauge_stack
int memgauge_retain(int a, void *p);                      // one more free is then needed
int memgauge_record_stream(int a, void *p, void *stream); // another stream uses the block
int memgauge_empty_cache(int a);
int64_t memgauge_release_cached(int a);                   // the same; returns the bytes that went back to the driver, or -1
int memgauge_reset_stats(int a, int peaks, int sums);
int memgauge_set_fraction(int a, double fraction);        // of the device's memory, that may be reserved
int memgauge_set_debug(int a, int on);                    // stacks of allocations, and a ledger of freed blocks

// A window measures from its opening on: a number above 0, or 0.
int memgauge_window(int a);
int memgauge_window_close(int a, int window);

// Texts, which the caller frees with memgauge_text_free; NULL when they fail. what is "genesis", "torch" (JSON objects,
// with the keys of Genesis's and of torch.cuda.memory_stats()), "all" (both) or "summary" (for people). window is 0 for
// the time since the last reset.
char *memgauge_stats(int a, int window, const char *what);
// The newest n events as JSON lines, oldest first; n < 0 for all that are kept.
char *memgauge_events(int a, int n);
void memgauge_text_free(char *text);

// memgauge_base returns the segment that contains a live block, and its size unless size is NULL; NULL for any other
// address.
void *memgauge_base(int a, void *p, size_t *size);

// memgauge_snapshot writes the state and the events to a file: "pickle" (PyTorch's viewers), "csv" (RMM), "jsonl".
int memgauge_snapshot(int a, const char *path, const char *format);

// memgauge_copy copies n bytes between host and device memory; direction is 1 to the device, 2 to the host. It
// waits for the copy.
int memgauge_copy(int a, void *to, const void *from, size_t n, int direction);
// memgauge_copy_cuda does the same for memory of a CUDA device that another allocator has allocated.
int memgauge_copy_cuda(int device, void *to, const void *from, size_t n, int direction);

// memgauge_stack interns a stack for memgauge_alloc: lines of file:line:function, innermost first.
uint32_t memgauge_stack(int a, const char *lines);

// memgauge_error returns why this thread's last call failed; NULL if it did not. The text is valid until the thread's next
// call.
const char *memgauge_error(void);
// memgauge_error_code returns what kind of error that is: the text is for people.
#define MEMGAUGE_OK 0
#define MEMGAUGE_FAILED 1
#define MEMGAUGE_OUT_OF_MEMORY 2
int memgauge_error_code(void);
// memgauge_misuses counts frees of memgauge_torch_free that were wrong.
int64_t memgauge_misuses(void);

// memgauge_matmul_f32 is c[m][n] = a · b on host memory, row-major; a's element (i, k) is a[i*ai + k*ak], b's (k, j) is
// b[k*bk + j*bj].
void memgauge_matmul_f32(float *c, const float *a, const float *b, int64_t m, int64_t n, int64_t k,
                         int64_t ai, int64_t ak, int64_t bk, int64_t bj);
// memgauge_fill_f32 writes v to n floats; memgauge_rand_f32 uniform numbers from [0, 1), by a generator seeded with *state,
// which it advances.
void memgauge_fill_f32(float *to, int64_t n, float v);
void memgauge_rand_f32(float *to, int64_t n, uint64_t *state);
// memgauge_binary_f32 is to = x op y, element by element; op is one of + - * /.
void memgauge_binary_f32(float *to, const float *x, const float *y, int64_t n, int op);

#ifdef __cplusplus
}
#endif
#endif
