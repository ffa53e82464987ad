#!/bin/sh
# A struct has at most 25 members; a larger one is grouped into structs of one job each. Every
# declarator counts: `int a, b;` is two members. A nested struct is one member of the outer one, and
# its own members count for itself. Unions keep the same limit.
#   check_structs.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# The scan goes from one of { } ( ) [ ] , ; to the next and keeps a stack of the open braces. `since`
# is the text since the last { } or ; and says at a "{" whether it opens a struct.
check() {
    (cd "$1" && find src include -name '*.[ch]' 2>/dev/null | sort) | (
        cd "$1" && xargs awk '
        FNR == 1 { depth = parens = in_comment = macro = 0; since = "" }
        {
            line = $0
            if (macro || line ~ /^[ \t]*#/) { macro = line ~ /\\$/; next }
            gsub(/\\./, "", line)
            gsub(/"[^"]*"|\047[^\047]*\047/, "0", line)
            sub(/\/\/.*/, "", line)
            while (in_comment || line ~ /\/\*/) {
                if (in_comment) {
                    if (!(place = index(line, "*/"))) { line = ""; break }
                    line = substr(line, place + 2)
                    in_comment = 0
                } else {
                    place = index(line, "/*")
                    since = since substr(line, 1, place - 1)
                    line = substr(line, place + 2)
                    in_comment = 1
                }
            }
            while (match(line, /[][{}(),;]/)) {
                since = since substr(line, 1, RSTART - 1)
                one = substr(line, RSTART, 1)
                line = substr(line, RSTART + 1)
                if (one == "(" || one == "[") parens++
                else if (one == ")" || one == "]") parens--
                else if (one == ",") { if (!parens) members[depth]++ }
                else if (one == ";") { if (!parens) members[depth]++; since = "" }
                else if (one == "{") {
                    depth++
                    is_struct[depth] = since ~ /(^|[ \t])(struct|union)([ \t]+[A-Za-z_0-9]+)?[ \t]*$/
                    name[depth] = since
                    start[depth] = FNR
                    members[depth] = 0
                    outer_parens[depth] = parens
                    parens = 0
                    since = ""
                } else {
                    if (is_struct[depth] && members[depth] > 25) {
                        sub(/^[ \t]+/, "", name[depth])
                        print FILENAME ":" start[depth] ": " name[depth] ": " members[depth] \
                            " members; valid are at most 25"
                        bad = 1
                    }
                    parens = outer_parens[depth--]
                    since = ""
                }
            }
            since = since line " "
        }
        END { exit bad }'
    )
}

mkdir -p "$scratch/tree/src/base"
# members N: N members of one line each.
members() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "    int m" i "; // one, of many; {" }'
}
# tree LINES: a file of that text.
tree() {
    printf '%s\n' "$1" >"$scratch/tree/src/base/a.c"
}

tree "typedef struct a {
$(members 23)
    int b, c[2];
} a;"
control_passes "$scratch/tree"
tree "typedef struct a {
$(members 23)
    int b, c[2], *d;
} a;"
control_fails "$scratch/tree" 'typedef struct a : 26 members'
# A function pointer is one member, however many arguments it takes.
tree "struct ops {
$(members 24)
    int (*call)(int a, int b,
                int c);
};"
control_passes "$scratch/tree"
# A nested struct counts as one member, and its own members are counted too.
tree "struct outer {
$(members 24)
    struct {
$(members 25)
    } inner;
};"
control_passes "$scratch/tree"
tree "struct outer {
    struct {
$(members 26)
    } inner;
};"
control_fails "$scratch/tree" '26 members'
# Statements are no members.
tree "static void f(void)
{
    struct a x = {1};
$(members 26)
}"
control_passes "$scratch/tree"

control_verdict "no struct has more than 25 members"
