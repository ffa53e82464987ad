# first_steps.sh -- what a user meets on the first day: defaults that fit together, warnings and hints that name the
# cause, help that is searched, tables that fit the terminal.
. "$(dirname "$0")/lib.sh" "$1"

cat >job.yaml <<'END'
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 20, global_batch: 4, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
launch: {ranks: 1}
END

# ---- The warm-up
ok "$trireme" explain job.yaml --lr_schedule.name constant
expect_line '^lr_schedule.warmup_steps +0 +default$' stdout
expect_lines 0 stderr
ok "$trireme" explain job.yaml
expect_line '^lr_schedule.warmup_steps +100 +default$' stdout
rises='the learning rate rises to the end of the run$'
expect_line "^trireme: warning: lr_schedule.warmup_steps is 100, and the run has 20 steps: $rises"
ok "$trireme" train job.yaml --quiet --lr_schedule.name constant --lr_schedule.warmup_steps 20
expect_line "^trireme: warning: lr_schedule.warmup_steps is 20, and the run has 20 steps: $rises"
ok "$trireme" explain job.yaml --lr_schedule.name WarmupLR --lr_schedule.warmup_num_steps 30
expect_line "^trireme: warning: lr_schedule.warmup_num_steps is 30, and the run has 20 steps: $rises"
ok "$trireme" explain job.yaml --lr_schedule.warmup_steps 19
expect_lines 0 stderr

# ---- Only a user who has a GPU is told that the run does not use it; explain tells everybody
if ls /dev/nvidia[0-9]* >/dev/null 2>&1 || grep -qs 0x10de /sys/bus/pci/devices/*/vendor; then about_gpus=1; else about_gpus=0; fi
rm -rf out
ok "$trireme" train job.yaml --lr_schedule.name constant
[ "$(grep -c 'launch.device auto takes cpu' stderr)" = "$about_gpus" ] || fail "$(cat stderr)"
ok "$trireme" explain job.yaml
expect_line '^launch.device +cpu +default \(auto\); device cuda: ' stdout

# ---- Help is searched by any word: of a key, an alias, a command, a flag or a sentence
ok "$trireme" help lr
expect_line '^  optimizer.lr$' stdout
expect_line '^  lr_schedule.name$' stdout
expect_no_line '^  train.steps' stdout
ok "$trireme" help fsdp
expect_line '^  parallel.dp \(fsdp = zero3\)$' stdout
ok "$trireme" help full-shard
expect_line '^  parallel.dp \(FULL_SHARD = zero3\)$' stdout
ok "$trireme" help warmup
expect_line '^  lr_schedule.warmup_steps$' stdout
ok "$trireme" help n_embd
expect_line '^  model.hidden \(model.n_embd\)$' stdout
ok "$trireme" help perplexity
expect_line '^Commands:$' stdout
expect_line '^  eval' stdout
refused 2 "^trireme: there is no command 'zzzz'; .trireme help. lists them$" "$trireme" help zzzz

ok "$trireme" version
cp stdout said
ok "$trireme" --version
expect_same stdout said
expect_line '^trireme [0-9]+\.[0-9]+\.[0-9]+$' said
ok "$trireme" version --json
expect_line '^\{"version":"[0-9.]+"\}$' stdout

# ---- Events for programs: train --json prints what log.jsonl holds, also of a run that fails; a reader that has gone
# ends no run
rm -rf out
ok "$trireme" train job.yaml --quiet --json --lr_schedule.name constant
expect_same stdout out/log.jsonl
grep -v '^{"event":"verdict",' stdout >lines # a run whose rank has a record has one
expect_lines 22 lines
rm -rf out
run "$trireme" train job.yaml --quiet --json --lr_schedule.name constant --optimizer.lr 1e38 --train.clip_grad_norm 0
expect_exit 1
expect_line '^\{"event":"error",' stdout
expect_same stdout out/log.jsonl
rm -rf out
"$trireme" train job.yaml --quiet --json --lr_schedule.name constant --train.steps 2000 2>stderr | head -n 1 >stdout
[ "${PIPESTATUS[0]}" = 0 ] || fail "a run whose reader has gone ends with ${PIPESTATUS[0]}"
expect_steps out 2000
ok "$trireme" run --json --no-python --nproc-per-node 2 true
expect_json_lines stdout
expect_lines 2 stdout
expect_line '^\{"event":"start","version":"[0-9.]+","ranks":2,"as":"workers","program":"true"\}$' stdout
expect_line '^\{"event":"end","reason":"done","seconds":[0-9.e-]+\}$' stdout
run "$trireme" run --json --no-python --nproc-per-node 2 sh -c 'if [ $RANK = 1 ]; then exit 7; fi; sleep 60'
expect_exit 1
expect_json_lines stdout
expect_line '^\{"event":"error","rank":1,"text":"rank 1 .* ended with exit code 7.*"\}$' stdout
expect_line '^\{"event":"end","reason":"failed",' stdout

# ---- Colours on a terminal, unless NO_COLOR is set; none elsewhere
escape=$(printf '\033')
for no in '' 1; do
    NO_COLOR=$no TERM=xterm script -qec "'$trireme' train nowhere.yaml" /dev/null >shown </dev/null
    NO_COLOR=$no TERM=xterm script -qec "'$trireme' explain job.yaml" /dev/null >warned </dev/null
    if [ -z "$no" ]; then
        expect_line "^$escape\\[31mtrireme: $escape\\[0m.*nowhere.yaml" shown
        expect_line "^$escape\\[33mtrireme: warning: $escape\\[0mlr_schedule" warned
    else
        expect_line '^trireme: .*nowhere.yaml' shown
        expect_no_line "$escape" warned
    fi
done
run "$trireme" train nowhere.yaml
expect_no_line "$escape"

# ---- The progress line explains mfu once, before it shows it
rm -rf out
ok "$trireme" train job.yaml --lr_schedule.name constant
[ "$(grep -c '^mfu: a step.s FLOP/s as a share of the matmul peak of these cores, which is measured' stderr)" = 1 ] || fail "$(cat stderr)"
awk '/^mfu:/ { said = 1 } /  mfu [0-9]+ %/ && !said { exit 1 }' stderr || fail "mfu stands before its explanation: $(cat stderr)"
rm -rf out
ok "$trireme" train job.yaml --lr_schedule.name constant --quiet
expect_lines 0 stderr

# ---- A hint names the cause: a tab, a model of the Hub, what is planned
printf 'model:\n\tfamily: gpt2\n' >tab.yaml
refused 2 '^trireme: tab.yaml:2: found a tab before the key; valid: spaces$' "$trireme" train tab.yaml
printf 'model:\n  family: gpt2\n\tlayers: 2\n' >tab.yaml
refused 2 '^trireme: tab.yaml:3: found a tab before the key; valid: spaces$' "$trireme" train tab.yaml
printf 'train:\n  steps: 3\n \tseed: 2\n' >tab.yaml
refused 2 '^trireme: tab.yaml:3: found a tab before the key; valid: spaces$' "$trireme" train tab.yaml
hub='found some-lab/Model-1.5B, which is not a folder on this machine; `hf download some-lab/Model-1.5B --local-dir DIR` fetches'
refused 2 "^trireme: --model.path: $hub" "$trireme" train job.yaml --model.path some-lab/Model-1.5B
refused 2 "^trireme: $hub" "$trireme" generate --prompt x --model some-lab/Model-1.5B
mkdir some-lab
refused 2 'which is not a folder; valid: a HuggingFace folder on this machine$' "$trireme" generate --prompt x --model some-lab/Model-1.5B
refused 2 '^trireme: --optimizer.name: found muon, which is planned, not written yet; valid: adamw, adam, sgd, lion$' \
    "$trireme" train job.yaml --optimizer.name muon
refused 2 '^trireme: --optimizer.name: found lionn; valid: .*; did you mean lion\?$' "$trireme" train job.yaml --optimizer.name lionn
refused 2 '^trireme: --parallel.ep: unknown option; it is planned, not written yet$' "$trireme" train job.yaml --parallel.ep 2

# ---- Huge inputs are refused or summed up at once
{
    cat job.yaml
    echo 'groups:'
    awk 'BEGIN { for (i = 0; i < 1025; i++) print "- {match: \"*\", weight_decay: 0." i + 1 "}" }'
} >groups.yaml
refused 2 '^trireme: groups.yaml:5: groups: found 1025 entries; valid: up to 1024$' "$trireme" train groups.yaml
sed -i '$d' groups.yaml
ok "$trireme" plan groups.yaml
[ "$(grep -c 'groups\[' stderr)" = 5 ] || fail "$(head -c 400 stderr)"
expect_line '^trireme: warning: groups: the same is true of 1018 other entries$'

finish
