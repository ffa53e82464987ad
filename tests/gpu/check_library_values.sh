#!/bin/sh
# The stand-in's headers of cuBLASLt and cuDNN have the libraries' values and sizes, and so has what the device itself
# declares of NCCL. Their names are printed by one program that is compiled twice, with ours and with the toolkit's.
# Exits with 77 (skipped) where there is no toolkit. NCCL is left out where the toolkit has no nccl.h.
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
if [ -f "$toolkit/include/nccl.h" ]; then
    abi=$1/src/device/cuda/libraries/cuda_nccl_abi.h
    names=$(grep -oh '\<nccl[A-Z][A-Za-z0-9]* = ' "$abi" | sed 's/ = //')
    functions=$(grep -oh '\<nccl[A-Z][A-Za-z]*(' "$abi" | tr -d '(' | sort -u)
    {
        cat <<'END'
#include <stddef.h>
#include <stdio.h>
#define VALUE(name) printf(#name " %d\n", (int)name);
#define PLACE(name) printf("ncclConfig_t." #name " %zu\n", offsetof(ncclConfig_t, name));
int main(void)
{
    printf("ncclUniqueId %zu\n", sizeof(ncclUniqueId));
END
        for n in $names NCCL_UNIQUE_ID_BYTES NCCL_CONFIG_UNDEF_INT NCCL_SPLIT_NOCOLOR; do echo "    VALUE($n)"; done
        for m in size magic version blocking cgaClusterSize minCTAs maxCTAs netName splitShare; do echo "    PLACE($m)"; done
        echo '}'
    } >"$scratch/nccl.c"
    ${CC:-cc} -I"$own" -include "$abi" "$scratch/nccl.c" -o "$scratch/nccl_ours"
    ${CC:-cc} -I"$toolkit/include" -include "$toolkit/include/nccl.h" "$scratch/nccl.c" -o "$scratch/nccl_theirs"
    "$scratch/nccl_ours" >>"$scratch/ours.txt"
    "$scratch/nccl_theirs" >>"$scratch/theirs.txt"
    # The functions have one type: both headers declare them to one compiler, which has one set of types.
    {
        cat <<'END'
#include <nccl.h>
#define NCCL_SAME(f, ...) _Static_assert(__builtin_types_compatible_p(__typeof__(f), __VA_ARGS__), #f);
END
        sed -n '/^ncclResult_t nccl\|^const char \*nccl/,/;/p' "$abi" | tr '\n' ' ' | tr ';' '\n' |
            sed -n 's/^ *\(.*[ *]\)\(nccl[A-Z][A-Za-z]*\)(\(.*\))$/NCCL_SAME(\2, \1(\3))/p'
    } >"$scratch/types.c"
    if [ "$(grep -c '^NCCL_SAME' "$scratch/types.c")" != "$(echo "$functions" | wc -l)" ]; then
        echo "$0: found other functions of NCCL than are declared"
        exit 1
    fi
    ${CC:-cc} -I"$toolkit/include" -fsyntax-only "$scratch/types.c"
fi
if [ "$(wc -l <"$scratch/ours.txt")" -lt 80 ]; then
    echo "$0: found too few names"
    exit 1
fi
if ! diff "$scratch/ours.txt" "$scratch/theirs.txt"; then
    echo "$0: the stand-in's headers (<) have other values than the toolkit's (>)"
    exit 1
fi
