# diagnose.sh -- `trireme diagnose`: logs that it reads, what it answers, its exit codes. The causes themselves are tested with
# the logs of tests/golden/diagnose/ (tests/unit/diagnose/).
. "$(dirname "$0")/lib.sh" "$1"

step() { # COUNT: lines of a run that goes well
    awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "step %d | loss %.3f\n", i, 9 / i }'
}
memory='torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.20 GiB is free.'
late='[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.'
{ step 5; echo "[rank3]: $memory"; echo "$late"; } >memory.log

# ---- A cause
ok "$trireme" diagnose memory.log
expect_line '^cause: a GPU has no memory left: 2.00 GiB were asked for, 1.20 GiB of 79.15 GiB were free \[gpu-memory\]$' stdout
expect_line '^where: rank 3$' stdout
expect_line '^  memory.log:6: \[rank3\]: torch.OutOfMemoryError' stdout
expect_line '^  nccl-timeout \(memory.log:7\)$' stdout
expect_line '^  Lower the micro-batch' stdout
expect_line '^  \$ trireme doctor ' stdout
expect_lines 0 stderr
cp stdout of_file

# The same log from elsewhere
same() { # WHAT
    sed "s|$1:|memory.log:|" stdout >again
    expect_same again of_file
}
gzip -c memory.log >memory.log.gz
ok "$trireme" diagnose memory.log.gz
same memory.log.gz
"$trireme" diagnose - <memory.log >stdout 2>stderr || fail 'standard input has no cause'
same 'standard input'
cat memory.log.gz | "$trireme" diagnose - >stdout 2>stderr || fail 'standard input of gzip has no cause'
same 'standard input'
mkdir -p logs/a
cp memory.log logs/a/rank3.log
ok "$trireme" diagnose logs
same logs/a/rank3.log
printf '%s' "$(cat memory.log)" >cut.log # no line break at the end
ok "$trireme" diagnose cut.log
same cut.log
{ step 5; printf '\033[31m[rank3]: %s\033[0m\r\n%s\r\n' "$memory" "$late"; } >colors.log
ok "$trireme" diagnose colors.log
expect_line '^where: rank 3$' stdout

ok "$trireme" diagnose memory.log --json
expect_lines 1 stdout
expect_json_lines stdout
expect_line '"code":"gpu-memory"' stdout
expect_line '"rank":3' stdout
expect_line '"line":6' stdout
expect_line '"confidence":"high"' stdout
expect_line '"failure":true' stdout

# ---- Several logs: the weightiest cause counts wherever it stands, and the earliest of equal ones
echo "$memory" >unprefixed.log
echo "$late" >rank0.log
echo "2025-01-02 03:04:09 [rank1]: RuntimeError: CUDA error: device-side assert triggered" >rank1.log
echo "2025-01-02 03:04:05 [rank2]: $memory" >rank2.log
ok "$trireme" diagnose rank0.log rank1.log rank2.log
expect_line '^where: rank 2$' stdout
ok "$trireme" diagnose rank2.log rank1.log rank0.log
expect_line '^where: rank 2$' stdout
ok "$trireme" diagnose rank1.log rank0.log
expect_line 'rank 1$' stdout
ok "$trireme" diagnose rank0.log
expect_line '\[nccl-timeout\]$' stdout

# A log of one rank, by its path
mkdir -p elastic/attempt_0/5
cp unprefixed.log rank-7.err
cp unprefixed.log elastic/attempt_0/5/stderr.log
ok "$trireme" diagnose rank-7.err
expect_line '^where: rank 7$' stdout
ok "$trireme" diagnose elastic
expect_line '^where: local rank 5$' stdout

# The files of a model in a folder of a run are no logs.
mkdir -p run/checkpoints/3
step 3 >run/log.jsonl
echo '{"Killed": 1, "CUDA out of memory": 2, "error": 3}' | tee run/checkpoints/3/tokenizer.json >run/checkpoints/3/vocab.txt
run "$trireme" diagnose run
expect_exit 1
expect_line '^no failure found in 3 lines of 1 log$' stdout

# ---- No cause
step 40 >healthy.log
run "$trireme" diagnose healthy.log
expect_exit 1
expect_line '^no failure found in 40 lines of 1 log$' stdout
expect_lines 1 stdout
run "$trireme" diagnose healthy.log --json
expect_exit 1
expect_line '"failure":false' stdout
{ step 2; echo 'frobnicator: fatal error: the flux is inverted'; } >unknown.log
run "$trireme" diagnose unknown.log healthy.log
expect_exit 1
expect_line '^no known cause; the first error line is$' stdout
expect_line '^  unknown.log:3: frobnicator: fatal error: the flux is inverted$' stdout
run "$trireme" diagnose unknown.log --json
expect_exit 1
expect_line '"first_error":\{"file":"unknown.log","line":3,' stdout
: >empty.log
run "$trireme" diagnose empty.log
expect_exit 1

# ---- Any bytes, and lines without an end
head -c 300000 "$trireme" >binary
run "$trireme" diagnose binary
[ "$code" -le 1 ] || fail "exit code $code for any bytes"
{ head -c 3000000 /dev/zero | tr '\0' x; echo " $memory"; } >long.log
ok "$trireme" diagnose long.log
expect_line '\[gpu-memory\]$' stdout
expect_none 'a line that is not cut' "$(awk 'length($0) > 400' stdout)"
# What a log holds is no command of the terminal.
printf '\033]0;title\007RuntimeError: CUDA error: an illegal memory access was encountered\033[2J\n' >escapes.log
ok "$trireme" diagnose escapes.log
expect_none 'an escape code' "$(tr -d '\n -~' <stdout)"

# ---- Bad usage
refused 2 'give a log, a folder of logs, or - for standard input' "$trireme" diagnose
refused 2 'nowhere.log' "$trireme" diagnose nowhere.log
refused 2 'nowhere.log' "$trireme" diagnose memory.log nowhere.log
mkdir none
refused 2 'none' "$trireme" diagnose none
refused 2 '--jsn' "$trireme" diagnose memory.log --jsn
gzip -c memory.log | head -c 60 >broken.gz
refused 2 'broken.gz' "$trireme" diagnose broken.gz
if [ "$(id -u)" != 0 ]; then
    chmod 000 rank0.log
    refused 2 'rank0.log' "$trireme" diagnose rank0.log
fi

# ---- A run of Trireme: its own last lines are the cause
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'
run "$trireme" train job.yaml --train.epochs 0
cp stderr own.log
ok "$trireme" diagnose own.log
expect_line '^cause: ' stdout
finish
