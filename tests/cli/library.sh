# library.sh -- trm_run of the library writes the log and the checkpoints of `trireme train`, to the bit, whether it starts
# the ranks or another launcher has started a process for each.
. "${0%/*}/lib.sh" "$1"
program=$2
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export TRIREME_ATTACH_TIMEOUT=60s
make_data
make_job
sed -i '/^launch:/d' job.yaml
keys=(--train.steps 5 --train.eval_every 2 --train.save_every 2 --train.eval_batches 1 --train.keep 0 --data.valid toy)

# The events, without what differs from run to run.
events() { # FOLDER
    sed -E 's/,"(seconds|tokens_per_s|plan_bytes_per_rank|matmul_share|threads_per_rank)":[-+0-9.e]+//g; s#"path":"[^"]*/#"path":"#' "$1/log.jsonl"
}
same_run() { # FOLDER
    expect_file "$1/log.jsonl"
    events "$1" >events
    diff events expected >differences || fail "events of $1: $(head -n 4 differences)"
    diff -r "$1/checkpoints" forked/checkpoints >differences || fail "checkpoints of $1: $(head -n 5 differences)"
}
# The environment of rank $1 of 2. The pid of this script makes identities that no other test has.
openmpi() { printf '%s\n' OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_LOCAL_RANK="$1" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=$$; }
srun() { printf '%s\n' SLURM_PROCID="$1" SLURM_LOCALID="$1" SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 SLURM_JOB_ID=$$ SLURM_STEP_ID=0; }
torchrun() { printf '%s\n' RANK="$1" LOCAL_RANK="$1" GROUP_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=$$; }
two_hosts() { printf '%s\n' RANK="$1" LOCAL_RANK=0 GROUP_RANK="$1" WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 TORCHELASTIC_RUN_ID=$$ MASTER_ADDR="$(own_address)" MASTER_PORT=29791; }

# Both processes of the program: rank 0's output lies in `stdout` and `stderr`, the other's in other.err.
joined() { # EXIT-CODE LAUNCHER ARGUMENT...
    local expected=$1 launcher=$2 variables other
    shift 2
    mapfile -t variables < <("$launcher" 1)
    timeout 240 env "${variables[@]}" "$program" "$@" >other.out 2>other.err </dev/null &
    other=$!
    mapfile -t variables < <("$launcher" 0)
    run env "${variables[@]}" "$program" "$@"
    expect_exit "$expected"
    wait $other
    code=$?
    expect_exit "$expected"
}

ok "$trireme" train job.yaml "${keys[@]}" --launch.ranks 2 --train.out forked
events forked >expected
ok "$program" job.yaml "${keys[@]}" --launch.ranks 2 --train.out library
same_run library
for launcher in openmpi srun torchrun two_hosts; do
    joined 0 $launcher job.yaml "${keys[@]}" --train.out "$launcher"
    same_run "$launcher"
    expect_none "the ranks of $launcher print" "$(cat stdout stderr other.out other.err)"
done
ok "$trireme" run --nproc-per-node 2 "$program" job.yaml "${keys[@]}" --train.out run
same_run run

# The program may call trm_run again, and resume.
joined 0 openmpi twice job.yaml "${keys[@]}" --train.out first
same_run first
same_run again
joined 0 openmpi job.yaml "${keys[@]}" --train.out resumed --train.steps 2
joined 0 openmpi job.yaml "${keys[@]}" --train.out resumed
expect_line '"resumed_from":2' resumed/log.jsonl
expect_same resumed/checkpoints/step-00000005/model.safetensors forked/checkpoints/step-00000005/model.safetensors

# Data that the program brings
sed '/^data:/d' job.yaml >own.yaml
ok "$program" own own.yaml --train.steps 3 --launch.ranks 2 --train.out own
joined 0 openmpi own own.yaml --train.steps 3 --train.out own-joined
expect_same own/checkpoints/step-00000003/model.safetensors own-joined/checkpoints/step-00000003/model.safetensors

# A failure of one process is that of all; rank 0's process logs it, and the launcher's file has it.
TORCHELASTIC_ERROR_FILE=$PWD/error.json joined 1 openmpi fail job.yaml "${keys[@]}" --train.out failed
expect_line '^rank 1: the oar broke$'
expect_same stderr other.err
expect_line '^\{"event":"error","rank":1,"text":"rank 1: the oar broke"\}$' failed/log.jsonl
expect_line '^\{"event":"end","reason":"failed"' failed/log.jsonl
expect_line 'rank 1: the oar broke' error.json
joined 0 openmpi stop job.yaml "${keys[@]}" --train.out stopped
expect_line '"step":2,"reason":"interrupted"' stopped/log.jsonl
joined 2 openmpi job.yaml "${keys[@]}" --train.out refused --launch.ranks 3
expect_line 'launch.ranks: found 3; valid: auto, or 2, the ranks of the run that mpirun'
expect_same stderr other.err
expect_no_file refused
finish
