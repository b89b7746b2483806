#!/bin/sh
# build.sh TORCH_LIB DIR: makes DIR/libfakecudart.so, to preload, and DIR/libcuda.so.1, for the PyTorch whose libraries are in TORCH_LIB.
set -eu
here=$(dirname "$0") lib=$1 dir=$2
rest() { # the functions that stdin names and a source does not have
	grep -oE '^(int|const char \*) ?cu[A-Za-z0-9_]+' "$1" | sed -E 's/.*[ *]//' | sort -u >"$dir/have"
	sort -u | comm -13 "$dir/have" - | sed 's/.*/int &(void) { return 0; }/'
}
nm -D --undefined-only "$lib"/libtorch_cuda.so "$lib"/libc10_cuda.so "$lib"/libtorch_python.so |
	sed -nE 's/.* (cuda[A-Za-z0-9_]+)(@.*)?$/\1/p' | rest "$here/cudart.c" >"$dir/cudart_rest.c"
cat "$lib"/libc10_cuda.so "$lib"/libtorch_cuda.so | tr -c 'A-Za-z0-9_' '\n' |
	grep -E '^cu(Mem|Device|Ctx|Get|Driver|Init|Multicast|Stream|Event|Pointer|Func|Module|Launch|Occ|Library|Kernel)[A-Za-z0-9_]+$' |
	rest "$here/driver.c" >"$dir/driver_rest.c"
cc -w -shared -fPIC -o "$dir/libfakecudart.so" "$here/cudart.c" "$dir/cudart_rest.c"
cc -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$dir/libcuda.so.1" "$here/driver.c" "$dir/driver_rest.c"
cc -w -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$dir/libnvidia-ml.so.1" "$here/nvml.c"
