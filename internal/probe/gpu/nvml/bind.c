#include <dlfcn.h>
#include <stddef.h>

static const char *const names[] = {
#define F(name) #name,
#include "functions.h"
#undef F
};

extern void *memgauge_nvml_slots[]; /* bind.S, in the order of names */

/* memgauge_nvml_bind fills the slots of the functions that the library has, if there is one. It stays loaded. */
void memgauge_nvml_bind(const char *library)
{
	void *loaded = dlopen(library, RTLD_LAZY | RTLD_GLOBAL);
	if (!loaded)
		return;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *function = dlsym(loaded, names[i]);
		if (function)
			memgauge_nvml_slots[i] = function;
	}
}
