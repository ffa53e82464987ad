#!/bin/bash
# between_hosts.sh -- compares the communicators tls and ucx over TCP between two network namespaces, alternating.
#   bash bench/between_hosts.sh build/trireme [ROUNDS [RATE]]
# RATE limits the link, such as 1gbit. It needs root and ip. Each line: size, communicator, medians of the rounds' times
# in microseconds and of their bandwidth in GB/s (algbw of `trireme bench all_reduce`, out of place).
set -eu
trireme=$(realpath "$1")
rounds=${2:-5} rate=${3-}
net=trb$$ work=$(mktemp -d)
clear_up() {
    for n in a b; do ip netns del "$net-$n" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clear_up EXIT
for n in a b; do ip netns add "$net-$n"; done
ip -n "$net-a" link add net type veth peer name net netns "$net-b"
number=1
for n in a b; do
    ip -n "$net-$n" link set lo up
    ip -n "$net-$n" link set net up
    ip -n "$net-$n" address add 10.78.0.$number/24 dev net
    [ -z "$rate" ] || tc -n "$net-$n" qdisc add dev net root tbf rate "$rate" burst 128kb limit 4mb
    number=$((number + 1))
done
umask 077
head -c 32 /dev/urandom | base64 >"$work/secret"
export TRIREME_SECRET_FILE=$work/secret MASTER_ADDR=10.78.0.1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 UCX_TLS=tcp,self
port=29600

one() { # COMM ARGUMENTS...: appends "size us GB/s" of each row
    local comm=$1
    shift
    port=$((port + 1))
    ip netns exec "$net-b" env RANK=1 GROUP_RANK=1 MASTER_PORT=$port "$trireme" bench all_reduce --device cpu --comm "$comm" "$@" >/dev/null 2>&1 &
    ip netns exec "$net-a" env RANK=0 GROUP_RANK=0 MASTER_PORT=$port "$trireme" bench all_reduce --device cpu --comm "$comm" "$@" 2>/dev/null |
        awk '/^ *[0-9]/ {print $1, $6, $7}' >>"$work/$comm"
    wait $!
}
for _ in $(seq "$rounds"); do
    for comm in tls ucx; do
        [ -n "$rate" ] || one $comm -b 8 -e 8 -n 500 -c 0
        [ -n "$rate" ] || one $comm -b 64K -e 64K -n 100 -c 0
        one $comm -b 8M -e 32M -f 2 -n 5 -c 0
    done
done
for size in 8 65536 8388608 16777216 33554432; do
    for comm in tls ucx; do
        awk -v size=$size '$1 == size {print $2, $3}' "$work/$comm" | sort -n |
            awk -v size=$size -v comm=$comm '{us[NR] = $1; bw[NR] = $2}
                END {if (NR) print size, comm, us[int((NR + 1) / 2)], bw[int((NR + 1) / 2)], NR " rounds"}'
    done
done
