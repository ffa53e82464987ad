# other_user.sh -- another user of this machine gets into no run on loopback that has no secret of its own: not among the
# agents, not among the ranks of several hosts, not into a benchmark's server. The run goes on undisturbed. It needs root,
# which alone can become another user.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TRIREME_SECRET_FILE
skip() {
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip 'only root can become another user'
command -v setpriv >/dev/null || skip 'setpriv is not there'
chmod 755 "$scratch"
cp "$trireme" program
mkdir theirs
chown 65534:65534 theirs
host=$(own_address)

as_other() { # COMMAND...: in a folder of its own; its output lies in theirs.out
    (cd theirs && timeout 240 setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$PWD" "$@" >../theirs.out 2>&1 </dev/null)
    code=$?
}
expect_refused() {
    expect_exit 2
    expect_line "$1" theirs.out
    expect_lines 1 theirs.out
}

# ---- Agents: the other user comes as node 1 before the user's own does.
cat >hello.sh <<'END'
#!/bin/sh
echo "rank $RANK of $WORLD_SIZE" >>"$1"
END
chmod 755 hello.sh
agent() { # NODE
    timeout 240 "$trireme" run --nnodes 2 --node-rank "$1" --master-addr "$host" --master-port 29771 \
        ./hello.sh "$scratch/ranks" >agent.$1 2>&1 </dev/null &
    agents[$1]=$!
}
listens() { # PORT: waits until something listens there
    local deadline=$(($(now_ms) + 200000))
    until grep -q ":$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp; do
        [ "$(now_ms)" -lt "$deadline" ] || {
            fail "nobody listens at port $1"
            return
        }
        sleep 0.02
    done
}
agent 0
listens 29771
as_other ../program run --nnodes 2 --node-rank 1 --master-addr "$host" --master-port 29771 ../hello.sh ranks
expect_refused 'it is a process of another user of this machine'
# It is refused with a secret of its own, too.
printf 'a secret of the other user\n' >theirs/secret
chmod 600 theirs/secret
chown 65534:65534 theirs/secret
as_other ../program run --nnodes 2 --node-rank 1 --master-addr "$host" --master-port 29771 --secret-file secret ../hello.sh ranks
expect_refused 'it is a process of another user of this machine'
agent 1
for node in 0 1; do wait "${agents[$node]}" || fail "node $node ended with $?: $(cat agent.$node)"; done
[ "$(sort ranks | tr '\n' ' ')" = 'rank 0 of 2 rank 1 of 2 ' ] || fail "ranks: $(cat ranks)"
expect_no_file theirs/ranks

# ---- A server of a benchmark
"$trireme" bench link --serve "$host:0" >served 2>said &
server=$!
wait_for_line '^listening on ' served
as_other ../program bench link "$(sed -n 's/^listening on //p' served)" -e 8
expect_refused 'it is a process of another user of this machine'
ok "$trireme" bench link "$(sed -n 's/^listening on //p' served)" -e 8
wait $server || fail "the server ended with $?"
expect_line '127\..* was refused: it is a process of another user of this machine$' said

# ---- Ranks of two hosts
make_data
make_job
sed -i '/^launch:/d' job.yaml
cp toy* job.yaml theirs/ && chown -R 65534:65534 theirs
rank() { # RANK, PROGRAM with arguments...
    local r=$1
    shift
    env RANK="$r" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR="$host" MASTER_PORT=29772 \
        TRIREME_ATTACH_TIMEOUT=100s "$@"
}
rank 0 timeout 240 "$trireme" train job.yaml --quiet >stdout.0 2>stderr.0 </dev/null &
first=$!
listens 29772
as_other env RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR="$host" MASTER_PORT=29772 \
    TRIREME_ATTACH_TIMEOUT=100s ../program train job.yaml --quiet
expect_refused 'it is a process of another user of this machine'
rank 1 timeout 240 "$trireme" train job.yaml --quiet >stdout.1 2>stderr.1 </dev/null || fail "rank 1 ended with $?: $(cat stderr.1)"
wait $first || fail "rank 0 ended with $?: $(cat stderr.0)"
expect_steps out 8
finish
