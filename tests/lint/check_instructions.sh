#!/bin/sh
# The table of instructions (src/parallel/instructions.c) is complete, and no other file decides by
# the kind of an instruction. A kind without a row, a row or an effect without one of its fields,
# and a kind that train/ cannot execute do not compile.
#   check_instructions.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

header=src/parallel/schedule.h table=src/parallel/instructions.c executor=src/train/step.c

check() {
    kinds=$(sed -n 's/^    KIND(\([A-Z_]*\), [a-z_]*).*/\1/p' "$1/$header" | paste -sd '|' -)
    [ "$kinds" ] || { echo "$header: SCHEDULE_INSTRS lists no kind"; return 1; }
    if (cd "$1" && grep -rnE "(case|kind *([!=<>]=|[<>])) *($kinds)([^A-Za-z0-9_]|\$)" src --include='*.[ch]'); then
        echo "a file decides by the kind of an instruction"
        return 1
    fi
    for file in "$table" "$executor"; do
        "${CC:-cc}" -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I "$1/src" "$1/$file" || return 1
    done
}

# A tree with one more kind, whose row is $1 and whose line in SCHEDULE_INSTRS is $2.
grow() {
    rm -rf "$scratch/tree"
    mkdir "$scratch/tree"
    cp -r "$root/src" "$scratch/tree/src"
    printf '%s\n' "$1" >"$scratch/row"
    sed -i "s/^    KIND(SWAP_OUT, swap_out)/    $2 \\\\\\n&/" "$scratch/tree/$header"
    sed -i "/^#define ROW_OF/{
r $scratch/row
N
}" "$scratch/tree/$table"
}

line='KIND(NEW_KIND, swap_out)'
effect='READS(RES_AGREED, OF_THIS, IN_RESULT, ALWAYS)'

# The row of the new kind: all fields but number $1 (0: all), and the effect $2.
row() {
    left_out=$1 number=0 fields=
    for field in '"NEW_KIND"' STREAM_COPY ABOUT_STEP COMPUTES_NOTHING ALONE SENDS_NOTHING NO_HOST \
        'LINE("")' "EFFECTS($2)"; do
        number=$((number + 1))
        [ $number = "$left_out" ] || fields="$fields${fields:+, }$field"
    done
    echo "static const instr_row NEW_KIND_ROW = ROW($fields);"
}

grow "$(row 0 "$effect")" "$line"
control_passes "$scratch/tree"
for number in 1 2 3 4 5 6 7 8 9; do
    grow "$(row $number "$effect")" "$line"
    control_fails "$scratch/tree" ROW
done
for short in 'READS(RES_AGREED, OF_THIS, IN_RESULT)' 'WRITES(RES_AGREED, OF_THIS)'; do
    grow "$(row 0 "$short")" "$line"
    control_fails "$scratch/tree" EFFECTS
done
grow '' "$line"
control_fails "$scratch/tree" NEW_KIND_ROW
grow "$(row 0 "$effect")" 'KIND(NEW_KIND, new_kind)'
control_fails "$scratch/tree" run_new_kind
grow "$(row 0 "$effect")" "$line"
echo 'bool is_new(int kind) { return kind == NEW_KIND; }' >"$scratch/tree/src/train/new.c"
control_fails "$scratch/tree" 'decides by the kind'
control_verdict 'every kind of instruction has a complete row, and no other file decides by kind'
