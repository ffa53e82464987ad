#!/bin/sh
# The call tape in the repository is what the cases of kernels call today, and every call can be replayed.
#   check_tape.sh GPU_TAPE PROGRAM…            compares and replays on the stand-in
#   check_tape.sh --record GPU_TAPE PROGRAM…   writes tests/gpu/tape/calls.txt anew
set -eu
here=$(cd "$(dirname "$0")" && pwd)
record=
if [ "$1" = --record ]; then
    record=1
    shift
fi
replay=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for program; do
    TRIREME_STAND_IN_TAPE="$scratch/tape" "$program" >"$scratch/said" || { cat "$scratch/said"; exit 1; }
done
LC_ALL=C sort -u "$scratch/tape" >"$scratch/calls.txt"
if [ -n "$record" ]; then
    cp "$scratch/calls.txt" "$here/calls.txt"
fi
if ! diff "$here/calls.txt" "$scratch/calls.txt" >"$scratch/diff"; then
    head -20 "$scratch/diff"
    echo "the cases make other calls than tests/gpu/tape/calls.txt has; valid: check_tape.sh --record, then gpu_tape on a GPU"
    exit 1
fi
"$replay" "$here/calls.txt"
# Control: a call that the library refuses, and one whose numbers are wrong, are noticed.
head -1 "$here/calls.txt" | sed 's/head_dim=[0-9]*/head_dim=36/' >"$scratch/wrong"
if "$replay" "$scratch/wrong" >/dev/null; then
    echo "gpu_tape accepts attention with a head of 36 elements"
    exit 1
fi
