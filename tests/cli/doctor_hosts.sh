# doctor_hosts.sh -- `trireme doctor` on three hosts: network namespaces with names and addresses of their own, joined by a
# bridge. Planted: a slow link, a host that does not answer, a name that nobody knows, and a port on which nobody listens.
# doctor --hosts starts itself through an ssh of the test. The namespaces need root, ip and unshare; the rest does not.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT TRIREME_SECRET_FILE
umask 077
head -c 32 /dev/urandom | base64 >secret

# ---- Through ssh
mkdir bin
cat >bin/ssh <<'END'
#!/bin/bash
while [ "${1#-}" != "$1" ]; do
    case $1 in -o | -p) shift 2 ;; *) shift ;; esac
done
[ "$1" != lost ] || exit 255
printf '%s\n' "$2" >"command-$1"
exec sh -c "$2" < <(tee "secret-$1")
END
chmod +x bin/ssh
host=$(own_address)
PATH=$PWD/bin:$PATH run "$trireme" doctor --hosts "$host,b,c" --json
[ "$code" = 0 ] || [ "$code" = 2 ] || fail "exit code $code: $(cat stderr)"
[ "$(grep -o '"host": *"[^"]*"' stdout | sort | tr -d ' \n')" = "\"host\":\"$host\"\"host\":\"allhosts\"\"host\":\"b\"\"host\":\"c\"" ] ||
    fail "hosts: $(grep -o '"host": *"[^"]*"' stdout)"
expect_line ' --secret-file - ' command-b
expect_line '^[0-9a-f]{64}$' secret-b
! grep -qFf secret-b command-b || fail 'the secret is in the command line'
printf '%s slots=4\nlost slots=4\n' "$host" >hostfile
PATH=$PWD/bin:$PATH run "$trireme" doctor --hostfile hostfile --timeout 1s
expect_exit 2
expect_line '^trireme: warning: doctor: ssh to host lost failed$'
expect_line '^error host-missing: lost did not come within 1 s$' stdout
refused 2 '^trireme: doctor: --hosts: found an empty or too long name; valid: a,b,c$' "$trireme" doctor --hosts a,,b
refused 2 '^trireme: doctor: --hosts and --hostfile exclude each other$' "$trireme" doctor --hosts a --hostfile hostfile

# ---- Nobody listens on the port of the store
export LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
refused 1 "^trireme: doctor: host .*: rank 0's host did not answer on $host:29507 within 1 s: the connection was refused: the host is there, but nobody listens on this port, or a firewall rejects it$" \
    env RANK=1 WORLD_SIZE=2 GROUP_RANK=1 MASTER_ADDR="$host" MASTER_PORT=29507 "$trireme" doctor --timeout 1s

# ---- Namespaces
net=trh$$
done_here() {
    echo "not tested: $1"
    finish
}
[ "$(id -u)" = 0 ] || done_here 'only root can make network namespaces'
command -v ip unshare >/dev/null || done_here 'ip and unshare are not there'
ip netns add "$net-switch" 2>/dev/null || done_here 'this machine makes no network namespaces'
clear_up() {
    local n
    for n in switch alpha beta gamma; do ip netns del "$net-$n" 2>/dev/null; done
    cd / && rm -rf "$scratch"
}
trap clear_up EXIT
ip -n "$net-switch" link add bridge type bridge 2>/dev/null || done_here 'this machine makes no bridges'
ip -n "$net-switch" link set bridge up
number=1
for n in alpha beta gamma; do
    ok ip netns add "$net-$n"
    ok ip -n "$net-switch" link add "to-$n" type veth peer name net netns "$net-$n"
    ok ip -n "$net-switch" link set "to-$n" master bridge up
    ok ip -n "$net-$n" link set lo up
    ok ip -n "$net-$n" link set net up
    ok ip -n "$net-$n" address add 10.78.1.$number/24 dev net
    number=$((number + 1))
done
[ "$failures" = 0 ] || finish
export TRIREME_SECRET_FILE=$scratch/secret MASTER_ADDR=10.78.1.1 MASTER_PORT=29500 WORLD_SIZE=3
printf '127.0.0.1 localhost\n10.78.1.1 alpha\n10.78.1.2 beta\n' >known # and not gamma

doctor_3() { # ARGUMENTS...: the output of rank 0 is in stdout and stderr, its exit code in $code
    local rank=2 n pids=()
    for n in gamma beta; do
        ip netns exec "$net-$n" unshare --uts --mount sh -c 'hostname "$0" && mount --bind known /etc/hosts && exec "$@"' "$n" \
            env RANK=$rank GROUP_RANK=$rank "$trireme" doctor "$@" >stdout.$rank 2>stderr.$rank </dev/null &
        pids+=($!)
        rank=$((rank - 1))
    done
    run ip netns exec "$net-alpha" unshare --uts --mount sh -c 'hostname "$0" && mount --bind known /etc/hosts && exec "$@"' alpha \
        env RANK=0 GROUP_RANK=0 "$trireme" doctor "$@"
    wait "${pids[@]}"
}

if command -v tc >/dev/null && tc -n "$net-gamma" qdisc add dev net root tbf rate 40mbit burst 32kb limit 128kb 2>/dev/null; then
    doctor_3 --active --timeout 120s
    [ "$code" = 0 ] || [ "$code" = 2 ] || fail "exit code $code: $(cat stderr)"
    expect_line '^warning host-link: gamma has at most 0\.0[0-9]+ Gb/s with each other host; the best pair is [0-9.e+]+ Gb/s$' stdout
    expect_line '^warning host-lookup: the name gamma is not known on hosts alpha, beta(, gamma)?$' stdout
    expect_no_line '^error (host-|pair-)' stdout
    expect_none 'another host prints' "$(cat stdout.[12] stderr.[12])"
    tc -n "$net-gamma" qdisc del dev net root
else
    echo 'not tested: a slow link (this machine has no tc, or its kernel no tbf)'
fi

# A host that does not answer: its link is down.
ok ip -n "$net-switch" link set to-beta down
doctor_3 --active --timeout 3s
expect_exit 2
expect_line '^error host-missing: the process of rank 1 did not come within 3 s$' stdout
expect_line "^trireme: doctor: host beta: rank 0's host did not answer on 10.78.1.1:29500 within 3 s: (nothing came back|No route to host)" stderr.1
expect_none 'gamma prints' "$(cat stdout.2 stderr.2)"
finish
