# launchers.sh TRIREME -- `trireme train` and `trireme bench` under Debian's real Open MPI, MPICH and Slurm: same bits as ranks that `trireme train`
# starts itself, two runs at the same time, a resume under another launcher, a refusal, a rank that is killed, and a run
# that Slurm stops. ./test-launchers starts it. tests/cli/attach.sh has the same claims with launchers' variables only.
tests=$(cd "${0%/*}/.." && pwd)
deploy=$tests/../deploy
. "$tests/cli/lib.sh" "$1"
. "$tests/launchers/check.sh"
. "$tests/launchers/slurm.sh"
export TRIREME_ATTACH_TIMEOUT=60s
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
trap 'slurm_stop; cd / && rm -rf "$scratch"' EXIT
mkdir bin && ln -s "$trireme" bin/trireme
PATH=$scratch/bin:$PATH
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i '/^launch:/d' job.yaml
launchers='openmpi mpich srun srun_pmi2'
if "$trireme" help launch.comm | grep -q 'several hosts'; then
    launchers="$launchers srun_two_nodes"
else
    echo "skipped: srun -N 2, because this program trains on one host only"
fi
LONG_MS=60000

# Start 4 processes each; the further words are those of the processes.
openmpi() { timeout 120 mpirun.openmpi -n 4 "$@"; }
mpich() { timeout 120 mpiexec.mpich -n 4 "$@"; }
srun() { timeout 120 srun -n 4 "$@"; }
srun_pmi2() { timeout 120 srun --mpi=pmi2 -n 4 "$@"; }
# Each node counts as a host, which meets the other one over TCP.
srun_two_nodes() { MASTER_ADDR=127.0.0.1 MASTER_PORT=$(slurm_port) timeout 120 srun -N 2 --ntasks-per-node 2 "$@"; }

same_bits() { # LAUNCHER
    "$1" trireme train job.yaml --train.save_every 4 --train.out "$1" >stdout 2>stderr </dev/null
    code=$?
    expect_exit 0
    expect_like_forked "$1"
    [ "$(grep -c '^saved ' stderr)" = 2 ] || fail "not one rank prints what is saved: $(cat stderr)"
}
sharded() { # LAUNCHER
    "$1" trireme train job.yaml --quiet --train.save_every 4 --train.out "$1-sharded" --parallel.dp zero3 --parallel.tp 2 2>stderr
    code=$?
    expect_exit 0
    expect_same_losses forked-sharded "$1-sharded"
    expect_same_checkpoint forked-sharded "$1-sharded"
}
over_mpi() { # LAUNCHER
    "$1" trireme train job.yaml --quiet --train.save_every 4 --launch.comm mpi --train.out "$1-mpi" 2>stderr
    code=$?
    expect_exit 0
    expect_like_forked "$1-mpi"
}
benched() { # LAUNCHER
    "$1" trireme bench all_reduce --device cpu -b 1K -e 1M -f 32 -n 5 >stdout 2>stderr </dev/null || fail "$(cat stderr)"
    expect_line '^# Out of bounds values : 0 OK' stdout
    [ "$(grep -cE '^#  Rank  [0-3] Group  0 Pid +[1-9]' stdout)" = 4 ] || fail "expected 4 ranks once: $(cat stdout)"
}
two_runs() { # LAUNCHER: at the same time
    local first
    "$1" trireme train job.yaml --quiet --train.save_every 4 --train.out "$1-a" >stdout.a 2>&1 &
    first=$!
    "$1" trireme train job.yaml --quiet --train.save_every 4 --train.out "$1-b" >stdout.b 2>&1
    code=$?
    expect_exit 0
    wait $first || fail "the first of two runs: $(cat stdout.a)"
    expect_like_forked "$1-a"
    expect_like_forked "$1-b"
}
resumes() { # LAUNCHER THE-OTHER
    "$1" trireme train job.yaml --quiet --train.save_every 4 --train.steps 4 --train.out "$1-$2" 2>stderr || fail "$(cat stderr)"
    "$2" trireme train job.yaml --quiet --train.save_every 4 --train.out "$1-$2" 2>stderr || fail "$(cat stderr)"
    expect_line '"resumed_from":4' "$1-$2/log.jsonl"
    expect_like_forked "$1-$2"
}
refuses() { # LAUNCHER
    "$1" trireme train job.yaml --quiet --launch.ranks 2 --train.out refused >stdout 2>stderr && fail "2 ranks of 4 processes are not refused"
    expect_line 'launch.ranks: found 2; valid: auto, or 4, because ' stderr
    expect_no_file refused
}
# A rank is killed: the others name it and end, and the launcher ends.
killed() { # LAUNCHER
    local starter processes victim name rank host='' begin
    "$1" trireme train job.yaml --quiet --train.steps 1000000000 --train.out "$1-killed" >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line '"event":"step","step":5,' "$1-killed/log.jsonl"
    processes=$(processes_of "$1-killed")
    # The launcher has started four, each of which has a rank as its child.
    [ "$(wc -l <<<"$processes")" = 8 ] || fail "found the processes $processes, expected 8"
    victim=$(for pid in $processes; do children_of "$pid"; done | sed -n 3p)
    rank=$(for name in OMPI_COMM_WORLD_RANK PMI_RANK SLURM_PROCID; do variable_of "$victim" $name; done | head -n 1)
    [ "$1" != srun_two_nodes ] || host="host $(uname -n), "
    begin=$(now_ms)
    kill -9 "$victim"
    wait $starter && fail "the launcher says that all went well"
    echo "  the launcher ended $(($(now_ms) - begin)) ms after the kill of pid $victim; it shows: $(grep -m 1 -h '^trireme: ' stderr stdout)"
    expect_line "^trireme: rank $rank \(${host}pid $victim\) was killed by signal 9 \(Killed\)"
    expect_gone $LONG_MS $processes
}
# Open MPI's mpirun is killed itself, which ends none of its processes.
mpirun_killed() {
    local processes launcher begin
    openmpi trireme train job.yaml --quiet --train.steps 1000000000 --train.out mpirun-killed >stdout 2>stderr </dev/null &
    wait_for_line '"event":"step","step":5,' mpirun-killed/log.jsonl
    processes=$(processes_of mpirun-killed)
    [ "$(wc -l <<<"$processes")" = 8 ] || fail "found the processes $processes, expected 8"
    read -r _ _ _ launcher _ <"/proc/$(head -n 1 <<<"$processes")/stat"
    begin=$(now_ms)
    kill -9 "$launcher"
    expect_gone $LONG_MS $processes
    echo "  all processes are gone $(($(now_ms) - begin)) ms after the kill of $(grep -o 'mpirun[^,]*, which.*ended' mpirun-killed/log.jsonl)"
    expect_line '"event":"error".*mpirun.* .pid [0-9]+., which started the ranks, has ended' mpirun-killed/log.jsonl
}
# What docs/coming-from.md and the batch script of deploy/ promise.
one_task() {
    timeout 120 srun -N 1 -n 1 trireme train job.yaml --quiet --train.save_every 4 --launch.ranks 4 --train.out one-task 2>stderr || fail "$(cat stderr)"
    expect_like_forked one-task
}
batch() {
    ok sbatch --test-only "$deploy/slurm.sbatch"
    ok timeout 120 sbatch --wait "$deploy/slurm.sbatch" job.yaml --train.save_every 4 --train.out batch
    expect_like_forked batch
    expect_line '^saved ' trireme-*.log
}
stopped() {
    local id
    ok sbatch --parsable --output=stopped.log "$deploy/slurm.sbatch" job.yaml --train.steps 1000000000 --train.save_every 1000000 --train.out stopped
    id=$(cat stdout)
    wait_for_line '"event":"step","step":5,' stopped/log.jsonl
    ok scancel --signal=INT "$id" # as --signal=INT@300 does
    wait_for_line '"event":"end"' stopped/log.jsonl
    expect_line '"event":"end","step":[0-9]+,"reason":"interrupted"' stopped/log.jsonl
    ok trireme checkpoint verify stopped
}

echo "$(mpirun.openmpi --version | head -n 1); MPICH $(mpiexec.mpich --version | sed -n 's/ *Version: *//p'); $(slurmd -V 2>/dev/null || /usr/sbin/slurmd -V)"
train --launch.ranks 4 --train.save_every 4 --train.out forked
train --launch.ranks 4 --train.save_every 4 --train.out forked-sharded --parallel.dp zero3 --parallel.tp 2
check "Slurm starts, with two nodes" slurm_start 16
[ "$failures" = 0 ] || finish
for launcher in openmpi mpich; do
    check "$launcher: over the communicator mpi, same bits" over_mpi $launcher
done
for launcher in $launchers; do
    check "$launcher: same bits, one rank prints" same_bits $launcher
    check "$launcher: zero3 with tp 2, same bits" sharded $launcher
    check "$launcher: bench all_reduce on its processes" benched $launcher
    check "$launcher: two runs at the same time" two_runs $launcher
    check "$launcher: two of four ranks are refused" refuses $launcher
    check "$launcher: a rank is killed and named" killed $launcher
done
check "mpirun itself is killed: its ranks end" mpirun_killed
check "begins under mpirun, resumes under srun" resumes openmpi srun
check "begins under srun, resumes under mpiexec" resumes srun mpich
check "srun -n 1 with --launch.ranks 4" one_task
check "sbatch deploy/slurm.sbatch" batch
check "... stopped by Slurm's signal: saves and ends" stopped
finish
