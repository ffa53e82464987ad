#!/bin/sh
# Functions have at most 60 lines. A longer one says why in a line `// LONG: reason`; the check counts these exemptions.
# Files of 500 lines (tests, whose cases are tables: 600) are long: a longer one says in its first 12 lines why it reads
# better in one piece.
#   check_sizes.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# Relies on the format that check_format.sh enforces: the "{" and "}" of a function stand alone at the
# start of a line.
check() {
    (cd "$1" && find src include tests examples -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' 2>/dev/null | sort) | (
        cd "$1" && xargs awk -v most_exempt="$most_exempt" '
        FNR == 1 { end_file(); file = FILENAME; long_file = 0; inside = 0 }
        FNR <= 12 && /^\/\/ LONG: ./ { long_file = 1 }
        /^\{$/ { inside = before !~ /^namespace/; start = FNR; long = 0 }
        inside && /^ +\/\/ LONG: ./ { long = 1; exempt++ }
        /^}/ {
            if (inside && FNR - start - 1 > 60 && !long)
                say(file ":" start ": a function of " FNR - start - 1 " lines; valid is at most 60")
            inside = 0
        }
        { lines = FNR; before = $0 }
        function end_file(most) {
            most = file ~ /^tests\// ? 600 : 500
            if (file != "" && lines > most && !long_file)
                say(file ": " lines " lines; valid is at most " most ", or a line // LONG: reason")
        }
        function say(what) { print what; bad = 1 }
        END {
            end_file()
            if (exempt > most_exempt) say(exempt " exemptions; valid are at most " most_exempt)
            exit bad
        }'
    )
}

most_exempt=1
mkdir -p "$scratch/tree/src/base"
# body LINES [FIRST LINE]: a function of that many lines.
body() {
    printf 'int f(void)\n{\n%s' "${2-}"
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "    x();" }'
    printf '}\n'
}
body 60 >"$scratch/tree/src/base/a.c"
control_passes "$scratch/tree"
body 61 >"$scratch/tree/src/base/a.c"
control_fails "$scratch/tree" 'a function of 61 lines'
body 61 '    // LONG: one table
' >"$scratch/tree/src/base/a.c"
control_passes "$scratch/tree"
cp "$scratch/tree/src/base/a.c" "$scratch/tree/src/base/b.c"
control_fails "$scratch/tree" '2 exemptions'
rm "$scratch/tree/src/base/b.c"
body 61 >"$scratch/tree/src/base/b.cu"
control_fails "$scratch/tree" 'b.cu:2: a function of 61 lines'
rm "$scratch/tree/src/base/b.cu"
awk 'BEGIN { for (i = 0; i < 501; i++) print "// text" }' >"$scratch/tree/src/base/a.c"
control_fails "$scratch/tree" '501 lines'

most_exempt=0
control_verdict "files and functions have their size"
