#!/bin/bash
# `trireme report --html` and `--serve`: the page of a run as a file, and over HTTP on this machine, made anew for each
# request. tests/page/browser.sh looks at the page in a browser.
. "$(dirname "$0")/lib.sh" "$1"

mkdir run
cat >run/log.jsonl <<'EOF'
{"event":"start","version":"0.1.0","ranks":2,"model":"gpt2","policy":"zero1","precision":"fp32","device":"cpu","steps":40}
{"event":"step","step":1,"loss":4.5,"grad_norm":1,"lr":0.001,"tokens":512,"seconds":0.25,"tokens_per_s":2048,"skipped":false}
EOF
ok "$trireme" report run --html page.html
expect_line '^wrote page.html$' stdout
expect_line '^<!doctype html>$' page.html
expect_line '"loss":\[4.5\]' page.html
expect_no_line 'src="|https:|@import' page.html
refused 2 'nowhere: no such folder' "$trireme" report nowhere --html no.html
expect_no_file no.html
refused 2 'give one of --against, --html and --serve' "$trireme" report run --html no.html --serve 0
refused 1 'no/page.html' "$trireme" report run --html no/page.html
refused 2 'nine' "$trireme" report run --serve nine

# get PATH: the answer of the server, in `got`.
get() {
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$1" >&5
    timeout 60 cat <&5 >got
    exec 5>&-
}

"$trireme" report run --serve 0 >served 2>said &
server=$!
for ((i = 0; i < 600; i++)); do
    port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' served)
    [ -z "$port" ] || break
    sleep 0.1
done
get /
expect_line '^HTTP/1.1 200' got
expect_line '^<!doctype html>$' got
get /data.json
expect_line '"loss":\[4.5\]' got
echo '{"event":"step","step":2,"loss":4.25,"skipped":false}' >>run/log.jsonl
get /data.json
expect_line '"loss":\[4.5,4.25\]' got
get /report.json
expect_line '"verdict"' got
get /etc/passwd
expect_line '^HTTP/1.1 404' got
kill -TERM "$server"
wait "$server"
code=$?
expect_exit 0
finish
