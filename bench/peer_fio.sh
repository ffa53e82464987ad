#!/bin/sh
# Compares the file tier of offload with fio on the same disk: sequential write, then sequential read,
# with the same size, block, depth, O_DIRECT and io_uring. The rounds alternate A B A B … in one run, so
# that other load affects both alike. Prints each round, the medians and their ratios (goal: 0.85).
#
#   bench/peer_fio.sh DIR [ROUNDS [BYTES [BLOCK [DEPTH]]]]      defaults 5, 1Gi, 1Mi, 8
#
# TRIREME names the program (build/trireme). Installs Debian's fio where it is missing. Exit codes:
# 0 both ratios reach 0.85, 1 not, 2 bad usage.
set -eu
cd "$(dirname "$0")/.."
. tools/packages.sh

if [ $# -lt 1 ] || [ $# -gt 5 ] || [ ! -d "$1" ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
folder=$1 rounds=${2:-5} bytes=${3:-1Gi} block=${4:-1Mi} depth=${5:-8}
trireme=${TRIREME:-build/trireme}
packages_require fio

scratch=$(mktemp -d "$folder/peer-fio-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# "write read" in GB/s.
by_trireme() {
    "$trireme" bench tier --path "$scratch" --bytes "$bytes" --block "$block" --depth "$depth" --json |
        sed 's/.*"write_gb_per_s":\([^,]*\),"read_gb_per_s":\([^,]*\),.*/\1 \2/'
}

# One pass of fio in GB/s; its third version of terse output holds KiB/s in fields 7 (read) and 48.
fio_pass() {
    fio --name=tier --filename="$scratch/fio" --rw="$1" --size="$bytes" --bs="$block" --iodepth="$depth" \
        --ioengine=io_uring --direct=1 --output-format=terse --terse-version=3 |
        awk -F ';' -v field="$2" '{ printf "%.4g", $field * 1024 / 1e9 }'
}

# A new file each time, as the tier has one; fio reserves its space before it starts its clock.
by_fio() {
    rm -f "$scratch/fio"
    echo "$(fio_pass write 48) $(fio_pass read 7)"
    rm -f "$scratch/fio"
}

echo "GB/s in $folder ($(df --output=fstype "$folder" | tail -n 1)): $bytes in blocks of $block, $depth at a time"
printf '%-8s %10s %10s %10s %10s\n' round 'tier write' 'fio write' 'tier read' 'fio read'
for round in $(seq "$rounds"); do
    set -- $(by_trireme) $(by_fio)
    printf '%-8s %10s %10s %10s %10s\n' "$round" "$1" "$3" "$2" "$4"
    echo "$1 $3 $2 $4" >>"$scratch/rounds"
done
median() {
    cut -d ' ' -f "$1" "$scratch/rounds" | sort -g |
        awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'
}
set -- "$(median 1)" "$(median 2)" "$(median 3)" "$(median 4)"
printf '%-8s %10s %10s %10s %10s\n' median "$@"
echo "$@" | awk '{
    printf "ratio    write %.3f  read %.3f  (wanted: 0.85)\n", $1 / $2, $3 / $4
    exit $1 / $2 < 0.85 || $3 / $4 < 0.85
}'
