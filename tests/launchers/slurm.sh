# slurm.sh -- a Slurm of two nodes on this host, in the folder $scratch/slurm and on ports that are free, for a test that has
# sourced lib.sh. It has a munged of its own, and nothing of the machine's own Slurm is read or changed.
# Afterwards srun, sbatch and scancel speak to it (SLURM_CONF). slurm_stop ends its four daemons.
slurm_folder=$scratch/slurm

slurm_daemon() { # the pid of a daemon, once it has written its file
    local deadline=$(($(now_ms) + 30000))
    until [ -s "$slurm_folder/run/$1.pid" ]; do
        [ "$(now_ms)" -lt "$deadline" ] || return 1
        sleep 0.05
    done
    cat "$slurm_folder/run/$1.pid"
}

# A TCP port on which no one listens.
slurm_port() {
    local port
    for port in $(shuf -i 20000-32000 -n 100); do
        { : <"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || break
    done
    echo "$port"
}

slurm_configure() { # CPUS: more than the machine may have
    local host=$(hostname -s) run=$slurm_folder/run
    cat >"$slurm_folder/slurm.conf" <<END
ClusterName=trireme
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$run/munge.socket
CredType=cred/munge
SlurmctldPort=$(slurm_port)
StateSaveLocation=$slurm_folder/state
SlurmdSpoolDir=$slurm_folder/spool-%n
SlurmctldPidFile=$run/slurmctld.pid
SlurmdPidFile=$run/slurmd-%n.pid
SlurmctldLogFile=$run/slurmctld.log
SlurmdLogFile=$run/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
OverTimeLimit=1
ReturnToService=2
NodeName=n0 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(slurm_port) CPUs=$1 State=UNKNOWN
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(slurm_port) CPUs=$1 State=UNKNOWN
PartitionName=main Nodes=n[0-1] Default=YES OverSubscribe=FORCE:4 MaxTime=INFINITE State=UP
END
}

slurm_start() { # CPUS
    local deadline=$(($(now_ms) + 60000)) run=$slurm_folder/run
    chmod 755 "$scratch" && mkdir -p "$run" "$slurm_folder"/state "$slurm_folder"/spool-n0 "$slurm_folder"/spool-n1
    head -c 1024 /dev/urandom >"$slurm_folder/key" && chmod 400 "$slurm_folder/key"
    slurm_configure "$1"
    export SLURM_CONF=$slurm_folder/slurm.conf PATH=$PATH:/usr/sbin
    munged --key-file="$slurm_folder/key" --socket="$run/munge.socket" --pid-file="$run/munged.pid" \
        --log-file="$run/munged.log" --seed-file="$run/munged.seed" && slurm_daemon munged >/dev/null &&
        slurmctld && slurm_daemon slurmctld >/dev/null && slurmd -N n0 && slurm_daemon slurmd-n0 >/dev/null && slurmd -N n1 && slurm_daemon slurmd-n1 >/dev/null || {
        fail "Slurm did not start: $(tail -n 5 "$run"/*.log)"
        return 1
    }
    until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; do
        [ "$(now_ms)" -lt "$deadline" ] || {
            fail "the nodes of Slurm are not idle after 60 s: $(sinfo 2>&1; tail -n 5 "$run"/*.log)"
            return 1
        }
        sleep 0.1
    done
}

# The processes that Slurm has started for its steps; they outlive the daemons.
slurm_steps() {
    local f
    for f in /proc/[0-9]*; do
        [ "$(cat "$f/comm" 2>/dev/null)" = slurmstepd ] && grep -qszxF "SLURM_CONF=$SLURM_CONF" "$f/environ" && basename "$f"
    done
    true
}

slurm_stop() {
    local name pids= deadline=$(($(now_ms) + 30000))
    if [ -s "$slurm_folder/run/slurmctld.pid" ]; then
        squeue -h -o %A | xargs -r scancel
        until [ -z "$(squeue -h)$(slurm_steps)" ] || [ "$(now_ms)" -gt "$deadline" ]; do sleep 0.2; done
        expect_none "processes of Slurm's steps" "$(slurm_steps)"
    fi
    for name in slurmd-n0 slurmd-n1 slurmctld munged; do
        [ ! -s "$slurm_folder/run/$name.pid" ] || pids="$pids $(cat "$slurm_folder/run/$name.pid")"
    done
    [ -z "$pids" ] || kill $pids 2>/dev/null
    expect_gone 30000 $pids
}
