# deploy.sh TRIREME YAML_VALUES ROOT HAS_UCX -- the files of deploy/ are what their tools take, and the lines in them that start
# Trireme train a job: each is run here, with this machine's paths. Tools that are not here are named; what needs
# none of them is always checked.
. "${0%/*}/../cli/lib.sh" "$1"
yaml_values=$2
root=$3
has_ucx=$4
deploy=$root/deploy
. "$root/tools/packages.sh"
mkdir bin job runs
ln -s "$trireme" bin/trireme
PATH=$scratch/bin:$PATH
make_job
sed -i -e '/^launch:/d' -e 's/train: toy, valid: toy_valid/train: mock/' -e 's/vocab: 320/vocab: 256/' job.yaml
cp job.yaml job/

skipped() {
    echo "skipped: $*"
}
value() { # PATH FILE
    sed -n "s|^$1=||p" "$2"
}
# The values of a list, one a line: PATH.0, PATH.1 and so on.
list() { # PATH FILE
    sed -n "s|^$1\.[0-9]*=||p" "$2"
}
expect_value() { # PATH VALUE FILE
    [ "$(value "$1" "$3")" = "$2" ] || fail "$3: $1 is '$(value "$1" "$3")', expected '$2'"
}
read_yaml() { # NAME: makes NAME.values
    "$yaml_values" "$deploy/$1.yaml" >"$1.values" 2>said || fail "deploy/$1.yaml: $(cat said)"
}
# Bytes of a size as Kubernetes and Trireme write it.
bytes_of() {
    sed -e 's/Gi$/*1073741824/' -e 's/Mi$/*1048576/' <<<"$1" | awk -F '*' '{ printf "%.0f", $1 * ($2 ? $2 : 1) }'
}
# The words of a container's command, with its folders moved here.
here() {
    sed -e "s|^/job/|$scratch/job/|" -e "s|^/runs/|$scratch/runs/|"
}
# Ranks x their budget fit in the container's limit of memory.
expect_fits() { # FILE LIMIT RANKS BUDGET
    [ "$(($3 * $(bytes_of "$4")))" -le "$(bytes_of "$2")" ] || fail "$1: $3 ranks of $4 do not fit in $2"
}
after() { # WORD, of lines: the line after it
    grep -A 1 -Fx -- "$1" | sed -n 2p
}
expect_volumes() { # FILE POD: each mounted volume is there
    local name
    for name in $(sed -n "s|^$2.containers.0.volumeMounts.[0-9]*.name=||p" "$1"); do
        grep -q "^$2.volumes.[0-9]*.name=$name\$" "$1" || fail "$1: no volume $name"
    done
}

# ---- YAML
printf 'a: {b: 1\n' >broken.yaml
"$yaml_values" broken.yaml >/dev/null 2>&1 && fail "negative control: a file that is not YAML was read"
printf 'a: 1\nb: 2\na: 3\n' >broken.yaml
"$yaml_values" broken.yaml >/dev/null 2>&1 && fail "negative control: a key that is there twice was not noticed"

read_yaml kubernetes-job
job=kubernetes-job.values
pod=spec.template.spec
expect_value apiVersion batch/v1 $job
expect_value kind Job $job
expect_value spec.completionMode Indexed $job
expect_value $pod.restartPolicy Never $job
expect_volumes $job $pod
list $pod.containers.0.args $job >arguments
list $pod.containers.0.command $job | here >command
mapfile -t words < <(cat command arguments)
ranks=$(after --launch.ranks <arguments)
expect_fits $job "$(value $pod.containers.0.resources.limits.memory $job)" "$ranks" "$(after --memory.budget <arguments)"
ok "${words[@]}" --quiet
expect_line "\"ranks\":$ranks," runs/trireme/log.jsonl
expect_steps runs/trireme 8

# Two pods and the service that names them. Here the pods are two agents of this host.
awk '/^---$/ { part = 1; next } { print >("part-" part + 0 ".yaml") }' "$deploy/kubernetes-two-hosts.yaml"
for part in 0 1; do
    "$yaml_values" part-$part.yaml >part-$part.values 2>said || fail "deploy/kubernetes-two-hosts.yaml: $(cat said)"
done
service=part-0.values job=part-1.values
name=$(value metadata.name $job)
expect_value kind Service $service
expect_value spec.clusterIP None $service
expect_value spec.publishNotReadyAddresses true $service
expect_value kind Job $job
expect_value spec.completionMode Indexed $job
expect_value spec.parallelism "$(value spec.completions $job)" $job # all pods run at once
expect_value spec.template.metadata.labels.app "$(value spec.selector.app $service)" $job
expect_value $pod.subdomain "$(value metadata.name $service)" $job
expect_volumes $job $pod
leader=$name-0.$(value metadata.name $service)
grep -q "initContainers.0.command.2=.* getent hosts $leader;" $job || fail "no container waits for $leader"
list $pod.containers.0.command $job >command
[ "$(after --nnodes <command)" = "$(value spec.completions $job)" ] || fail 'there are other pods than nodes'
[ "$(after --node-rank <command)" = '$(JOB_COMPLETION_INDEX)' ] || fail 'a pod is not told its number'
list $pod.containers.0.args $job >arguments
ranks=$(value --nproc-per-node arguments)
[ "$(value --shutdown-timeout arguments)" -lt "$(value $pod.terminationGracePeriodSeconds $job)" ] || fail 'a pod is killed before it has saved'
expect_fits $job "$(value $pod.containers.0.resources.limits.memory $job)" "$ranks" "$(value --memory.budget arguments)"
mkdir secret
head -c 32 /dev/urandom | base64 >secret/secret
chmod "$(value "$pod.volumes.[0-9]*.secret.defaultMode" $job)" secret/secret
host=$(own_address)
pod() { # INDEX: its words, one a line
    sed -e "s|^\$(JOB_COMPLETION_INDEX)$|$1|" -e "s|=$leader\$|=$host|" -e "s|=/secret/|=$scratch/secret/|" -e "s|=/runs/|=$scratch/runs/|" command arguments | here
}
if [ "$has_ucx" = 1 ]; then
    rm -rf runs/trireme
    mapfile -t words < <(pod 1)
    timeout 240 "${words[@]}" --quiet >other.out 2>other.err </dev/null &
    other=$!
    mapfile -t words < <(pod 0)
    ok "${words[@]}" --quiet
    wait $other || fail "pod 1 ended with $?: $(tail -n 3 other.err)"
    expect_line "\"ranks\":$((2 * ranks))," runs/trireme/log.jsonl
    expect_steps runs/trireme 8
else
    skipped "two hosts: this Trireme has no communicator between hosts"
fi

read_yaml kubernetes-mpijob
job=kubernetes-mpijob.values
pod=spec.mpiReplicaSpecs
expect_value apiVersion kubeflow.org/v2beta1 $job
expect_value kind MPIJob $job
ranks=$(value spec.slotsPerWorker $job)
expect_value $pod.Launcher.replicas 1 $job
expect_value $pod.Worker.replicas 1 $job # all ranks on one host
expect_volumes $job $pod.Worker.template.spec
list $pod.Launcher.template.spec.containers.0.command $job >command
[ "$(after -n <command)" = "$ranks" ] || fail "mpirun starts $(after -n <command) ranks, a worker has $ranks slots"
list $pod.Launcher.template.spec.containers.0.args $job | here >arguments
expect_fits $job "$(value $pod.Worker.template.spec.containers.0.resources.limits.memory $job)" "$ranks" "$(after --memory.budget <arguments)"
mapfile -t words <arguments
rm -rf runs/trireme
ok trireme run --no-python --nproc-per-node "$ranks" "${words[@]}" --quiet
expect_steps runs/trireme 8

# ---- Slurm
bash -n "$deploy/slurm.sbatch" || fail "slurm.sbatch is no script"
expect_none 'directives of slurm.sbatch' "$(grep '^#SBATCH' "$deploy/slurm.sbatch" |
    grep -vE '^#SBATCH --(job-name|nodes|ntasks|cpus-per-task|time|signal|output)=[^ ]+$')"
ranks=$(sed -n 's/^#SBATCH --ntasks=//p' "$deploy/slurm.sbatch")
printf '#!/bin/sh\nexec "%s" run --no-python --nproc-per-node %s "$@"\n' "$trireme" "$ranks" >bin/srun
chmod +x bin/srun
ok sh "$deploy/slurm.sbatch" # job.yaml is its default
expect_line "\"ranks\":$ranks," out/log.jsonl
rm -rf runs/trireme
ok sh "$deploy/slurm.sbatch" job/job.yaml --train.out runs/trireme
expect_steps runs/trireme 8
skipped "sbatch: ./test-launchers submits it"

# ---- systemd
unit=$deploy/trireme@.service
sed "s|^ExecStart=/usr/bin/trireme |ExecStart=$trireme |" "$unit" >trireme@.service
expect_line "^ExecStart=$trireme train /etc/trireme/%i.yaml" trireme@.service
if command -v systemd-analyze >/dev/null; then
    run systemd-analyze verify --man=no ./trireme@.service
    [ "$code" = 0 ] && [ ! -s stderr ] || fail "systemd-analyze: $(cat stderr)"
    sed 's/^KillMode=.*/KillMode=sometimes/' trireme@.service >broken@.service
    run systemd-analyze verify --man=no ./broken@.service
    [ -s stderr ] || fail "negative control: systemd-analyze takes KillMode=sometimes"
else
    skipped "systemd-analyze verify: not installed"
fi
for folder in $(sed -n 's/^StateDirectory=//p' "$unit"); do
    expect_line "^WorkingDirectory=/var/lib/$folder\$" "$unit"
    expect_line "^ExecStart=.* --train.out /var/lib/$folder/%i " "$unit"
done
rm -rf runs/trireme
ok $(sed -n -e "s|/etc/trireme/%i.yaml|$scratch/job/job.yaml|" -e "s|/var/lib/trireme/%i|runs/trireme|" \
    -e "s|^ExecStart=/usr/bin/||p" "$unit")
expect_steps runs/trireme 8
# The exit codes that the unit knows, where it does not start again: those of the program.
expect_line '^SuccessExitStatus=130$' "$unit"
expect_line '^RestartPreventExitStatus=2 3$' "$unit"
run trireme train job/job.yaml --train.out runs/other --train.global_batch 0
expect_exit 2
run trireme train job/job.yaml --train.out runs/other --memory.budget 1Mi
expect_exit 3

# ---- Dockerfile
dockerfile=$deploy/Dockerfile
expect_none 'instructions of the Dockerfile' "$(grep -vE '^(#.*|FROM|WORKDIR|COPY|RUN|ENTRYPOINT|CMD)( |$)|^$' "$dockerfile")"
expect_line '^# .*--shm-size' "$dockerfile"
# Every package is one that packages.sh lists; what the build needs is its list itself.
expect_line 'RUN .*\. tools/packages\.sh && apt-get install .* \$BUILD_PACKAGES$' "$dockerfile"
for package in $(sed -n 's/.*apt-get install \([^&]*\).*/\1/p' "$dockerfile" | tr ' ' '\n' | grep -v -e '^-' -e '^\$' -e '^/tmp/'); do
    [[ " $IMAGE_PACKAGES " = *" $package "* ]] || fail "the Dockerfile installs $package, which tools/packages.sh does not list"
done
for package in $IMAGE_PACKAGES; do
    expect_line "apt-get install .* $package( |\$)" "$dockerfile"
done
# The files that it copies suffice for the build.
mkdir image
while read -r instruction sources; do
    [ "$instruction" = COPY ] && [[ $sources != --from=* ]] || continue
    read -ra words <<<"$sources"
    for file in "${words[@]:0:${#words[@]}-1}"; do
        [ -e "$root/$file" ] || fail "the Dockerfile copies $file, which is not there"
        cp -R "$root/$file" image/
    done
done <"$dockerfile"
configure=$(sed -n 's/^RUN \(cmake -B build [^&]*\) && .*/\1/p' "$dockerfile")
(cd image && timeout 200 $configure >said 2>&1) || fail "$configure: $(tail -n 5 image/said)"
expect_file image/build/CPackConfig.cmake
ok ninja -C image/build -n # all that it would compile is there
expect_line '^RUN .* && cpack -G DEB --config build/CPackConfig.cmake$' "$dockerfile"
# The stages, and the images that the YAML files name.
for image in trireme:latest trireme:mpi; do
    grep -qE "image=$image\$" kubernetes-*.values || fail "no YAML file has the image $image"
done
expect_line '^FROM [^ ]+ AS trireme$' "$dockerfile"
expect_line '^FROM trireme AS mpi$' "$dockerfile"
skipped "docker build: it needs a network and a daemon"
finish
