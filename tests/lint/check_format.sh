#!/bin/sh
# clang-format 14 would change no C, C++ or CUDA file. Exits with 77 (skipped) if that version is not installed,
# because other versions format differently.
#   check_format.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

formatter=clang-format-14
if ! command -v $formatter >/dev/null; then
    echo "$0: skipped, $formatter is not installed"
    exit 77
fi

check() {
    (cd "$1" && find src include tests examples -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' 2>/dev/null | xargs $formatter --dry-run -Werror)
}

mkdir -p "$scratch/tree/src/base"
cp "$root/.clang-format" "$scratch/tree/"
printf 'int f(void)\n{\n    return 1;\n}\n' >"$scratch/tree/src/base/a.c"
control_passes "$scratch/tree"
printf 'int f(void) {\n  return 1; }\n' >"$scratch/tree/src/base/a.c"
control_fails "$scratch/tree" 'clang-format-violations'

mv "$scratch/tree/src/base/a.c" "$scratch/tree/src/base/a.cu"
control_fails "$scratch/tree" 'clang-format-violations'

control_verdict "every C, C++ and CUDA file is formatted"
