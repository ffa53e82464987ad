# deepspeed.sh -- `trireme deepspeed` with hostfiles and filters, on this host and on several through an ssh of the test,
# and `trireme launch`. The programs are shell scripts.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT CUDA_VISIBLE_DEVICES TRIREME_SECRET_FILE

program() { # NAME, lines on stdin
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

program env.sh <<'END'
echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_SIZE $CROSS_RANK $CROSS_SIZE $CUDA_VISIBLE_DEVICES $NCCL_WORD $*" >>ranks
END

expect_ranks() { # LINE...
    sort ranks >sorted
    printf '%s\n' "$@" | cmp -s - sorted || fail "ranks: $(cat sorted)"
    rm ranks
}

# ---- This host
run "$trireme" deepspeed --num_gpus 2 ./env.sh --lr 1
expect_exit 0
expect_ranks '0 2 0 2 0 1   --local_rank=0 --lr 1' '1 2 1 2 0 1   --local_rank=1 --lr 1'
run "$trireme" launch --nproc_per_node 2 ./env.sh --lr 1
expect_exit 0
expect_ranks '0 2 0 2 0 1   --local-rank=0 --lr 1' '1 2 1 2 0 1   --local-rank=1 --lr 1'
run "$trireme" launch --use_env ./env.sh
expect_exit 0
expect_ranks '0 1 0 1 0 1   '
printf '# comment\n\n%s slots=4 # four\n' "$(uname -n)" >one
run "$trireme" deepspeed -H one -i "$(uname -n):1,3" --no_local_rank ./env.sh
expect_exit 0
expect_ranks '0 2 0 2 0 1 1,3  ' '1 2 1 2 0 1 1,3  '
printf '127.0.0.1 slots=4\n' >address
run "$trireme" deepspeed -H address -i 127.0.0.1:1,3 --no_local_rank ./env.sh
expect_exit 0
expect_ranks '0 2 0 2 0 1 1,3  ' '1 2 1 2 0 1 1,3  '

# ---- Several hosts: the ssh of this test runs the command here, and writes down where it should have run it.
mkdir bin
program bin/ssh <<'END'
while [ "${1#-}" != "$1" ]; do
    case $1 in -o | -p) echo "$1 $2" >>ssh-arguments && shift 2 ;; *) shift ;; esac
done
echo "$1" >>hosts
echo $$ >"agent-$1"
printf '%s\n' "$2" >"command-$1"
exec sh -c "$2"
END
host=$(own_address)
# One host that is not this one is reached through ssh, too.
printf '192.0.2.1 slots=4\n' >one
PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H one --num_gpus 1 --master_addr "$host" ./env.sh
expect_exit 0
expect_ranks '0 1 0 1 0 1 0  --local_rank=0'
[ "$(cat hosts)" = 192.0.2.1 ] || fail "one other host: $(cat hosts)"
rm -f hosts ssh-arguments
printf 'a slots=2\nb slots=3\nc slots=1\n' >three
NCCL_WORD="a 'b' \$c" PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H three -e c@b:1 --master_addr "$host" \
    --master_port 29511 --ssh_port 2222 ./env.sh "x 'y' \$z"
expect_exit 0
expect_ranks "0 4 0 2 0 2 0,1 a 'b' \$c --local_rank=0 x 'y' \$z" "1 4 1 2 0 2 0,1 a 'b' \$c --local_rank=1 x 'y' \$z" \
    "2 4 0 2 1 2 0,2 a 'b' \$c --local_rank=0 x 'y' \$z" "3 4 1 2 1 2 0,2 a 'b' \$c --local_rank=1 x 'y' \$z"
[ "$(sort hosts | tr '\n' ' ')" = 'a b ' ] || fail "hosts: $(cat hosts)"
expect_line '^-p 2222$' ssh-arguments

# Each host gets the secret of the run by its standard input, on no command line. It is another one in each run.
program secret.sh <<'END'
cat "$TRIREME_SECRET_FILE" >"secret-$1-$RANK"
cat >"rest-$1-$RANK"
END
for round in 1 2; do
    rm -f command-*
    PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H three --num_nodes 2 --num_gpus 2 --no_local_rank --master_addr "$host" \
        --master_port 29511 ./secret.sh $round
    expect_exit 0
    for rank in 1 2 3; do expect_same secret-$round-0 secret-$round-$rank; done
    [ ! -s rest-$round-0 ] || fail "the workers read $(cat rest-$round-0)"
    for command in command-a command-b; do
        expect_line ' --secret-file - ' $command
        ! grep -qf secret-$round-0 $command || fail "the secret is in $command"
    done
done
expect_line '^[0-9a-f]{64}$' secret-1-0
! cmp -s secret-1-0 secret-2-0 || fail 'two runs have one secret'
# With a file, the hosts get its secret in the same way.
printf 'a secret of sufficient length\n' >of-user
chmod 600 of-user
for round in 3 4; do
    PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H three --num_nodes 1 --num_gpus 1 --force_multi --no_local_rank \
        --secret-file of-user --master_addr "$host" ./secret.sh $round
    expect_exit 0
done
expect_same secret-3-0 secret-4-0
! cmp -s secret-1-0 secret-3-0 || fail 'the secret of the file is not taken'
# The old line suffices where other hosts reach the address, too: here in a network of the test.
inside() { unshare -n sh -c 'ip link set lo up && ip address add 10.77.1.1/32 dev lo && exec "$@"' sh "$@"; }
if [ "$(id -u)" = 0 ] && inside true 2>/dev/null; then
    PATH=$PWD/bin:$PATH run unshare -n sh -c 'ip link set lo up && ip address add 10.77.1.1/32 dev lo && exec "$@"' sh \
        "$trireme" deepspeed -H three --num_nodes 2 --num_gpus 1 --master_addr 10.77.1.1 ./env.sh
    expect_exit 0
    expect_ranks '0 2 0 1 0 2 0  --local_rank=0' '1 2 0 1 1 2 0  --local_rank=0'
fi
rm -f hosts

# The end of the input ends `run` on a host, with its workers: ssh, or its user, is gone.
program waits.sh <<'END'
echo $$ >waiting
exec sleep 600
END
mkfifo input
timeout 240 "$trireme" run --secret-file - ./waits.sh <input >stdout 2>stderr &
waiting=$!
exec 7>input
printf 'a secret of sufficient length\n' >&7
wait_for_line '^[0-9]+$' waiting
exec 7>&-
wait $waiting
code=$?
expect_exit 129
expect_gone 10000 "$(cat waiting)"
for line in '' short; do
    timeout 240 "$trireme" run --secret-file - ./env.sh <<<"$line" >stdout 2>stderr
    code=$?
    expect_exit 2
    expect_line '--secret-file -: the standard input has a line of [05] bytes; valid are 16 to 4096'
done

# One pdsh for all hosts: this one runs the commands here, puts in the numbers of hosts and percent signs as pdsh does, and
# returns the largest exit code.
program bin/pdsh <<'END'
[ "$1 $2 $3 $4" = '-S -f 1024 -w' ] || { echo "unexpected: $*" >&2 && exit 9; }
echo "$PDSH_RCMD_TYPE $PDSH_SSH_ARGS_APPEND $5" >pdsh-arguments
node=0 pids=
for host in $(echo "$5" | tr ',' ' '); do
    sh -c "$(printf '%s' "$6" | sed "s/%%/\t/g; s/%n/$node/g; s/\t/%/g")" &
    pids="$pids $!" node=$((node + 1))
done
largest=0
for pid in $pids; do
    wait "$pid" || { code=$? && [ $code -le $largest ] || largest=$code; }
done
exit $largest
END
rm hosts
NCCL_WORD="a 'b' \$c" PATH=$PWD/bin:$PATH run "$trireme" deepspeed --launcher pdsh -H three -e c@b:1 \
    --master_addr "$host" --master_port 29511 --ssh_port 2222 ./env.sh "x 'y' 100 %n %%"
expect_exit 0
expect_ranks "0 4 0 2 0 2 0,1 a 'b' \$c --local_rank=0 x 'y' 100 %n %%" "1 4 1 2 0 2 0,1 a 'b' \$c --local_rank=1 x 'y' 100 %n %%" \
    "2 4 0 2 1 2 0,2 a 'b' \$c --local_rank=0 x 'y' 100 %n %%" "3 4 1 2 1 2 0,2 a 'b' \$c --local_rank=1 x 'y' 100 %n %%"
expect_line '^ssh -tt -o BatchMode=yes -p 2222 a,b$' pdsh-arguments
[ ! -e hosts ] || fail 'ssh was called, too'

# Without ssh the same line is started on each host.
for node in 1 0; do
    timeout 240 "$trireme" deepspeed -H three -e c@b:1 --no_ssh --no_ssh_check --node_rank $node --master_addr "$host" \
        --master_port 29512 -q ./env.sh >stdout.$node 2>stderr.$node </dev/null &
    nodes[node]=$!
done
for node in 0 1; do wait "${nodes[$node]}" || fail "node $node ended with $?: $(cat stderr.$node)"; done
expect_lines 0 stderr.0
expect_ranks "0 4 0 2 0 2 0,1  --local_rank=0" "1 4 1 2 0 2 0,1  --local_rank=1" "2 4 0 2 1 2 0,2  --local_rank=0" \
    "3 4 1 2 1 2 0,2  --local_rank=1"

# One host through ssh all the same, with variables of a file and a log of each rank. Python is a script of the test.
program bin/python3 <<'END'
echo "$NCCL_WORD $FROM_FILE $*" >>ranks
echo "out of $RANK"
END
mkdir home
printf '# words\n\nNCCL_WORD=of a file\nFROM_FILE=a=b '"'c'"'\n' >home/.deepspeed_env
rm -f hosts
NCCL_WORD=given HOME=$PWD/home PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H one --num_gpus 1 --force_multi --module \
    --enable_each_rank_log logs --master_addr 127.0.0.1 pack.age word
expect_exit 0
expect_ranks "of a file a=b 'c' -u -m pack.age --local_rank=0 word"
[ "$(cat hosts)" = 192.0.2.1 ] || fail "hosts: $(cat hosts)"
expect_line '^out of 0$' "$(echo logs/*/attempt_0/0/stdout.log)"
echo FROM_FILE=here >named
DS_ENV_FILE=named HOME=$PWD/home PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H one --num_gpus 1 --force_multi --no_python \
    --no_local_rank --master_addr 127.0.0.1 python3 word
expect_exit 0
expect_ranks ' here word'

# The number of the process, as long as it runs.
program pid.sh <<'END'
cat "/tmp/$PPID.deepspeed" >pid
END
"$trireme" deepspeed --num_gpus 1 --save_pid ./pid.sh >stdout 2>stderr </dev/null &
started=$!
wait $started || fail "--save_pid: $(cat stderr)"
[ "$(cat pid)" = $started ] || fail "process $started wrote $(cat pid)"
expect_no_file "/tmp/$started.deepspeed"
# An earlier process of the same number may have been killed.
run sh -c 'echo 1 >/tmp/$$.deepspeed; exec "$0" deepspeed --num_gpus 1 --save_pid ./pid.sh' "$trireme"
expect_exit 0
expect_no_file "/tmp/$(cat pid).deepspeed"

# A share of the cores of each host. One core is there on every machine.
core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
program cores.sh <<'END'
echo "$RANK $(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status) $OMP_NUM_THREADS" >>ranks
END
(unset OMP_NUM_THREADS && run "$trireme" deepspeed --num_gpus 1 --bind_cores_to_rank --bind_core_list "$core" ./cores.sh && expect_exit 0)
expect_ranks "0 $core 1"
OMP_NUM_THREADS=3 PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H three -i a:0@b:2 --master_addr "$host" --master_port 29511 \
    --bind_cores_to_rank --bind_core_list "$core" ./cores.sh
expect_exit 0
expect_ranks "0 $core 3" "1 $core 3"

# A failure on one host ends all.
program fails.sh <<'END'
[ "$RANK" != 2 ] || { echo 'no such layer' >&2; exit 7; }
exec sleep 600
END
PATH=$PWD/bin:$PATH run "$trireme" deepspeed -H three --num_nodes 2 --num_gpus 2 --master_addr "$host" \
    --master_port 29511 ./fails.sh
expect_exit 1
expect_line 'rank 2 \(host .*\) ended with exit code 7: no such layer'

# An elastic run goes on with the hosts that are left.
program lost.sh <<'END'
[ "$CROSS_SIZE" = 1 ] || { echo "$RANK" >>started && exec sleep 600; }
echo "$RANK $WORLD_SIZE $*" >>ranks
END
PATH=$PWD/bin:$PATH timeout 240 "$trireme" deepspeed -H three -i a:0@b:0 --master_addr "$host" --master_port 29511 \
    --elastic_training --max_elastic_nodes 2 ./lost.sh >stdout 2>stderr </dev/null &
elastic=$!
wait_for_line '^0$' started
wait_for_line '^1$' started
kill -9 "$(cat agent-b)"
wait $elastic
code=$?
expect_exit 0
expect_ranks '0 1 --local_rank=0'
expect_line 'host b is lost \(exit code 137\)'

# ---- What is refused
refuse() { # LINE [argument ...]
    local line=$1
    shift
    run "$trireme" deepspeed "$@" ./env.sh
    expect_exit 2
    expect_line "$line"
}
printf 'a slots=2\na slots=2\n' >twice
printf 'a slots=two\n' >word
printf '# nothing\n' >none
refuse 'twice: line 2: host a is there twice' -H twice
refuse 'word: line 1: valid is "HOST slots=N"' -H word
refuse 'none: no host' -H none
refuse 'missing' -H missing
refuse 'host "d" of the filter is not in the list' -H three -i d
refuse 'host a has no slot "2"; valid are 0 to 1' -H three -i a:2
refuse 'leaves no slot' -H three -e a@b@c
refuse 'exclude each other' -H three -i a -e b
refuse 'the list has 3 hosts' -H three --num_nodes 4
refuse 'host c has 1 slots' -H three --num_gpus 2
refuse 'found slurm; valid are ssh and pdsh' --launcher slurm
refuse '--launcher pdsh: it cannot hand the hosts a secret; valid: --secret-file FILE' -H three --launcher pdsh --master_addr 192.0.2.1
refuse '--no-ssh: valid is --node-rank N, from 0 to 2' -H three --no_ssh
refuse '--no-ssh: valid is --node-rank N, from 0 to 2' -H three --no_ssh --node_rank 3
refuse '--node-rank stands with --no-ssh' -H three --node_rank 1
refuse '--no-ssh stands without --elastic-training' -H three --no_ssh --node_rank 1 --elastic_training
echo 'export A=1' >bad
DS_ENV_FILE=bad refuse 'bad: line 1: valid is NAME=VALUE' -H three
DS_ENV_FILE=missing refuse 'missing' -H three
refuse 'stand with --elastic-training' --min_elastic_nodes 1
refuse 'found --launcher pdsh, .* valid is ssh' --launcher pdsh --elastic_training
refuse '--bind-core-list: found 1-; valid are cores and ranges' --num_gpus 1 --bind_cores_to_rank --bind_core_list 1-
refuse '--bind-core-list stands with --bind-cores-to-rank' --num_gpus 1 --bind_core_list 1
[ ! -e ranks ] || fail "a refused command started something"
finish
