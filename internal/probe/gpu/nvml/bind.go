package nvml

//go:generate go run ./gen

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// void memgauge_nvml_bind(const char *library);
import "C"

import "unsafe"

// library is what go-nvml loads, too.
const library = "libnvidia-ml.so.1"

// bind gives NVML's functions to go-nvml, which leaves them to be found by the program's loader when each is called
// first. That fails where everything is bound at the start (LD_BIND_NOW, or a hardened linker's -z now).
func bind(library string) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	C.memgauge_nvml_bind(name)
}
