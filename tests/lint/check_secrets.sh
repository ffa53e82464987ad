#!/bin/sh
# Codes of a secret are compared in constant time: src/net/secret.c compares them by CRYPTO_memcmp, and nothing but the
# magic of a message in another way. No other file compares a code.
#   check_secrets.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

check() {
    (cd "$1" && find src/net src/rendezvous src/comm src/launch -name '*.[ch]' | sort | xargs awk '
        { line = $0; sub(/\/\/.*/, "", line) }
        FILENAME == "src/net/secret.c" && line ~ /CRYPTO_memcmp\(/ { constant++ }
        FILENAME == "src/net/secret.c" && line ~ /(^|[^A-Za-z_])(mem|b|str|strn|strcase)cmp\(/ && line !~ /magic/ { say() }
        FILENAME != "src/net/secret.c" && line ~ /(mem|b|str|strn)cmp\([^;]*(->|\.)(code|nonce)[^a-z_]/ { say() }
        function say() { print FILENAME ":" FNR ": compares bytes of a secret in a time that tells of them: " $0; bad = 1 }
        END {
            if (!constant) print "src/net/secret.c: no CRYPTO_memcmp in it"
            exit bad || !constant
        }')
}

mkdir -p "$scratch/tree/src/net" "$scratch/tree/src/rendezvous" "$scratch/tree/src/comm" "$scratch/tree/src/launch"
file=$scratch/tree/src/net/secret.c
good='if (memcmp(a->magic, MAGIC, 8) != 0) return false;
return CRYPTO_memcmp(own, code, sizeof own) == 0; // not memcmp(own, code, 32)'
printf '%s\n' "$good" >"$file"
printf 'if (memcmp(head.magic, x, 8)) return 0;\n' >"$scratch/tree/src/comm/a.c"
control_passes "$scratch/tree"
printf 'return memcmp(own, code, sizeof own) == 0;\n%s\n' "$good" >"$file"
control_fails "$scratch/tree" 'secret.c:1: compares bytes of a secret'
printf 'int a;\n' >"$file"
control_fails "$scratch/tree" 'no CRYPTO_memcmp'
printf '%s\n' "$good" >"$file"
printf 'if (memcmp(own, answer->code, 32) == 0) welcome();\n' >"$scratch/tree/src/comm/a.c"
control_fails "$scratch/tree" 'a.c:1: compares bytes of a secret'

control_verdict "codes are compared in constant time"
