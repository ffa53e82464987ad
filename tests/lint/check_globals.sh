#!/bin/sh
# No mutable globals: no object of Trireme's libraries has a variable in .data, .bss or their
# thread-local kin. Tables of constants (.rodata, .data.rel.ro) are fine.
#   check_globals.sh FOLDER     a build folder
set -eu
. "$(dirname "$0")/control.sh"

check() {
    # libt_*.a hold everything but src/cmd/, whose objects stand beside them.
    find "$1" -name 'libt_*.a' -o -path '*commands.dir*' -name '*.o' | sort >"$scratch/objects"
    if [ ! -s "$scratch/objects" ]; then
        echo "$1: no libt_*.a in it"
        return 1
    fi
    xargs objdump -t <"$scratch/objects" | awk '
        /file format/ { object = $1 }
        $2 == "l" && $3 == "d" { next } # the section itself
        /[ \t](\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && !/\.data\.rel\.ro/ { print object " " $0; bad = 1 }
        END { exit bad }'
}

# tree NAME CODE: a library of one object.
tree() {
    mkdir -p "$scratch/$1"
    printf '%s\n' "$2" >"$scratch/$1/a.c"
    cc -fPIC -c -o "$scratch/$1/a.o" "$scratch/$1/a.c"
    ar rc "$scratch/$1/libt_a.a" "$scratch/$1/a.o"
}

tree good 'static const char *const words[] = {"a", "b"}; const char *f(int i) { return words[i]; }'
control_passes "$scratch/good"
tree data 'int counter = 3;'
control_fails "$scratch/data" counter
tree bss 'int f(void) { static int calls; return ++calls; }'
control_fails "$scratch/bss" calls
tree thread 'static _Thread_local int mine; int *f(void) { return &mine; }'
control_fails "$scratch/thread" mine
tree common '__attribute__((common)) int shared;'
control_fails "$scratch/common" shared
mkdir "$scratch/empty"
control_fails "$scratch/empty" 'no libt_'

control_verdict "no library has a mutable global"
