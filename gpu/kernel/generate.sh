#!/bin/sh
# Writes the PTX of the verify kernel to the file given, or to verify.ptx.
# No CUDA toolkit is needed, but clang 19 is (Debian: clang-19): another version
# gives other text. sm_75 is the oldest architecture that CUDA 13 still knows,
# PTX 6.3 the oldest that clang takes for it; a driver compiles it for any
# later GPU.
set -eu
cd "$(dirname "$0")"
out=${1:-verify.ptx}
"${CLANG:-clang-19}" -x cuda --cuda-device-only -nocudainc -nocudalib \
	--cuda-gpu-arch=sm_75 --cuda-feature=+ptx63 \
	-std=c++17 -Wall -Wextra -Werror -O3 -S verify.cu -o "$out"
