# plan.sh -- `trireme plan`, refusals of jobs that do not fit, and memory.fit.
. "$(dirname "$0")/lib.sh" "$1"
export XDG_CONFIG_HOME=/none # no machine file
clusters=$(cd "$(dirname "$0")/../../examples/clusters" && pwd)

# 70B parameters on 64 ranks; one rank would not fit on this machine.
cat >large.yaml <<END
model: {family: llama, layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocab: 128256, max_seq: 8192}
data: {train: mock, seq_len: 4096}
train: {steps: 10, global_batch: 64, micro_batch: 1, precision: bf16}
parallel: {pp: 4, tp: 8}
launch: {ranks: 64}
memory: {budget: 80Gi}
END
ok "$trireme" plan large.yaml
expect_line '^model: 70553706496 parameters, 282 GB in fp32$' stdout
expect_line '^state: 18 bytes per parameter \(weights 2, gradients 4, optimizer 12\), 1270 GB before it is sharded$' stdout
for row in 'as the job is' ddp zero1 zero2 zero3 none selective full 'zero3, optimizer in a file' 'and weights'; do
    expect_line "^[* ] $row .* (yes|no) " stdout
done
expect_no_line 'hybrid' stdout
ok "$trireme" plan large.yaml --parallel.pp 1 --parallel.dp_replicate 2
expect_line '^  hybrid zero3 .* (yes|no) ' stdout
expect_line '^does not fit' stdout

# On a terminal of 80 columns no line is longer, and no row is missing. Groups have no bytes per parameter in common.
ok env COLUMNS=80 "$trireme" plan large.yaml --groups '[{match: "*norm*", weight_decay: 0}]'
expect_line '^  bytes of the largest rank +state +activations +total fits +sent$' stdout
for row in 'as the job is' ddp zero1 zero2 zero3 none selective full 'zero3, optimizer in a file' 'and weights'; do
    expect_line "^[* ] $row .* (yes|no) " stdout
done
expect_none 'lines of more than 80 columns' "$(awk 'length($0) > 80' stdout)"
expect_no_line 'bytes per parameter' stdout
ok env COLUMNS=192 "$trireme" plan large.yaml
expect_line '^  bytes of the largest rank +weights +master ' stdout

# Full weights, gradients and optimizer state have exactly 18 bytes a parameter; one rank of 64 is checked.
ok "$trireme" plan large.yaml --parallel.pp 1 --parallel.tp 1 --json
expect_json_lines stdout
expect_line '"fits":false,"first_fit":\{"fits":true,"changes":"--parallel.dp zero3' stdout
expect_line '"weights":141107412992,"master":282214825984,"gradients":282214825984,"optimizer":564429651968,' stdout

# ---- Machines that are not here
# A GPU that this machine lacks can be planned for; its memory is not known.
ok "$trireme" plan large.yaml --launch.device cuda --memory.budget auto
expect_line '^no times: /none/trireme/machine.json: no machine file yet' stdout
expect_no_line '^  decision tree: ' stdout
ok "$trireme" plan large.yaml --launch.device cuda --memory.budget 80Gi
expect_line '^  decision tree: it fits nowhere: stage 3 with offload, or pp with tp -- agrees$' stdout
ok "$trireme" plan large.yaml --memory.budget auto --cluster "$clusters/dgx-h100.yaml" --tokens 15e12
expect_line '; budget 7[0-9]\.[0-9]* GiB a rank$' stdout
expect_line '^  times, predicted +step ms +tokens/s +mfu +exposed +bubble +price$' stdout
expect_line '^\* as the job is +[0-9.]+ +[0-9.e+]+ +[0-9.]+ % +[0-9.]+ % +[0-9.]+ % ' stdout
expect_line '^rates: a model of the data sheets, not measured$' stdout
expect_line '^to 1.5e\+13 tokens: .* days' stdout
expect_line '^  links: tp within a host, pp across hosts -- agrees$' stdout
ok env COLUMNS=80 "$trireme" plan large.yaml --memory.budget auto --cluster "$clusters/dgx-h100.yaml"
expect_none 'lines of more than 80 columns' "$(awk 'length($0) > 80' stdout)"

# 7 billion parameters on 8 GPUs of 80 GB: zero1 alone fits. The file that is written is the job with its layout.
cat >seven.yaml <<END
model: {family: llama, layers: 32, hidden: 4096, heads: 32, kv_heads: 32, ffn: 11008, vocab: 32000, max_seq: 4096}
data: {train: mock, seq_len: 4096}
train: {steps: 10, global_batch: 64, micro_batch: 1, precision: bf16, seed: 7}
lr_schedule: {name: constant}
launch: {ranks: 8}
END
ok "$trireme" plan seven.yaml --cluster "$clusters/dgx-h100.yaml" --search --write best.yaml
expect_line '^does not fit; the first change that does: --parallel.dp zero1 needs ' stdout
expect_line '^search: [0-9]+ layouts of 8 ranks; .* predicted$' stdout
layout=$(sed -n 's/^best: //p' stdout)
expect_none 'layouts without a policy' "$(echo "$layout" | grep -v -E '^zero[123] over 8, micro-batch ')"
expect_line '^runner-up: ' stdout
expect_line '^  seed: 7$' best.yaml
step=$(sed -n '/^best: /{n;s/^  \([0-9.]*\) ms, .*/\1/p;}' stdout)
ok "$trireme" explain best.yaml --time --cluster "$clusters/dgx-h100.yaml" --json
printf '%.5g\n' "$(sed -n 's/.*"step_ms_predicted":\([0-9.]*\).*/\1/p' stdout)" >written
echo "$step" >found
expect_same found written
ok "$trireme" plan best.yaml --cluster "$clusters/dgx-h100.yaml" --search --json
expect_json_lines stdout
expect_line '"search":\{"layouts":[0-9]+,.*"best":\{"layout":"'"$layout"'","changes":""' stdout

refused 2 '^trireme: --write: valid with --search$' "$trireme" plan seven.yaml --write best.yaml
refused 2 '^trireme: --write: needs the name of a file$' "$trireme" plan seven.yaml --search --write ''
refused 2 "^trireme: --tokens: found 'many'; valid: 1 or more" "$trireme" plan seven.yaml --tokens many
refused 2 '^trireme: --cluster and --machine: found both; valid: one of them$' \
    "$trireme" plan seven.yaml --cluster a --machine b
refused 2 'no machine file yet' "$trireme" plan seven.yaml --search
refused 2 'none.json' "$trireme" plan seven.yaml --machine none.json
refused 2 'none.yaml' "$trireme" plan seven.yaml --cluster none.yaml
cp "$clusters/dgx-h100.yaml" one.yaml
echo 'nodes: 1' >>one.yaml
refused 2 'launch.ranks: found 16; valid on this cluster: auto, or 1 to 8, 8 on each host' \
    "$trireme" plan seven.yaml --cluster one.yaml --launch.ranks 16
refused 3 '^trireme: --write: no layout fits in memory$' \
    "$trireme" plan seven.yaml --cluster "$clusters/dgx-h100.yaml" --memory.budget 1Mi --search --write none.yaml
expect_no_file none.yaml

make_data
make_job
ok "$trireme" plan job.yaml
expect_line '^\* as the job is ' stdout
expect_no_file out
refused 2 'layrs' "$trireme" plan job.yaml --model.layrs 3
ok "$trireme" plan --help

# ---- A budget between two micro-batches
make_job 'family: gpt2, layers: 4, hidden: 64, heads: 2, vocab: 320, max_seq: 256, drop_embed: 0, drop_attention: 0, drop_residual: 0'
sed -i 's/seq_len: 16/seq_len: 256/; s/global_batch: 4, micro_batch: 1/global_batch: 64, micro_batch: 32/' job.yaml
ok "$trireme" plan job.yaml --json
all=$(sed 's/.*"first_fit":[^}]*"bytes":\([0-9]*\),.*/\1/' stdout)
ok "$trireme" plan job.yaml --json --train.micro_batch 16
# In the middle, 27 MB from both. The program's own memory differs between starts by a tenth of that.
budget=$(((all + $(sed 's/.*"first_fit":[^}]*"bytes":\([0-9]*\),.*/\1/' stdout)) / 2))
refused 3 'on each of 2 ranks \(weights .*the first change that fits: --train.micro_batch 16 needs .*memory.fit true makes it' \
    "$trireme" train job.yaml --memory.budget $budget
ok "$trireme" train job.yaml --memory.budget $budget --memory.fit --train.steps 2
expect_line '^trireme: memory.fit: the job needs .* of .*; --train.micro_batch 16 needs '
expect_line '"event":"start".*"note":"memory.fit: .*--train.micro_batch 16' out/log.jsonl
expect_line '^  micro_batch: 16$' out/job.yaml
ok "$trireme" explain job.yaml --memory.budget $budget --memory.fit
expect_line '^train.micro_batch +16 +memory.fit$' stdout
# The changed job can be resumed without changes.
ok "$trireme" train out/job.yaml --train.steps 3
expect_no_line 'memory.fit'
expect_steps out 3

finish
