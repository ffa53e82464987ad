# explain.sh -- `trireme explain`: the plan and the schedule of any rank, and the picture of a pipeline with its
# bubble. `trireme bench pipeline`. And the note of a run about the memory tier of its state.
. "$(dirname "$0")/lib.sh" "$1"

gpt2='family: gpt2, layers: 4, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
make_data
make_job "$gpt2"
sed -i 's/global_batch: 4/global_batch: 16/; s/micro_batch: 1/micro_batch: 2/' job.yaml
explain() {
    ok "$trireme" explain job.yaml "$@"
    expect_lines 0 stderr
}

# ---- Without a pipeline there is no picture
explain
expect_line '^rank 0 of 2, dp_(shard|replicate) 0$' stdout
expect_no_line '^pipeline|^stage' stdout
explain --json
expect_no_line '"pipeline":' stdout
refused 2 '^trireme: --svg: there is no pipeline to draw; valid: with parallel.pp 2 or more, or --time$' \
    "$trireme" explain job.yaml --svg out.svg
expect_no_file out.svg
refused 2 '^trireme: --svg: needs a value \(FILE\)$' "$trireme" explain job.yaml --parallel.pp 2 --svg
refused 2 '^trireme: --rank: needs a value \(R\)$' "$trireme" explain job.yaml --rank
refused 2 "^trireme: --rank: found ''; valid: 0 to 1\$" "$trireme" explain job.yaml --rank=

# ---- Each rank has its own schedule
explain --parallel.pp 2 --parallel.split '[2, 2]' --rank 0
expect_line '^rank 0 of 2, pp 0$' stdout
expect_line '^  SEND_ACT micro 0 block 2 to stage 1: send over pp, [0-9.]+ KiB fp32$' stdout
expect_no_line '^  RECV_ACT' stdout
explain --parallel.pp 2 --parallel.split '[2, 2]' --rank=1
expect_line '^rank 1 of 2, pp 1$' stdout
expect_line '^  RECV_ACT micro 0 block 3 from stage 0: recv over pp, [0-9.]+ KiB fp32$' stdout
expect_no_line '^  SEND_ACT' stdout
for bad in 2 -1 one 1.5 ''; do
    refused 2 "^trireme: --rank: found '$bad'; valid: 0 to 1\$" "$trireme" explain job.yaml --rank "$bad"
done

# ---- Each instruction shows the calls that it makes
explain --parallel.dp zero1 --train.reduce_dtype bf16
expect_line '^  REDUCE_GRAD bucket 0: reduce_scatter over dp_shard, [0-9.]+ KiB bf16$' stdout
expect_line '^  ALL_GATHER_UPDATED bucket 0: all_gather over dp_shard, [0-9.]+ KiB fp32$' stdout
explain --parallel.tp 2
expect_line '^  FORWARD micro 0 block 1: 2 x all_reduce over tp, [0-9.]+ KiB fp32$' stdout
expect_line '^  REDUCE_GRAD bucket 0$' stdout

# ---- The picture: with chunks that take the same time, the simulated bubble is the analytic one
bubble() { # SCHEDULE ANALYTIC [SIMULATED]: in percent
    expect_line "^$1.*: bubble $2 % analytic, ${3:-$2} % simulated\$" stdout
}
pipeline() {
    explain --parallel.pp 2 --train.global_batch 8 --train.micro_batch 1 --parallel.split '[2, 2]' "$@"
}
pipeline --even
bubble '1f1b, 2 stages, 8 micro-batches' 11.1
expect_line '^pipeline: blocks 0-2 on stage 0, blocks 3-5 on stage 1$' stdout
expect_line '^stage 0    F0F1....B0--F2B1--F3B2--' stdout
expect_line '^stage 1    ..F0B0--F1B1--F2B2--' stdout
pipeline --even --parallel.pp_schedule gpipe
bubble gpipe 11.1
pipeline --even --parallel.pp_schedule interleaved --parallel.virtual_stages 2 --parallel.split '[1, 1, 1, 1]'
bubble 'interleaved, 2 stages of 2 chunks, 8 micro-batches' 5.9
pipeline --even --parallel.pp_schedule zb
bubble zb 4.0
# By FLOPs the last chunk, which has the loss, takes longer, and the other stages wait for it.
pipeline --parallel.split '[1, 3]'
bubble 1f1b 11.1 '[2-9][0-9].[0-9]'

# ---- For programs
pipeline --json --rank 1 --even
tr -d '\n' <stdout >explained
expect_json_lines explained
expect_line '"rank":1,' explained
expect_line '"pipeline":\{"schedule":"1f1b","stages":2,"virtual_stages":1,"micro_batches":8,"bubble_analytic":0.111111111,"bubble_simulated":0.11111111[01]' explained

# ---- As a drawing: a rect for each of the 16 passes of 2 stages; zero-bubble has 3 kinds of passes
pipeline --svg p.svg
[ "$(grep -c '<rect class="op"' p.svg)" = 32 ] || fail "p.svg has $(grep -c '<rect class="op"' p.svg) passes"
expect_line '^<svg ' p.svg
expect_line '^</svg>$' p.svg
pipeline --svg=zb.svg --parallel.pp_schedule zb
[ "$(grep -c '<rect class="op"' zb.svg)" = 48 ] || fail "zb.svg has $(grep -c '<rect class="op"' zb.svg) passes"
run "$trireme" explain job.yaml --parallel.pp 2 --svg nowhere/p.svg
expect_exit 1
expect_line '^trireme: .*nowhere/p.svg' stderr
expect_lines 1 stderr

# ---- Times are predicted for a machine, which a file describes
refused 2 '^trireme: --trace: needs --time$' "$trireme" explain job.yaml --trace out
refused 2 '^trireme: --cluster: needs --time$' "$trireme" explain job.yaml --cluster c.yaml
refused 2 '^trireme: --even and --time: found both; valid: one of them$' "$trireme" explain job.yaml --time --even
refused 2 '^trireme: --cluster and --machine: found both; valid: one of them$' \
    "$trireme" explain job.yaml --time --cluster c.yaml --machine m.json
refused 2 '^trireme: .*/none/trireme/machine.json: no machine file yet: .trireme bench calibrate. writes it; or give --cluster FILE or --machine FILE$' \
    env XDG_CONFIG_HOME="$PWD/none" "$trireme" explain job.yaml --time

cat >c.yaml <<'END'
name: two nodes
nodes: 2
gpu: h100-sxm
gpus_per_node: 1
nics: {count: 1, gbits: 100}
END
explain --time --cluster c.yaml --svg t.svg --rank 1
expect_line '^time: predicted for two nodes$' stdout
expect_line '^  step [0-9.]+ ms, .* exposed communication .* bubble 0.0 %$' stdout
expect_line '^  stage 0: passes from .* idle .*collectives' stdout
expect_line '^ +[0-9.]+ +[0-9.]+  REDUCE_GRAD bucket 0: all_reduce .*; waits for BACKWARD' stdout
expect_line '>compute</text>$' t.svg
expect_line 'REDUCE_GRAD bucket 0: begins at ' t.svg
expect_no_line 'loss: of' stdout
refused 2 '^trireme: .*launch.ranks: found 4; valid on this cluster: auto, or 1 to 2' \
    "$trireme" explain job.yaml --time --cluster c.yaml --launch.ranks 4
# Where rows have no label, the loss is that of the others.
golden=${0%/*}/../golden/preference
cat >sft.yaml <<END
model: {path: $golden/model}
data: {train: $golden/sft.jsonl, seq_len: 96}
train: {steps: 2, global_batch: 4, micro_batch: 2}
launch: {ranks: 2}
END
ok "$trireme" explain sft.yaml --time --cluster c.yaml
expect_line '^  loss: of [0-9.]+ % of the tokens, which have a label in data.train$' stdout
explain --time --cluster c.yaml --json --trace predicted --parallel.pp 2
tr -d '\n' <stdout >explained
expect_json_lines explained
expect_line '"step_ms_predicted":[0-9.]+,"prediction":\{"machine":"two nodes"' explained
expect_line '"labelled_share":1,' explained
expect_line '"times":\[\{"begin_ms":0,"ms":' explained
ok "$trireme" report predicted
expect_line 'the steps were predicted for two nodes, and nothing ran' stdout
ok "$trireme" report predicted --html predicted.html
# The folder of a run is not written into.
train --train.steps 2 --train.out ran
refused 2 '^trireme: --trace: ran holds a run; valid: another folder$' \
    "$trireme" explain job.yaml --time --cluster c.yaml --trace ran
rm -r ran

# ---- Only the drawings were written
expect_no_file out

# ---- The same schedules, measured: the table has every schedule with every number of micro-batches
bench() {
    run "$trireme" bench pipeline job.yaml --train.micro_batch 1 --rounds 1 --train.steps 1 "$@"
}
bench --micros 2,4
expect_exit 0
expect_lines 8 stderr
expect_line '^run 1 of 8: gpipe, 2 micro-batches$'
expect_line '^run 8 of 8: zb, 4 micro-batches$'
expect_lines 9 stdout
expect_line '^interleaved +2 +4 +11.1 % ' stdout
expect_line '^zb +2 +2 +14.3 % ' stdout
bench --micros 4 --json
expect_exit 0
tr -d '\n' <stdout | sed 's/^\[\(.*\)\]$/{"all":[\1]}/' >figures
expect_json_lines figures
[ "$(grep -o '"run":0\.[0-9]*' figures | wc -l)" = 4 ] || fail "figures are $(cat figures)"
bench --micros 4,
expect_exit 0
for bad in 0 4,x 1,2,3,4,5,6,7,8,9; do
    refused 2 "^trireme: --micros: found '$bad'; valid: up to 8 numbers as 4,8,16\$" "$trireme" bench pipeline --micros "$bad"
done
refused 2 '^trireme: --rounds: found 0; valid: 1 to 1000$' "$trireme" bench pipeline --rounds 0
refused 2 '^trireme: bench pipeline: found parallel.pp 1; valid: 2 or more$' "$trireme" bench pipeline --parallel.pp 1
refused 2 'interleaved.* 3 micro-batches' "$trireme" bench pipeline --micros 3
expect_no_file out

# ---- The note about the host tier: once on stderr, also in a quiet run, and in the log
note='optimizer on host: on cpu ranks that is the device.s own memory'
train --train.steps 2 --parallel.offload.optimizer host
expect_lines 1 stderr
expect_line "^trireme: $note\$" stderr
expect_line "^\{\"event\":\"start\",.*\"note\":\"$note\"\}\$" out/log.jsonl
train --train.steps 2 --train.out plain
expect_lines 0 stderr
expect_no_line '"note"' plain/log.jsonl
# The file tier has a note only where the file system or the kernel refuses the fastest way.
mkdir tier
train --train.steps 2 --train.out filed --parallel.offload '{optimizer: file, path: tier}'
if [ -s stderr ]; then
    expect_lines 1 stderr
    expect_line '"note":".*instead of' filed/log.jsonl
else
    expect_no_line '"note"' filed/log.jsonl
fi
expect_same_losses plain filed

finish
