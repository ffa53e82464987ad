#!/bin/sh
# The stand-in's headers of cuBLASLt and cuDNN have the libraries' values and sizes. Their names are printed by one
# program that is compiled twice, with ours and with the toolkit's. Exits with 77 (skipped) where there is no toolkit.
#   check_library_values.sh ROOT [FOLDER OF THE TOOLKIT]
set -eu
own=$1/tests/gpu/stand_in/include
toolkit=${2-}
if [ -z "$toolkit" ]; then
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    toolkit=$(dirname "$(dirname "$nvcc")")
fi
if [ ! -f "$toolkit/include/cublasLt.h" ] || [ ! -f "$toolkit/include/cudnn.h" ]; then
    echo "$0: skipped, cublasLt.h and cudnn.h are not in $toolkit"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
names=$(grep -oh '\<\(CUBLAS\|CUBLASLT\|CUDNN\|CUDA_R\)_[A-Z0-9a-z_]* = ' "$own/cublasLt.h" "$own/cudnn.h" | sed 's/ = //')
types='cublasLtMatrixLayoutOpaque_t cublasLtMatmulAlgo_t cublasLtMatmulDescOpaque_t cublasLtMatmulHeuristicResult_t'
{
    cat <<'END'
#include <cublasLt.h>
#include <cudnn.h>
#include <stdio.h>
#define VALUE(name) printf(#name " %d\n", (int)name);
#define SIZE(name) printf(#name " %zu\n", sizeof(name));
int main(void)
{
END
    for n in $names; do echo "    VALUE($n)"; done
    for t in $types; do echo "    SIZE($t)"; done
    echo '}'
} >"$scratch/names.c"
${CC:-cc} -I"$own" "$scratch/names.c" -o "$scratch/ours"
${CC:-cc} -I"$toolkit/include" "$scratch/names.c" -o "$scratch/theirs"
"$scratch/ours" >"$scratch/ours.txt"
"$scratch/theirs" >"$scratch/theirs.txt"
if [ "$(wc -l <"$scratch/ours.txt")" -lt 80 ]; then
    echo "$0: found too few names"
    exit 1
fi
if ! diff "$scratch/ours.txt" "$scratch/theirs.txt"; then
    echo "$0: the stand-in's headers (<) have other values than the toolkit's (>)"
    exit 1
fi
