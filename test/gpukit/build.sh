#!/bin/sh
# build.sh MEMGAUGE LIBRARY DIR: makes DIR/memgauge-gpu-kit and DIR/memgauge-gpu-kit.tar.xz, at most 40 MB, out of what is built.
# The folder needs only Python with PyTorch and a driver where it runs: python3 memgauge-gpu-kit/kit.py
set -eu
here=$(dirname "$0") root=$(dirname "$0")/../.. memgauge=$1 library=$2 dir=$3
kit=$dir/memgauge-gpu-kit
rm -rf "$kit" "$kit.tar.xz"
mkdir -p "$kit/bin" "$kit/lib"
cp "$memgauge" "$library" "$kit/bin/"
(cd "$root" && go test -c -trimpath -ldflags '-s -w' -o "$kit/bin/cuda.test" ./alloc/cuda)
cp -r "$root/python/memgauge" "$kit/lib/"
find "$kit/lib" -name __pycache__ -prune -exec rm -r {} +
cp -r "$here/kit.py" "$here/harness.py" "$here/programs" "$root/test/bench/trainer_cost.py" "$root/LICENSE" "$root/THIRD_PARTY_LICENSES" "$kit/"
[ "${MEMGAUGE_KIT_PACK:-1}" = 1 ] || exit 0 # the test needs the folder only
tar -C "$dir" -cf - memgauge-gpu-kit | xz -T2 -6 >"$kit.tar.xz"
size=$(wc -c <"$kit.tar.xz")
[ "$size" -le 40000000 ] || { echo "gpu-kit: $size bytes, more than 40 MB" >&2; exit 1; }
echo "$kit.tar.xz: $size bytes; there: tar xf memgauge-gpu-kit.tar.xz && python3 memgauge-gpu-kit/kit.py"
