# checks.sh TRIREME -- what the scripts that kill ranks take for left behind, and which lines they take for the line of a killed rank.
soak=$(realpath "${0%/*}")
. "${0%/*}/../cli/lib.sh" "$(realpath "$1")"
. "$soak/lib.sh"

# A file of the process that called this script, as the log of ctest in a checkout below /tmp; and one that the run opens itself.
inherited=$(mktemp /tmp/soak-inherited.XXXXXX)
own=$(mktemp /tmp/soak-own.XXXXXX)
exec {log}>"$inherited"
sleep 600 {kept}>"$own" &
sleeper=$!
found=$(names_of $sleeper)
[ "$found" = "$own" ] || fail "names of a run that opened $own and inherited $inherited: $found"
kill $sleeper
{ wait $sleeper; } 2>/dev/null
rm -f "$inherited" "$own"

accepts() { # YES-OR-NO LINE
    local found=no
    [[ $2 =~ ^$killed_line$ ]] && found=yes
    [ $found = "$1" ] || fail "expected $1: $2"
}
accepts yes 'was killed by signal 9 (Killed)'
accepts yes 'was killed by signal 9 (Killed); its last call is all_gather 3 over world, completed 0.0 s ago'
accepts yes 'was killed by signal 9 (Killed); it was in FORWARD micro 0 block 1'
accepts yes 'was killed by signal 9 (Killed); it was in no step; its last call is all_reduce 12 over dp, started 0.1 s ago'
accepts no 'was killed by signal 11 (Segmentation fault)'
accepts no 'was killed by signal 9 (Killed); its last call is unknown'
accepts no 'was killed by signal 9 (Killed); the flight recorder was not written'
finish
