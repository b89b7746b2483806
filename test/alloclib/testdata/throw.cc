// What PyTorch sees when its pluggable allocator fails: the very exception types that its Python layer knows. Compiled with
// PyTorch's own headers and libc10.
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

int main(int, char **argv) {
    void *h = dlopen(argv[1], RTLD_LAZY); // as ctypes does
    auto alloc = reinterpret_cast<void *(*)(ptrdiff_t, int, void *)>(dlsym(h, "memgauge_torch_alloc"));
    auto release = reinterpret_cast<void (*)(void *, ptrdiff_t, int, void *)>(dlsym(h, "memgauge_torch_free"));
    auto misuses = reinterpret_cast<int64_t (*)()>(dlsym(h, "memgauge_misuses"));
    if (!alloc || !release || !misuses) return std::printf("no symbols: %s\n", dlerror()), 1;

    void *p = alloc(1000, 0, nullptr);
    if (p == nullptr || alloc(0, 0, nullptr) != nullptr) return std::printf("no memory\n"), 1;
    for (int round = 0; round < 100; round++) {
        try {
            alloc(ptrdiff_t(1) << 50, 0, nullptr);
            return std::printf("nothing was thrown\n"), 1;
        } catch (const c10::OutOfMemoryError &e) { // torch.OutOfMemoryError
            if (!std::strstr(e.what(), "CUDA out of memory") || !std::strstr(e.what_without_backtrace(), "CUDA OOM"))
                return std::printf("wrong text: %s\n", e.what()), 1;
        }
    }
    try {
        alloc(1000, 1000, nullptr);
        return std::printf("nothing was thrown\n"), 1;
    } catch (const c10::Error &) {
        return std::printf("a device out of range is no lack of memory\n"), 1;
    } catch (const std::runtime_error &e) { // RuntimeError
        if (!std::strstr(e.what(), "device out of range")) return std::printf("wrong text: %s\n", e.what()), 1;
    }
    release(p, 1000, 0, nullptr);
    release(p, 1000, 0, nullptr); // in a destructor nothing may be thrown
    if (misuses() != 1) return std::printf("%ld misuses counted\n", long(misuses())), 1;
    std::printf("fine\n");
}
