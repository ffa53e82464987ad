#!/bin/bash
# doctor_pairs.sh -- `trireme doctor --active` on network namespaces that stand for hosts: all pairs are measured, and planted
# faults are named.
#   bash bench/doctor_pairs.sh build/trireme [HOSTS [RATE]]
# HOSTS is 16 by default, RATE that of each host's interface, such as 200mbit (without it the interfaces are as fast as
# the machine). Where RATE is given, host 5 gets a tenth of it. It needs root, ip and tc, and prints the seconds and the findings.
set -eu
trireme=$(realpath "$1")
hosts=${2:-16} rate=${3-}
net=trd$$ work=$(mktemp -d)
clear_up() {
    for n in $(seq 0 "$hosts"); do ip netns del "$net-$n" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clear_up EXIT
ip netns add "$net-0"
ip -n "$net-0" link add bridge type bridge
ip -n "$net-0" link set bridge up
for n in $(seq "$hosts"); do
    ip netns add "$net-$n"
    ip -n "$net-0" link add "to-$n" type veth peer name net netns "$net-$n"
    ip -n "$net-0" link set "to-$n" master bridge up
    ip -n "$net-$n" link set lo up
    ip -n "$net-$n" link set net up
    ip -n "$net-$n" address add 10.79.0.$n/24 dev net
    [ -z "$rate" ] || tc -n "$net-$n" qdisc add dev net root tbf rate "$rate" burst 128kb limit 1mb
done
if [ -n "$rate" ] && [ "$hosts" -ge 5 ]; then
    tc -n "$net-5" qdisc replace dev net root tbf rate "$((${rate%mbit} / 10))mbit" burst 32kb limit 256kb
fi
umask 077
head -c 32 /dev/urandom | base64 >"$work/secret"
export TRIREME_SECRET_FILE=$work/secret MASTER_ADDR=10.79.0.1 MASTER_PORT=29500 WORLD_SIZE=$hosts LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
start() { # HOST: in the background, with a name of its own
    exec ip netns exec "$net-$1" unshare --uts sh -c 'hostname "host$0" && exec "$@"' "$1" \
        env RANK=$(($1 - 1)) GROUP_RANK=$(($1 - 1)) "$trireme" doctor --active --json
}
began=${EPOCHREALTIME/./}
for n in $(seq 2 "$hosts"); do start "$n" >"$work/out.$n" 2>&1 & done
code=0
(start 1) >"$work/out.1" 2>"$work/error.1" || code=$?
ended=${EPOCHREALTIME/./}
wait
cat "$work/error.1"
printf '%d hosts, %d pairs measured in %d.%03d s, exit code %d\n' "$hosts" \
    "$(grep -o '"latency_us"' "$work/out.1" | wc -l)" $(((ended - began) / 1000000)) $(((ended - began) / 1000 % 1000)) "$code"
grep -o '"out_gbits": *[0-9.]*' "$work/out.1" | grep -o '[0-9.]*$' | sort -n |
    awk '{v[NR] = $1} END {printf "Gb/s of a pair: %.3g lowest, %.3g median, %.3g highest\n", v[1], v[int((NR + 1) / 2)], v[NR]}'
grep -oE '"issue": *"[^"]* Gb/s with [^"]*"' "$work/out.1" | sed 's/^"issue": *"//; s/"$//' || true
