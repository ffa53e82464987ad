#!/bin/sh
# The table of instructions (src/parallel/instructions.c) is complete, and no other file decides by
# the kind of an instruction. A kind without a row, a row without one of its fields, a kind without
# the function of its uses, and a kind that train/ cannot execute do not compile.
#   check_instructions.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

header=src/parallel/schedule.h table=src/parallel/instructions.c
effects=src/parallel/instr_effects.c executor=src/train/step.c

check() {
    kinds=$(sed -n 's/^    KIND(\([A-Z_]*\), [a-z_]*).*/\1/p' "$1/$header" | paste -sd '|' -)
    [ "$kinds" ] || { echo "$header: SCHEDULE_INSTRS lists no kind"; return 1; }
    if (cd "$1" && grep -rnE "(case|kind *([!=<>]=|[<>])) *($kinds)([^A-Za-z0-9_]|\$)" src --include='*.[ch]'); then
        echo "a file decides by the kind of an instruction"
        return 1
    fi
    for file in "$table" "$effects" "$executor"; do
        "${CC:-cc}" -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I "$1/src" "$1/$file" || return 1
    done
}

# A tree with one more kind, whose row is $1 and whose line in SCHEDULE_INSTRS is $2. Its functions are
# those of SWAP_OUT, but for those with a name of their own.
grow() {
    if [ ! -e "$scratch/tree" ]; then
        mkdir "$scratch/tree"
        cp -r "$root/src" "$scratch/tree/src"
    fi
    for file in "$header" "$table" "$effects"; do cp "$root/$file" "$scratch/tree/$file"; done
    printf '%s\n' "$1" >"$scratch/row"
    sed -i "s/^    KIND(SWAP_OUT, swap_out)/    $2 \\\\\\n&/" "$scratch/tree/$header"
    sed -i "/^#define ROW_OF/{
r $scratch/row
N
}" "$scratch/tree/$table"
}

line='KIND(NEW_KIND, swap_out)'

# The row of the new kind: all fields but number $1 (0: all).
row() {
    left_out=$1 number=0 fields=
    for field in NEW_KIND STREAM_COPY ABOUT_STEP COMPUTES_NOTHING ALONE PAYLOAD_NONE needs_nothing \
        print_nothing; do
        number=$((number + 1))
        [ $number = "$left_out" ] || fields="$fields${fields:+, }$field"
    done
    echo "ROW($fields);"
}

grow "$(row 0)" "$line"
control_passes "$scratch/tree"
for number in 1 2 3 4 5 6 7 8; do
    grow "$(row $number)" "$line"
    control_fails "$scratch/tree" ROW
done
grow '' "$line"
control_fails "$scratch/tree" NEW_KIND_ROW
grow "$(row 0)" 'KIND(NEW_KIND, new_kind)'
control_fails "$scratch/tree" use_new_kind
sed -i 's/^#define USES_OF/static void use_new_kind(uses *u) { (void)u; }\n&/' "$scratch/tree/$effects"
control_fails "$scratch/tree" run_new_kind
grow "$(row 0)" "$line"
echo 'bool is_new(int kind) { return kind == NEW_KIND; }' >"$scratch/tree/src/train/new.c"
control_fails "$scratch/tree" 'decides by the kind'
control_verdict 'every kind of instruction has a complete row, and no other file decides by kind'
