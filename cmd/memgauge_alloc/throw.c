// Throws C++ exceptions from C. Nothing of C++ is linked in: a process that calls memgauge_torch_alloc has PyTorch and with it
// the C++ runtime, whose functions are found by their names in the Itanium ABI
// (https://itanium-cxx-abi.github.io/cxx-abi/abi-eh.html). This file is compiled with -fexceptions, so that they pass.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memgauge_alloc.h"
#include "shim.h"

typedef void *(*allocate_fn)(size_t);
typedef void (*throw_fn)(void *, void *, void (*)(void *));

// find looks up a name in a library that is loaded already: Python loads extensions, and what they need, without making their
// names known to all.
static void *find(const char *library, const char *name) {
    void *p = NULL, *h = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
    if (h != NULL) {
        p = dlsym(h, name);
        dlclose(h);
    }
    return p != NULL ? p : dlsym(RTLD_DEFAULT, name);
}

static void *in_stdcxx(const char *name) { return find("libstdc++.so.6", name); }
static void *in_c10(const char *name) { return find("libc10.so", name); }

// c10::SourceLocation and std::string, as they are passed.
struct location {
    const char *function, *file;
    uint32_t line;
};

// room is more than sizeof(c10::Error), 128 bytes in torch 2.15, with some to grow.
enum { room = 1024 };

// throw_oom throws c10::OutOfMemoryError, which adds nothing to c10::Error but its type. It returns when a name is missing.
static void throw_oom(const char *text, allocate_fn allocate, throw_fn throw_) {
    void *type = in_c10("_ZTIN3c1016OutOfMemoryErrorE");
    char *table = in_c10("_ZTVN3c1016OutOfMemoryErrorE");
    void (*construct)(void *, struct location, void *) =
        in_c10("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
    void (*assign)(void *, const char *) = in_stdcxx("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6assignEPKc");
    if (type == NULL || table == NULL || construct == NULL || assign == NULL) return;
    // an empty std::string: pointer to its own buffer, length 0, first byte 0
    struct {
        char *at;
        size_t length;
        char own[16];
    } message = {message.own, 0, {0}};
    assign(&message, text);
    void *e = allocate(room);
    struct location here = {"memgauge_torch_alloc", "libmemgauge_alloc.so", 0};
    construct(e, here, &message); // moves the message out
    *(char **)e = table + 16;     // past offset-to-top and type: OutOfMemoryError's own functions
    throw_(e, type, *(void (**)(void *))(table + 16)); // the first is the destructor
}

void memgauge_throw(const char *text, int code) {
    allocate_fn allocate = (allocate_fn)in_stdcxx("__cxa_allocate_exception");
    throw_fn throw_ = (throw_fn)in_stdcxx("__cxa_throw");
    if (allocate == NULL || throw_ == NULL) {
        fprintf(stderr, "%s\n", text); // no C++ in this process, so nobody who could catch: PyTorch is not here
        abort();
    }
    if (code == MEMGAUGE_OUT_OF_MEMORY) throw_oom(text, allocate, throw_);
    void *type = in_stdcxx("_ZTISt13runtime_error");
    void (*construct)(void *, const char *) = in_stdcxx("_ZNSt13runtime_errorC1EPKc");
    void (*destroy)(void *) = in_stdcxx("_ZNSt13runtime_errorD1Ev");
    if (type == NULL || construct == NULL) {
        fprintf(stderr, "%s\n", text);
        abort();
    }
    void *e = allocate(room);
    construct(e, text);
    throw_(e, type, destroy);
}
