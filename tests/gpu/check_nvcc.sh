#!/bin/sh
# nvcc accepts the kernels: each source becomes PTX without optimizations, in a sixth of the time of a build. The compiler
# of the stand-in does not know the rules of CUDA, such as which functions a kernel can call. Where ./test builds the device,
# warnings are errors, too. Exits with 77 (skipped) where there is no nvcc of version 12.5 or later.
#   check_nvcc.sh ROOT
set -eu
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if ! "$nvcc" --version 2>/dev/null | grep -Eq 'V(12\.([5-9]|[1-9][0-9])|1[3-9])\.?'; then
    echo "$0: skipped, no nvcc of version 12.5 or later was found"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# accepts FILE...: prints what nvcc says of each that it refuses.
accepts() {
    printf '%s\n' "$@" | xargs -P 2 -I '{}' "$nvcc" -std=c++20 -G -ptx -arch=compute_80 -I"$root/src" '{}' -o /dev/null
}

root=$1
printf 'static int host() { return 1; }\n__global__ void kernel(int *x) { *x = host(); }\n' >"$scratch/wrong.cu"
if accepts "$scratch/wrong.cu" >/dev/null 2>&1; then
    echo "$0: nvcc accepts a kernel that calls a function of the host"
    exit 1
fi
# shellcheck disable=SC2046 # names without spaces
accepts $(find "$root/src/device/cuda" -name '*.cu' | sort)
