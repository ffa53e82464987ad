#!/bin/sh
# Writes the call tape anew: runs every test of the cuda device on the stand-in, and keeps each distinct call of a library.
#   record.sh BUILD [OPTION_OF_CTEST...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TRIREME_STAND_IN_TAPE_RECORD="$scratch/tape" ctest --test-dir "$build" -L gpu -E '^gpu/tape$' "$@" --output-on-failure
LC_ALL=C sort -u "$scratch/tape" >"$here/calls.txt"
