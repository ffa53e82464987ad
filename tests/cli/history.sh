# history.sh -- the folder of a run has one history: which checkpoint a run resumes from, what is refused and what
# the message proposes, and which files of an earlier run are kept. Only --overwrite removes files.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job
train --train.save_every 2 --train.keep 0 --train.out whole
checkpoint=whole/checkpoints/step-0000000

entries() { # FOLDER: its names on one line
    ls -A "$1" | tr '\n' ' ' | sed 's/ $//'
}
expect_entries() { # FOLDER NAMES
    [ "$(entries "$1")" = "$2" ] || fail "$1 holds '$(entries "$1")', expected '$2'"
}
fresh() { # makes `out` a copy of the run in `whole`
    rm -rf out
    cp -r whole out
    sed -i "s|^  out: .*|  out: $PWD/out|" out/job.yaml
}
# Refused with one line; the run in `out`, a copy of `whole`, must not change.
keeps() { # REGEX ARGUMENTS...
    fresh
    [ -z "${break-}" ] || eval "$break"
    cp -r out before
    run "$trireme" train job.yaml "${@:2}"
    expect_exit 2
    expect_lines 1 stderr
    expect_line "$1"
    expect_none 'changed' "$(diff -r before out 2>&1)"
    rm -r before
}

# ---- The newest checkpoint is chosen from the folder, not from the link `latest`; resuming corrects the link
fresh
ln -sfn step-00000002 out/checkpoints/latest
rm -r out/checkpoints/step-00000008
ok "$trireme" train job.yaml --train.save_every 2 --train.keep 0
expect_line '^resuming from out/checkpoints/step-00000006$'
[ "$(readlink out/checkpoints/latest)" = step-00000008 ] || fail "latest is $(readlink out/checkpoints/latest)"
expect_same_checkpoint whole out

fresh
ln -sfn step-00000006 out/checkpoints/latest # also in a run that is done
train
expect_line 'already at step 8 of 8; raise train.steps$'
[ "$(readlink out/checkpoints/latest)" = step-00000008 ] || fail "latest is $(readlink out/checkpoints/latest)"
# but not with --resume of an older one
train --resume out/checkpoints/step-00000004 --train.steps 4
expect_line 'step-00000004: already at step 4 of 4; raise train.steps$'
expect_entries out/checkpoints 'latest step-00000002 step-00000004 step-00000006 step-00000008'

# ---- Resuming from an older checkpoint: the later ones are moved to checkpoints-1, and the next run does not use them
fresh
ok "$trireme" train job.yaml --resume out/checkpoints/step-00000004 --train.steps 5 --train.save_every 0
expect_line '^trireme: kept in .*/out: checkpoints-1$'
expect_entries out/checkpoints 'latest step-00000002 step-00000004'
expect_entries out/checkpoints-1 'step-00000006 step-00000008'
[ "$(readlink out/checkpoints/latest)" = step-00000004 ] || fail "latest is $(readlink out/checkpoints/latest)"
ok "$trireme" checkpoint verify out/checkpoints-1/step-00000008
train --train.steps 7 --train.save_every 7
[ "$(grep -o '"resumed_from":[0-9]*' out/log.jsonl | tr '\n' ' ')" = '"resumed_from":4 "resumed_from":4 ' ] ||
    fail "resumed from: $(grep -o '"resumed_from":[0-9]*' out/log.jsonl)"
expect_entries out/checkpoints 'latest step-00000004 step-00000007'
# --resume with the run's own folder: its newest checkpoint
ok "$trireme" train job.yaml --resume out --train.save_every 2
expect_line '^resuming from out/checkpoints/step-00000007$'
expect_same_checkpoint whole out

# ---- --resume never, and a checkpoint of another folder: all files of the earlier run are moved away
fresh
ok "$trireme" train job.yaml --resume never --train.steps 3 --train.save_every 3
expect_line '^trireme: kept in .*/out: checkpoints-1, log-1.jsonl, job-1.yaml, report-1.json, report-1.html$'
expect_same whole/log.jsonl out/log-1.jsonl
expect_none 'other checkpoints' "$(diff -r whole/checkpoints out/checkpoints-1 2>&1)"
expect_entries out/checkpoints 'latest step-00000003'
expect_steps out 3
ok "$trireme" train job.yaml --resume "${checkpoint}6" --train.save_every 8
expect_line 'kept in .*/out: checkpoints-2, log-2.jsonl, job-2.yaml, report-2.json, report-2.html$'
expect_entries out/checkpoints 'latest step-00000008'
expect_entries out '.writer checkpoints checkpoints-1 checkpoints-2 job-1.yaml job-2.yaml job.yaml log-1.jsonl log-2.jsonl log.jsonl report-1.html report-1.json report-2.html report-2.json report.html report.json spans tokenizer'
expect_steps out 2

# ---- Parameter groups stay as they are, but for their layout
fresh
train --groups '[{match: "*.bias", dp: zero3}]' --train.steps 9
expect_line '"resumed_from":8' out/log.jsonl
expect_line '^groups: \[\{match: "\*.bias", dp: zero3\}\]$' out/job.yaml

# ---- A run without checkpoints starts again and keeps the earlier log
rm -rf out
train
cp out/log.jsonl first.log
ok "$trireme" train job.yaml
expect_line 'kept in .*/out: log-1.jsonl, job-1.yaml, report-1.json, report-1.html$'
expect_same first.log out/log-1.jsonl
expect_steps out 8

# ---- The run of another job: the message names the difference and what to do
keeps '/out/job.yaml belongs to another job: optimizer.lr \(0.01 there, 0.02 here\); valid: the same values, --resume DIR --train.out NEW .*, another train.out, or --overwrite' --optimizer.lr 2e-2
keeps 'belongs to another job: groups\[0\] \(none there, \{match: "\*.bias", lr_scale: 2\} here\)' --groups '[{match: "*.bias", lr_scale: 2, dp: zero3}]'
keeps 'belongs to another job: optimizer.lr' --optimizer.lr 2e-2 --resume never
keeps 'belongs to another job: optimizer.lr' --optimizer.lr 2e-2 --resume "${checkpoint}4"
break='rm -r out/checkpoints'
keeps 'belongs to another job: .*; valid: the same values, another train.out, or --overwrite' --optimizer.lr 2e-2
expect_no_line 'resume DIR'
break='rm out/job.yaml'
keeps 'train.out: .*/out holds checkpoints, but no job.yaml that names their job; valid: --resume DIR --train.out NEW .*--overwrite'
keeps 'holds checkpoints, but no job.yaml' --resume never --train.keep 1 --train.save_every 1
unset break
keeps "--resume: .*/out/checkpoints/step-00000004 belongs to the run that --overwrite removes" --overwrite --resume out/checkpoints/step-00000004
keeps '--overwrite: takes no value' --overwrite=yes

# ---- What the message proposes: resuming in another folder, where values other than the model's may change; or --overwrite
rm -rf elsewhere
train --optimizer.lr 2e-2 --resume whole --train.steps 9 --train.save_every 9 --train.out elsewhere
expect_line '"resumed_from":8' elsewhere/log.jsonl
expect_entries elsewhere '.writer checkpoints job.yaml log.jsonl report.html report.json spans tokenizer'
fresh
touch out/notes
cp out/log.jsonl out/log-1.jsonl
train --optimizer.lr 2e-2 --overwrite --train.save_every 8
expect_entries out '.writer checkpoints job.yaml log-1.jsonl log.jsonl notes report.html report.json spans tokenizer'
expect_entries out/checkpoints 'latest step-00000008'
expect_no_line resumed_from out/log.jsonl
expect_steps out 8
rm out/job.yaml
train --overwrite --resume whole --train.steps 9
expect_line '"resumed_from":8' out/log.jsonl
expect_no_file out/checkpoints/step-00000008

# ---- A checkpoint of another model, or of other positions: one line that names it, before any rank starts
other() { # KEY-REGEX ARGUMENTS...
    refused 2 "^trireme: --resume: .*/step-00000004 was saved by a run with other values: $1; valid: the same values, or .*model.path" \
        "$trireme" train job.yaml --resume "${checkpoint}4" "${@:2}"
}
other 'model.heads \(2 there, 4 here\)' --model.heads 4
other 'model.activation \(gelu_new there, relu here\)' --model.activation relu
other 'model.norm_eps \(1.0e-05 there, 0.001 here\)' --model.norm_eps 1e-3
other 'model.hidden \(16 there, 32 here\), model.ffn \(64 there, 128 here\)' --model.hidden 32
other 'train.global_batch \(4 there, 8 here\)' --train.global_batch 8
other 'data.seq_len \(16 there, 8 here\)' --data.seq_len 8
other 'train.precision \(fp32 there, bf16 here\)' --train.precision bf16
other 'train.seed \(0 there, 7 here\)' --train.seed 7
other 'optimizer.name \(adamw there, lion here\)' --optimizer.name lion
cp job.yaml gpt2.yaml
make_job 'family: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, vocab: 320, max_seq: 16'
other 'model.family \(gpt2 there, llama here\)'
cp gpt2.yaml job.yaml
# Also where the job names a model folder whose config.json has changed since
cp -r "${checkpoint}8" model
sed -i '/family/s/.*/model: {path: model}/' job.yaml
train --train.steps 4 --train.save_every 4 --train.out folder
sed -i 's/"n_head": 2/"n_head": 4/' model/config.json
run "$trireme" train job.yaml --train.out folder
expect_exit 2
expect_line 'step-00000004 was saved by .*: model.heads \(2 there, 4 here\)'
cp gpt2.yaml job.yaml
# A folder that is not a checkpoint
refused 2 '^trireme: --resume: cannot open .*/none/trireme/manifest.json: No such file or directory$' "$trireme" train job.yaml --resume none
refused 2 'model: not a checkpoint of Trireme' "$trireme" train job.yaml --resume "$(rm -r model/trireme; echo model)"
# Dropout and similar keys belong to the run, not to the model
train --resume "${checkpoint}4" --model.drop_residual 0.1 --train.out elsewhere2
expect_line '"resumed_from":4' elsewhere2/log.jsonl

# ---- The folder of a run stands for its newest valid checkpoint
fresh
ln -sfn step-00000002 out/checkpoints/latest
for folder in out out/checkpoints/step-00000008; do
    ok "$trireme" generate --model $folder --prompt the --tokens 8 --temperature 0
    cat stdout >>texts
    ok "$trireme" eval job.yaml --model $folder --json
    cat stdout >>evals
    ok "$trireme" checkpoint show $folder --json
    cat stdout >>shown
    ok "$trireme" checkpoint verify $folder
    cat stdout >>verified
    ok "$trireme" train job.yaml --model.path $folder --train.steps 1 --train.out "from-$(basename $folder)" --quiet
done
for said in texts evals shown verified; do [ "$(sort -u $said | wc -l)" = 1 ] || fail "$said differ: $(cat $said)"; done
expect_same_losses from-out from-step-00000008
truncate -s -8 out/checkpoints/step-00000008/model.safetensors
run "$trireme" checkpoint verify out
expect_exit 2
expect_line 'step-00000008 is broken'
ok "$trireme" checkpoint show out --json
expect_line '"step": *6' stdout
mkdir -p empty/checkpoints
run "$trireme" generate --model empty --prompt the
expect_exit 2
expect_line 'empty: the run has no checkpoint yet'

# ---- A folder that is removed during the run is not made again: one line, at the next step or at the next checkpoint
for save_every in 1000000 3; do
    rm -rf out
    timeout 60 "$trireme" train job.yaml --quiet --train.steps 1000000000 --train.save_every $save_every \
        >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line '"event":"step","step":5,' out/log.jsonl
    until rm -rf out 2>rm.stderr; do :; done
    wait $starter
    code=$?
    expect_exit 1
    expect_lines 1 stderr
    [ $save_every = 3 ] || expect_line '^trireme: rank 0: train.out: .*/out was removed during the run$'
    expect_line '^trireme: rank [01]: .*/out.*'
    rm -rf out # rm and a save that ran at the same time may have left files
done

# ---- A path with control characters goes through job.yaml and back
odd=$(printf 'odd\302\205\303\251\342\200\250\357\273\277\302\240name')
train --train.steps 4 --train.save_every 4 --train.out "$odd"
rm -rf moved.log
ok "$trireme" train "$odd/job.yaml" --train.steps 8 --quiet
expect_line '"resumed_from":4' "$odd/log.jsonl"
here=$PWD
mkdir "$(printf 'latin\351')"
cd "$(printf 'latin\351')"
cp ../job.yaml .
refused 2 'train.out: the path is not UTF-8 at byte [0-9]+; valid: UTF-8' "$trireme" train job.yaml --data.train mock --data.valid mock
cd "$here"
finish
