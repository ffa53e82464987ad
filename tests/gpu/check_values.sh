#!/bin/sh
# The headers of the stand-in have CUDA's values, sizes, error texts and signatures. The names of our headers are
# printed by one program that is compiled twice, with ours and with CUDA's. Exits with 77 (skipped) where there is no
# CUDA toolkit of version 13, whose values they are.
#   check_values.sh ROOT OBJECTS [FOLDER OF THE TOOLKIT]     OBJECTS: the folder with the stand-in's objects
set -eu
own=$1/tests/gpu/stand_in
objects=$2
toolkit=${3-}
if [ -z "$toolkit" ]; then
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    toolkit=$(dirname "$(dirname "$nvcc")")
fi
library=$(find "$toolkit/" -name libcudart_static.a 2>/dev/null | head -n 1)
if ! grep -q 'define CUDART_VERSION *13' "$toolkit/include/cuda_runtime_api.h" 2>/dev/null || [ -z "$library" ]; then
    echo "$0: skipped, no CUDA toolkit of version 13 is in $toolkit"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
runtime=$own/include/cuda_runtime_api.h

# Enumerators and constants of our headers.
names=$(sed -n -e 's/^ *\(cuda[A-Za-z0-9]*\|CU[A-Z_0-9]*\) = .*/\1/p' \
    -e 's/^#define \(cuda[A-Za-z]*\|CUDA_IPC_[A-Z_]*\) [0-9].*/\1/p' "$runtime" "$own/include/cuda.h")
types='dim3 cudaIpcMemHandle_t cudaUUID_t cudaGraphEdgeData'
for t in char uchar short ushort int uint float longlong ulonglong; do types="$types ${t}1 ${t}2 ${t}3 ${t}4"; done
for t in double1 double2 double3; do types="$types $t"; done # double4 has two alignments in CUDA
{
    cat <<'END'
#include <cuda_runtime_api.h>
#include <cuda.h>
#include <stdio.h>
#define VALUE(name) printf("%s %ld\n", #name, (long)name);
#define ERROR(name) printf("%s: %s\n", cudaGetErrorName(name), cudaGetErrorString(name));
#define SIZE(type) printf("%s %zu %zu\n", #type, sizeof(type), _Alignof(type));
int main(void)
{
END
    for name in $names; do
        echo "VALUE($name)"
        case $name in cudaError* | cudaSuccess) echo "ERROR($name)" ;; esac
    done
    for type in $types; do echo "SIZE($type)"; done
    echo 'return 0; }'
} >"$scratch/print.c"
[ "$(wc -l <"$scratch/print.c")" -gt 200 ] || { echo "$0: found too few names in $runtime"; exit 1; }

cc -std=gnu17 -w -I"$own/include" -c "$scratch/print.c" -o "$scratch/own.o"
c++ "$scratch/own.o" "$objects"/runtime_*.o -lpthread -o "$scratch/own"
cc -std=gnu17 -w -isystem "$toolkit/include" "$scratch/print.c" "$library" -ldl -lrt -lpthread -o "$scratch/real"
"$scratch/own" >"$scratch/own.txt"
"$scratch/real" >"$scratch/real.txt"
diff "$scratch/own.txt" "$scratch/real.txt" || { echo "$0: left the stand-in, right CUDA"; exit 1; }

# C takes a second declaration of a function only if it is the same.
{
    echo '#include <cuda_runtime_api.h>'
    sed -n '/^\/\/ Errors\./,/^#ifdef __cplusplus/p' "$runtime" | sed -e '$d' -e 's/ STAND_IN_DEFAULT([A-Za-z0-9]*)//'
} >"$scratch/same.c"
cc -std=gnu17 -w -fsyntax-only -isystem "$toolkit/include" "$scratch/same.c"
sed 's/^cudaError_t cudaMalloc(void \*\*/cudaError_t cudaMalloc(void */' "$scratch/same.c" >"$scratch/other.c"
if cc -std=gnu17 -w -fsyntax-only -isystem "$toolkit/include" "$scratch/other.c" 2>/dev/null; then
    echo "$0: a wrong declaration was not noticed"
    exit 1
fi
echo "$(wc -l <"$scratch/own.txt") values and $(grep -c '^cudaError_t cuda' "$scratch/same.c") signatures are CUDA's"
