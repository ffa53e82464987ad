#!/bin/bash
# `trireme top`: a run is listed from its folder, as text and as JSON, without a terminal; wrong folders are refused.
. "$(dirname "$0")/lib.sh" "$1"

mkdir run
cat >run/log.jsonl <<'EOF'
{"event":"start","version":"0.1.0","ranks":2,"model":"gpt2","policy":"zero1","precision":"fp32","device":"cpu","steps":40}
{"event":"step","step":1,"loss":4.5,"grad_norm":1,"lr":0.001,"tokens":512,"seconds":0.25,"tokens_per_s":2048,"skipped":false}
{"event":"step","step":2,"loss":4.25,"grad_norm":1,"lr":0.001,"tokens":512,"seconds":0.25,"tokens_per_s":2048,"skipped":false}
EOF
ok "$trireme" top run --once
expect_line '^a run +stopped +step 2/40  loss 4.2500  2.05k tok/s  0.25 s/step$' stdout
expect_line '^run  2 ranks, gpt2, zero1, fp32, cpu$' stdout
expect_line '^ +1 - +no record ' stdout
expect_line '^ +cpu ' stdout
! grep -q $'\033' stdout || fail "escape codes in the output"

# Without --once too, because the output is no terminal.
mv stdout once
ok "$trireme" top run
sed 's/[0-9.]* [KMGT]iB free/free/' stdout >now
sed -i 's/[0-9.]* [KMGT]iB free/free/' once
expect_same now once

ok "$trireme" top run --json
expect_json_lines stdout
expect_line '"run": ?"run", ?"state": ?"stopped"' stdout
expect_line '"loss": ?4.25,' stdout

# Two runs are overlaid.
cp -r run other
ok "$trireme" top run other --once
expect_line '^b other +stopped ' stdout

# A run that has ended says so.
echo '{"event":"end","step":2,"reason":"done","seconds":0.5}' >>run/log.jsonl
ok "$trireme" top run --once
expect_line '^a run +ended ' stdout

refused 2 'nowhere: no such folder' "$trireme" top nowhere --once
mkdir empty
refused 2 'empty: not the folder of a run' "$trireme" top run empty --once
refused 2 '^trireme: --every 0: valid are seconds' "$trireme" top run --every 0
refused 2 'did you mean --once' "$trireme" top run --onec
finish
