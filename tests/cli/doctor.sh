# doctor.sh -- `trireme doctor` on this machine: the list, one check with a planted fault, its exit codes, files of machines.
here=$(cd "${0%/*}" && pwd)
. "$here/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT
export XDG_CONFIG_HOME=$PWD/config

# ---- The list
ok "$trireme" doctor --list
expect_line '^Memory$' stdout
expect_line '^  shm-size +passive +warning ' stdout
ok "$trireme" doctor --list --json
expect_json_lines <(sed 's/^\[//; s/\]$//; s/},{"subject"/}\n{"subject"/g' stdout)
grep -q '"code":"shm-size"' stdout || fail "--list --json has no shm-size"

# ---- One check: a limit that the test sets
(ulimit -n 256 && exec "$trireme" doctor nofile-limit --json) >stdout 2>stderr || fail "exit code $? of a warning"
expect_json_lines stdout
grep -q '"code":"nofile-limit","state":"found"' stdout || fail "a limit of 256 files is not found: $(cat stdout)"
code=0
(ulimit -n 256 && exec "$trireme" doctor nofile-limit --strict) >stdout 2>stderr || code=$?
expect_exit 1
expect_line '^warning nofile-limit: .*256' stdout
expect_line '^  -> ' stdout
expect_line '^0 checks passed, 1 found something, 0 could not see, 0 do not concern this machine$' stdout
ok "$trireme" doctor tf-config --all
expect_line '^passed tf-config: ' stdout

# ---- An error: exit code 2
TF_CONFIG='{"cluster":' run "$trireme" doctor tf-config
expect_exit 2
expect_line '^error tf-config: ' stdout

# ---- Files of machines
refused 2 'no check has the code "shm-sise"; the nearest is "shm-size"' "$trireme" doctor shm-sise
mkdir -p config/trireme/machines
printf 'name: any\nthresholds: {shm_mib: 1, nvlink: 3}\n' >config/trireme/machines/a.yaml
refused 2 'a.yaml:2: unknown key "nvlink"; the nearest is "nvlinks"' "$trireme" doctor tf-config
printf 'name: of this test\nmatch: {cpu: "*"}\nthresholds: {shm_mib: 1}\n' >config/trireme/machines/a.yaml
ok "$trireme" doctor tf-config
expect_line '^thresholds of of this test$' stdout
refused 2 'missing.yaml: ' "$trireme" doctor --machine missing.yaml
for one in "$here"/../../examples/machines/*.yaml; do
    ok "$trireme" doctor tf-config --machine "$one"
    expect_line '^thresholds of [0-9] x ' stdout
done
refused 2 '^trireme: --port: found 70000; valid: 1 to 65535$' "$trireme" doctor --port 70000

# ---- Before a run: one line of what costs nothing to look at
make_data
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'
NCCL_SOKET_IFNAME=eth0 run "$trireme" train job.yaml --quiet --train.steps 1
expect_exit 0
expect_line '^trireme: warning: .*NCCL_SOKET_IFNAME.*NCCL_SOCKET_IFNAME.* \(trireme doctor variable-unknown\)$'
expect_lines 1 stderr
finish
