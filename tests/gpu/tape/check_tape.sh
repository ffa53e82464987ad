#!/bin/sh
# Every call of the tape can be replayed, and makes the call that is on the tape.
#   check_tape.sh GPU_TAPE
set -eu
tape=$(cd "$(dirname "$0")" && pwd)/calls.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TRIREME_STAND_IN_TAPE_KNOWN="$tape"
"$1" "$tape"
# Control: a call that is not on the tape is noticed.
grep "^matmul" "$tape" | tail -1 >"$scratch/one"
head -1 "$tape" >"$scratch/other"
if TRIREME_STAND_IN_TAPE_KNOWN="$scratch/other" "$1" "$scratch/one" 2>"$scratch/said"; then
    echo "a call that is not on the tape is made"
    exit 1
fi
grep -q 'lacks this call; valid: .*: matmul type=' "$scratch/said" || { cat "$scratch/said"; exit 1; }
# Control: a call that the library refuses, and one whose numbers are wrong, are noticed. Products are made with alpha 1.
head -1 "$tape" | sed 's/head_dim=[0-9]*/head_dim=36/' >"$scratch/wrong"
if TRIREME_STAND_IN_TAPE_KNOWN= "$1" "$scratch/wrong" >/dev/null; then
    echo "gpu_tape accepts attention with a head of 36 elements"
    exit 1
fi
sed 's/ alpha=1 / alpha=2 /' "$scratch/one" >"$scratch/wrong"
if TRIREME_STAND_IN_TAPE_KNOWN= "$1" "$scratch/wrong" >"$scratch/said" 2>&1; then
    echo "gpu_tape accepts wrong numbers of a product"
    exit 1
fi
grep -q '^ *differs by ' "$scratch/said" || { cat "$scratch/said"; exit 1; }
