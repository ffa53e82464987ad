# metrics.sh -- a run exports its numbers: to Prometheus over HTTP while it goes, into a file for node_exporter, into event
# files of TensorBoard, and into metrics.csv, which a resumed run continues.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'

# Sends a request to the exporter and prints the answer.
ask() ( # METHOD PATH
    trap '' PIPE # the exporter may end meanwhile
    exec 3<>"/dev/tcp/127.0.0.1/$port" || exit
    printf '%s %s HTTP/1.0\r\nContent-Length: 0\r\n\r\n' "$1" "$2" >&3 || exit
    tr -d '\r' <&3
)

# ---- While a run goes
"$trireme" train job.yaml --train.steps 1000000 --train.save_every 0 --train.eval_every 0 --train.out out --launch.ranks 2 \
    --observe.prometheus 0 --observe.textfile run.prom --observe.csv --observe.tensorboard >stdout 2>going </dev/null &
pid=$!
wait_for_line '"step":3,' out/log.jsonl
port=$(sed -n 's|^trireme: metrics at http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' going)
[ -n "$port" ] || fail "no line tells the port: $(cat going)"
ask GET /metrics >metrics
expect_line '^HTTP/1.[01] 200 OK$' metrics
expect_line '^Content-Type: text/plain; version=0.0.4; charset=utf-8$' metrics
expect_line "^trireme_run_info\{run=\"$scratch/out\",.*model=\"gpt2\",policy=\"ddp\",precision=\"fp32\",device=\"cpu\"\} 1\$" metrics
expect_line "^trireme_ranks\{run=\"$scratch/out\"\} 2\$" metrics
expect_line "^trireme_steps_planned\{run=\"$scratch/out\"\} 1(\.0)?e\+?06\$" metrics
expect_line "^trireme_step\{run=\"$scratch/out\"\} [1-9]" metrics
expect_line "^trireme_loss\{run=\"$scratch/out\"\} [0-9.]+\$" metrics
expect_line "^trireme_step_seconds_bucket\{run=\"$scratch/out\",le=\"\+Inf\"\} [1-9]" metrics
ask HEAD /metrics >head
expect_line '^HTTP/1.[01] 200 OK$' head
expect_no_line '^trireme_' head
ask POST /metrics >post
expect_line '^HTTP/1.[01] 405 ' post
ask GET /else >else
expect_line '^HTTP/1.[01] 404 ' else
expect_file run.prom

# A second run cannot have the port, and says so before it trains.
run "$trireme" train job.yaml --train.out second --observe.prometheus "$port"
expect_exit 1
expect_line "observe: .*127.0.0.1:$port: Address already in use"
[ "$(grep -c '"event":"step"' second/log.jsonl)" = 0 ] || fail "it has trained"

kill -INT "$pid"
wait "$pid"
code=$?
expect_exit 130
! ask GET /metrics >metrics 2>/dev/null || fail "the exporter goes on: $(head -n 1 metrics)"

# ---- The exporter of a run that is killed ends by itself, and a run goes on whose exporter is killed
"$trireme" train job.yaml --train.steps 1000000 --train.save_every 0 --train.out killed --observe.prometheus 0 \
    >stdout 2>going </dev/null &
pid=$!
wait_for_line '"step":3,' killed/log.jsonl
port=$(sed -n 's|^trireme: metrics at http://127.0.0.1:\([0-9]*\)/metrics$|\1|p' going)
kill -KILL "$pid"
wait "$pid" 2>/dev/null
deadline=$(($(now_ms) + 60000))
while ask GET /metrics >metrics 2>/dev/null && [ "$(now_ms)" -lt "$deadline" ]; do sleep 0.05; done
! ask GET /metrics >metrics 2>/dev/null || fail "the exporter of a killed run goes on"
"$trireme" train job.yaml --train.steps 2000 --train.save_every 0 --train.out alone --observe.prometheus 0 \
    >stdout 2>going </dev/null &
pid=$!
wait_for_line '^trireme: metrics at' going
for child in $(children_of "$pid"); do
    ! grep -q metrics "/proc/$child/comm" || kill -KILL "$child"
done
wait "$pid"
code=$?
expect_exit 0
expect_steps alone 2000

# ---- What it leaves
steps=$(grep -c '"event":"step"' out/log.jsonl)
expect_line "^trireme_step\{run=\"$scratch/out\"\} $steps\$" run.prom
expect_lines $((steps + 1)) out/metrics.csv
expect_line '^step,loss,grad_norm,lr,tokens,seconds,tokens_per_s,mfu,skipped,loss_scale,eval_loss$' out/metrics.csv
[ "$(tail -n 1 out/metrics.csv | cut -d, -f 1)" = "$steps" ] || fail "the last line is not step $steps"
expect_file out/tensorboard/events.out.tfevents.*
grep -aq 'brain.Event:2' out/tensorboard/events.out.tfevents.* || fail "the event file has no version"
grep -aq 'train/loss' out/tensorboard/events.out.tfevents.* || fail "the event file has no loss"

# ---- A resumed run has each step once, with its evaluation
train --train.steps 4 --train.save_every 2 --train.eval_every 2 --observe.csv --train.out again
cp again/metrics.csv whole.csv
rm -r again/checkpoints/step-00000004
train --train.steps 4 --train.save_every 2 --train.eval_every 2 --observe.csv --train.out again
expect_line '"resumed_from":2' again/log.jsonl
expect_lines 5 again/metrics.csv
cut -d, -f 1-5,8-11 again/metrics.csv | cut -d, -f 1-5,7-9 >resumed
cut -d, -f 1-5,8-11 whole.csv | cut -d, -f 1-5,7-9 >straight
expect_same straight resumed
grep -Eq '^4(,[^,]*){9},[0-9.]+$' again/metrics.csv || fail "step 4 has no evaluation: $(cat again/metrics.csv)"

# ---- A new run in the same folder keeps the files of the earlier one
train --train.steps 2 --train.save_every 0 --observe.tensorboard --train.out again --resume never
expect_file again/metrics-1.csv
expect_no_file again/metrics.csv

# ---- A file that cannot be written is said before the run trains
run "$trireme" train job.yaml --train.out third --observe.textfile none/run.prom
expect_exit 1
expect_line 'observe: .*none/run.prom'
finish
