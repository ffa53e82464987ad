# lib.sh -- what the scripts that kill ranks share. They source it after cli/lib.sh.
export TMPDIR=$scratch/tmp
mkdir tmp
mkfifo said never
exec {never}<>never # a read that only waits

wait_ms() {
    [ "$1" = 0 ] || read -rt "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))" -u "$never"
}
now_us() {
    printf '%s' "${EPOCHREALTIME/./}"
}
# The words after "rank R (pid P) ". A rank that dies before its first instruction was in none, but may have made calls.
killed_line='was killed by signal 9 \(Killed\)(; it was in [A-Zn][^;]*)?(; its last call is [a-z_]+ [0-9]+[^;]*, (issued|started|completed) [0-9.]+ s ago)?'
# Names in /dev/shm and /tmp of files that processes have open or mapped, but that of the user's secret, which stays.
open_names() { # PID...
    local pid
    for pid in "$@"; do
        { cat "/proc/$pid/maps" && ls -l "/proc/$pid/fd"; } 2>/dev/null
    done | grep -oE '/(dev/shm|tmp)/[^ ]+( \(deleted\))?$' | grep -v -e '(deleted)$' -e "^$scratch/" -e "/trireme-$(id -u)/secret$" | sort -u
}
# Those that the processes of a run have opened: not the program, and no file that this script passed on, as the log of ctest.
names_of() { # PID...
    comm -23 <(open_names "$@") <({ open_names $$ && printf '%s\n' "$trireme"; } | sort -u)
}
# Reads what the run prints, until all of its processes have closed it. Sets $lines, and the times of the first line and of the last.
read_said() {
    local line
    lines=()
    first_us=0 last_us=0
    while IFS= read -rt $HANG_S -u "$from" line; do
        last_us=$(now_us)
        [ ${#lines[@]} != 0 ] || first_us=$last_us
        lines+=("$line")
    done
    [ $? -le 128 ] # above it: the time was over
}
# The median and the greatest of some numbers of microseconds, in milliseconds.
median_worst() {
    printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { printf "median %.1f ms, worst %.1f ms", v[int((NR + 1) / 2)] / 1000, v[NR] / 1000 }'
}
