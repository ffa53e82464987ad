#!/bin/bash
# `trireme translate --check` with a stand-in for the original, which writes the lines that original.py would: it repeats
# what Trireme's own run gives, or other numbers, or fails. A test of CI has no PyTorch; docs/results has the real one.
#   translate_check.sh TRIREME
. "${0%/*}/lib.sh" "$1"
export TMPDIR=$scratch/tmp
mkdir -p "$TMPDIR"

make_text
ok "$trireme" data prepare --input text.jsonl --train-bpe 300 --append-eod --output-prefix shards
cat >start.yaml <<'END'
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 304, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 1, global_batch: 4, eval_every: 0, save_every: 1, out: start}
launch: {ranks: 1}
END
ok "$trireme" train start.yaml --quiet
model=$scratch/start/checkpoints/step-00000001
cat >ds.json <<'END'
{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}}
END
keys="--model.path $model --data.train shards --data.seq_len 16 --launch.ranks 2 --launch.threads_per_rank 1"

# The numbers of the same steps, as a run gives them; the model's dropout is 0, as --check has it.
cp -r "$model" still
sed -i 's/"\([a-z]*_pdrop\)": *[0-9.]*/"\1": 0.0/' still/config.json
ok "$trireme" train --deepspeed ds.json $keys --model.path still --data.order sequential --train.steps 1000 \
    --train.save_every 0 --train.eval_every 0 --train.out own --quiet --lr_schedule.name constant --train.steps 5
expect_lines 5 <(grep '"event":"step"' own/log.jsonl)
keys="$keys --lr_schedule.name constant"

# original NAME: a program in place of Python, whose body follows on stdin. It has $result, $probe and $rank.
original() {
    { printf '#!/bin/bash\nresult=$(sed -n "s/^ *\\"result\\": \\"\\(.*\\)\\",*$/\\1/p" "$2")\nprobe=${3-}\nrank=${RANK-0}\n'
      cat; } >"$1"
    chmod +x "$1"
}
versions='echo "{\"versions\": \"deepspeed 9.9, torch 9.9\"}" >>"$result"; exit 0'
lines='[ "$rank" = 0 ] && grep "\"event\":\"step\"" '$scratch'/own/log.jsonl >>"$result"'

# Agreement
original same <<END
[ "\$probe" ] && { $versions; }
cp "\$2" $scratch/request.json
$lines
[ "\$rank" = 0 ] && echo '{"peak_bytes": 1048576, "base_bytes": 524288}' >>"\$result"
exit 0
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./same
expect_exit 0
expect_line '^ +1 +[0-9.]+ +[0-9.]+ +[0-9.e+-]+ +[0-9.]+ +[0-9.]+ +[0-9.e+-]+$' stdout
expect_line '^memory of a rank, at most: Trireme [0-9.]+ MiB, DeepSpeed 1.00 MiB, of which Python and its libraries 512.00 KiB$' stdout
expect_line '^note: dropout is 0 in both' stdout
expect_line '^verdict: the same run: 5 losses differ by at most [0-9.e+-]+, 5 gradient norms by at most .*; the tolerance of fp32 is 0.0001 \(Trireme [0-9.]+, deepspeed 9.9, torch 9.9, 2 ranks\)$' stdout
expect_line '"micro_batch": 2' request.json
expect_line '"accumulation": 2' request.json
expect_line '"decay_all": true' request.json
expect_none 'left in the temporary folder' "$(ls -A "$TMPDIR")"

# Fewer steps, as JSON
run "$trireme" translate --check deepspeed ds.json $keys --python ./same --steps 2 --json
expect_exit 0
expect_json_lines stdout
expect_line '^\{"same":true,"tolerance":0.0001,.*"steps":\[\{"step":1,"loss":\[[0-9.]+,[0-9.]+\].*\{"step":2,' stdout
expect_no_line '"step":3' stdout

# Another loss from step 3 on, and no gradient norms
original other <<END
[ "\$probe" ] && { $versions; }
[ "\$rank" = 0 ] && grep '"event":"step"' $scratch/own/log.jsonl | sed 's/"grad_norm":[0-9.e-]*,//; /"step":[345],/s/"loss":/"loss":1/' >>"\$result"
exit 0
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./other
expect_exit 1
expect_line '^the losses agree up to step 2: the forward pass is the same' stdout
expect_line '^ruled out: order of data .*, dropout .*, averaging of losses .*, number formats \(all fp32\), learning rates \(equal\)$' stdout
expect_line '^ +3 +[0-9.]+ +1[0-9.]+ +[0-9.]+ +[0-9.]+ +- +-$' stdout
expect_line '^verdict: another run: 5 losses differ by at most ' stdout
# The same numbers under bf16: the formats are named.
run "$trireme" translate --check deepspeed ds.json $keys --python ./other --train.precision bf16
expect_exit 1
expect_line '^number formats: .*DeepSpeed' stdout
expect_line 'the tolerance of bf16 is 0.02 ' stdout

# Another learning rate
original rate <<END
[ "\$probe" ] && { $versions; }
[ "\$rank" = 0 ] && grep '"event":"step"' $scratch/own/log.jsonl | sed 's/"lr":[0-9.e-]*/"lr":0.5/' >>"\$result"
exit 0
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./rate
expect_exit 1
expect_line '^learning rate: step 1 has 0.01 here and 0.5 there$' stdout

# Packages that lack, which is known before anything is trained; and a check that the driver refuses.
original lacks <<'END'
[ "$probe" ] || exit 9
echo '{"cannot": "this Python lacks deepspeed"}' >>"$result"
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./lacks
expect_exit 2
expect_lines 1 stderr
expect_line '^trireme: DeepSpeed cannot run here: this Python lacks deepspeed$'
run "$trireme" translate --check deepspeed ds.json $keys --python ./lacks --json
expect_exit 2
expect_line '^\{"cannot":"this Python lacks deepspeed"\}$' stdout

# A crash of one rank while another one waits: its last line is shown, and nothing is left.
original crash <<END
[ "\$probe" ] && { $versions; }
[ "\$rank" = 1 ] && { echo 'Traceback (most recent call last):' >&2; echo 'RuntimeError: no such kernel' >&2; exit 1; }
echo \$\$ >$scratch/waits
sleep 1000
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./crash
expect_exit 2
expect_line '^trireme: DeepSpeed cannot run here: it failed: rank 1 .* ended with exit code 1: RuntimeError: no such kernel$'
[ ! -e waits ] || ! kill -0 "$(cat waits)" 2>/dev/null || fail 'a rank of the original still runs'
expect_none 'left in the temporary folder' "$(ls -A "$TMPDIR")"

# It ends too early, or writes what is no JSON.
original early <<END
[ "\$probe" ] && { $versions; }
[ "\$rank" = 0 ] && grep -m 2 '"event":"step"' $scratch/own/log.jsonl >>"\$result"
exit 0
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./early
expect_exit 2
expect_line 'it ended after 2 of 5 steps'
original broken <<'END'
echo 'loss 5' >>"$result"
END
run "$trireme" translate --check deepspeed ds.json $keys --python ./broken
expect_exit 2
expect_line 'a line that is no JSON'

# A stop: the ranks of the original end, and the temporary folder goes.
original waits <<END
[ "\$probe" ] && { $versions; }
[ "\$rank" = 0 ] && echo \$\$ >$scratch/waits.new && mv $scratch/waits.new $scratch/stopped
exec sleep 1000
END
"$trireme" translate --check deepspeed ds.json $keys --python ./waits >stdout 2>stderr &
started=$!
until [ -e stopped ]; do sleep 0.1; done
kill -TERM $started
kill -INT $started
kill -TERM $started
wait $started
code=$?
expect_exit 130
! kill -0 "$(cat stopped)" 2>/dev/null || fail 'a rank of the original still runs'
expect_none 'left in the temporary folder' "$(ls -A "$TMPDIR")"

# What is refused before anything starts
refused 2 'cannot run .*no-such-python' "$trireme" translate --check deepspeed ds.json $keys --python ./no-such-python
refused 2 'data.train must be the prefix of one pair' "$trireme" translate --check deepspeed ds.json $keys --data.train mock --python ./same
refused 2 'found parallel.tp 2; valid: 1' "$trireme" translate --check deepspeed ds.json $keys --launch.ranks 4 --parallel.tp 2 --python ./same
refused 2 'model.path must be a folder with weights' "$trireme" translate --check deepspeed ds.json $keys --model.init random --python ./same
refused 2 '--steps: found 0; valid: 1 to 1000' "$trireme" translate --check deepspeed ds.json $keys --steps 0
refused 2 '--check: found 2 files; valid: one' "$trireme" translate --check deepspeed ds.json ds.json $keys
refused 2 'found system deepsped; .*did you mean deepspeed' "$trireme" translate --check deepsped ds.json $keys
expect_none 'left in the temporary folder' "$(ls -A "$TMPDIR")"
finish
