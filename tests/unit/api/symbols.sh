#!/bin/sh
# The library's symbols are the functions that trireme.h declares, no more and no fewer, in the
# shared library and in the archive; and the header stays readable: at most 480 lines.
#   symbols.sh trireme.h libtrireme.so libtrireme.a
set -eu
header=$1 shared=$2 archive=$3
declared=$(tr '\n' ' ' <"$header" | grep -o 'TRM_API [^;]*' | grep -o 'trm_[a-z0-9_]*(' | tr -d '(' | sort -u)

# compare NAME SYMBOLS: names that start with an underscore are the compiler's.
compare() {
    found=$(printf '%s\n' "$2" | grep -v '^_' | sort -u)
    [ "$found" = "$declared" ] && return
    echo "$1: its symbols are not what the header declares:"
    printf '%s\n%s\n' "$declared" "$found" | sort | uniq -u
    return 1
}

# Negative control: one name too many is seen.
if compare control "$declared
trireme_secret" >/dev/null; then
    echo "$0: a symbol that nobody declared was not noticed"
    exit 1
fi
compare "$shared" "$(nm -D --defined-only "$shared" | awk '{ print $3 }')"
compare "$archive" "$(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }')"
lines=$(wc -l <"$header")
if [ "$lines" -gt 480 ]; then
    echo "$header: $lines lines; valid is at most 480"
    exit 1
fi
