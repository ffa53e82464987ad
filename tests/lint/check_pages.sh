#!/bin/sh
# Pages of prose are readable in an editor, and their names exist.
# - Prose wraps at 100 columns. Tables, blocks of commands, headings and marks may be longer.
# - On ARCHITECTURE.md and docs/adding-*.md each name in back-quotes with an underscore, and each file of
#   C, exists in the tree. NAME and FILE in a name stand for a reader's own.
#   check_pages.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

pages() {
    (cd "$1" && ls -- *.md docs/*.md examples/*.md 2>/dev/null)
}

# The words of all sources, and the stems of their files, sorted.
known() {
    (cd "$1" && find src include tests tools examples -type f -size -400k 2>/dev/null | grep -vE '/(golden|corpus)/' | {
        while IFS= read -r file; do
            printf '%s\n' "$file" | tr './' '\n\n'
            printf '%s\0' "$file" >&3
        done 3>"$scratch/files"
        xargs -0 cat <"$scratch/files"
    }) | LC_ALL=C grep -aoE '[A-Za-z_][A-Za-z0-9_]+' | LC_ALL=C sort -u
}

# The text in back-quotes outside of blocks.
quoted() {
    awk '/^ *```/ { inside = !inside; next } !inside' "$1" | grep -oE '`[^`]+`' | tr -d '`'
}

check() {
    bad=0
    for page in $(pages "$1"); do
        # A character counts once, and text in back-quotes is one word.
        LC_ALL=C sed 's/[\x80-\xbf]//g' "$1/$page" | awk -v page="$page" '
            /^ *```/ { inside = !inside; next }
            /^<!--/ { mark = 1 }
            mark || inside || /^ *[|#<]/ { if (/-->/) mark = 0; next }
            length($0) > 100 {
                n = split($0, part, "`")
                line = ""
                for (i = 1; i <= n; i++) { if (i % 2 == 0) gsub(/ /, "_", part[i]); line = line part[i] "`" }
                sub(/^ *([-*+] |[0-9]+[.)] )?/, "", line)
                if (line ~ /[^ ] [^ ]/) { print page ":" FNR ": " length($0) " columns; at most 100 are valid"; bad = 1 }
            }
            END { exit bad }' || bad=1
    done
    known "$1" >"$scratch/known"
    for page in $(pages "$1" | grep -E '^(ARCHITECTURE|docs/adding-.*)\.md$'); do
        for name in $(quoted "$1/$page" | grep -oE '[A-Za-z_][A-Za-z0-9_]*_[A-Za-z0-9_]+' | grep -vE 'NAME|FILE' |
            LC_ALL=C sort -u | LC_ALL=C comm -23 - "$scratch/known"); do
            echo "$page: \`$name\` is not in the tree" && bad=1
        done
        for file in $(quoted "$1/$page" | grep -oE '^[a-z0-9_/]+/[a-z0-9_]+\.(c|h|cu|sh)\b' | sort -u); do
            [ -e "$1/$file" ] || [ -e "$1/src/$file" ] || { echo "$page: \`$file\` is not in the tree" && bad=1; }
        done
    done
    return $bad
}

page() { # TEXT
    mkdir -p "$scratch/tree/docs" "$scratch/tree/src/base"
    echo 'void base_work(void);' >"$scratch/tree/src/base/work.h"
    printf '%s\n' "$1" >"$scratch/tree/docs/adding-a-thing.md"
}
long=$(printf '%0100d' 0 | tr 0 w)
page "One calls \`base_work\` of \`base/work.h\`, and writes \`thing_NAME\`."
control_passes "$scratch/tree"
page "Prose $long"
control_fails "$scratch/tree" 'docs/adding-a-thing.md:1: 106 columns'
page "$(printf '| %s |\n```sh\n%s %s\n```\n' "a $long" "$long" "$long")"
control_passes "$scratch/tree"
page "One calls \`base_rest\`."
control_fails "$scratch/tree" '`base_rest` is not in the tree'
page "See \`base/rest.h\`."
control_fails "$scratch/tree" '`base/rest.h` is not in the tree'

control_verdict "prose has at most 100 columns, and the names of its code exist"
