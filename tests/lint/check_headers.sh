#!/bin/sh
# Headers are complete and do not conflict: each compiles alone, and all compile in one file in the order of their names
# and in the reverse order. Headers of CUDA kernels compile as C++ after gpu.h, each alone. CUDA is the stand-in's.
#   check_headers.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# compile ROOT FILE. The headers of vectors (vec*.h of device/cpu/) are compiled once per CPU level: here for one of them.
compile() {
    case $(uname -m) in
    x86_64) level='-DCPU_LEVEL=avx2 -DVEC_BYTES=32 -mavx2 -mfma' ;;
    *) level= ;;
    esac
    # Unused functions of headers are allowed.
    cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -I"$1/src" -I"$1/include" \
        -I"$1/tests/gpu/stand_in/include" $level -x c "$2"
}

# gpu_cuda.h is for nvcc alone.
compile_kernels() {
    for header in $(cd "$1/src" && grep -rlE "__device__|cuda/gpu" --include="*.h" device/cuda 2>/dev/null | grep -v /gpu_cuda.h); do
        printf '#include "device/cuda/gpu.h"\n#include "%s"\n' "$header" >"$scratch/one.cpp"
        if ! c++ -std=c++20 -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -I"$1/src" \
            -I"$1/tests/gpu/stand_in" -I"$1/tests/gpu/stand_in/include" "$scratch/one.cpp" >"$scratch/said" 2>&1; then
            echo "$header: does not compile by itself"
            grep -m 1 error "$scratch/said" || true
            bad=1
        fi
    done
}

headers() {
    (cd "$1/src" && find . -name '*.h' | sed 's!^\./!!')
    [ ! -d "$1/include" ] || (cd "$1/include" && find . -name '*.h' | sed 's!^\./!!')
}

check() {
    bad=0
    headers "$1" | sort >"$scratch/headers"
    [ "$(uname -m)" = x86_64 ] || sed -i '/cpu\/.*vec/d' "$scratch/headers"
    (cd "$1/src" && grep -rlE "__device__|cuda/gpu" --include="*.h" device/cuda 2>/dev/null) >"$scratch/kernels" || true
    grep -vxF -f "$scratch/kernels" "$scratch/headers" >"$scratch/c_headers" || true
    mv "$scratch/c_headers" "$scratch/headers"
    compile_kernels "$1"
    while IFS= read -r header; do
        echo "#include \"$header\"" >"$scratch/one.c"
        if ! compile "$1" "$scratch/one.c" >"$scratch/said" 2>&1; then
            echo "$header: does not compile by itself"
            grep -m 1 error "$scratch/said" || true
            bad=1
        fi
    done <"$scratch/headers"
    for order in sort 'sort -r'; do
        $order "$scratch/headers" | sed 's/.*/#include "&"/' >"$scratch/all.c"
        if ! compile "$1" "$scratch/all.c" >"$scratch/said" 2>&1; then
            echo "all headers, $order: they do not compile together"
            grep -m 3 error "$scratch/said" || true
            bad=1
        fi
    done
    return $bad
}

# header NAME TEXT
header() {
    mkdir -p "$scratch/tree/src/base"
    printf '%s\n' "$2" >"$scratch/tree/src/base/$1.h"
}
header a 'typedef struct place { int a; } place;'
control_passes "$scratch/tree"
header b 'int f(place *p);'
control_fails "$scratch/tree" 'base/b.h: does not compile by itself'
header b 'typedef struct place { int b; } place;'
control_fails "$scratch/tree" 'do not compile together'

control_verdict "every header compiles alone, and all together"
