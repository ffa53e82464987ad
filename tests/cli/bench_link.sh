# bench_link.sh -- `trireme bench link`: two ranks over a communicator and over TCP, a server and a client with the
# secret of a file and of the user, strangers, deadlines, and what is refused.
. "$(dirname "$0")/lib.sh" "$1"
unset TRIREME_SOCKET_IFNAME NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME TRIREME_SECRET_FILE
few='-b 1 -e 4096 -f 64 -n 4'

expect_rows() { # FILE: sizes 1, 64 and 4096, four messages, figures, no wrong byte
    awk '/^ +[0-9]/ { rows++; if (NF != 5 || $1 != 64 ^ (rows - 1) || $2 != 4 || $3 <= 0 || $4 < 0 || $5 != 0) exit 1 }
        END { exit rows != 3 }' "$1" || fail "unexpected rows: $(cat "$1")"
}

# ---- Two ranks of this machine
ok "$trireme" bench link --device cpu $few
expect_line '^link: communicator local between two ranks, device cpu$' stdout
expect_rows stdout
ok "$trireme" bench link $few --interface lo
expect_line '^link: tcp to 127.0.0.1:[0-9]+ of interface lo$' stdout
expect_rows stdout
for variable in TRIREME_SOCKET_IFNAME NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME; do
    ok env $variable==lo "$trireme" bench link $few --comm tcp --json
    tr -d '\n' <stdout >one
    echo >>one
    expect_json_lines one
    expect_line '^\{"link":"tcp to 127.0.0.1:[0-9]+ of interface lo","rows":\[\{"bytes":1,"messages":4,"latency_us":.*"wrong":0\}\],"wrong":0\}$' one
done
# Without a count there are 64 MiB of messages, but at most 1000.
ok "$trireme" bench link -b 128Ki -e 128Ki --interface =lo -w 0
expect_line '^ +131072 +512 ' stdout
refused 2 '^trireme: interface =no-such,=other: none that is up has such a name; valid are .*lo' \
    "$trireme" bench link --interface =no-such,=other

# ---- A server and its client
serve() { # ARGUMENTS...: starts a server; its address is in $address
    rm -f served
    "$trireme" bench link --serve "$@" >served 2>said &
    server=$!
    wait_for_line '^listening on ' served
    address=$(sed -n 's/^listening on //p' served)
}
expect_served() { # CODE
    wait $server
    local got=$?
    [ $got = "$1" ] || fail "the server's exit code is $got, expected $1: $(cat said)"
}
serve 127.0.0.1:0
ok "$trireme" bench link "$address" $few
expect_line "^link: tcp to $address$" stdout
expect_rows stdout
expect_served 0
expect_line '^served messages of 1 to 4096 bytes; 0 bytes arrived wrong$' served
expect_lines 0 said

printf 'a secret of sufficient length\n' >secret
printf 'another secret of that length\n' >other
chmod 600 secret other
serve 0 --interface lo --secret-file secret
refused 2 '^trireme: bench link: 127.0.0.1:[0-9]+: it has another secret; valid: the same --secret-file' "$trireme" bench link "$address" $few
refused 2 '^trireme: bench link: 127.0.0.1:[0-9]+: it has another secret' "$trireme" bench link "$address" $few --secret-file other
# A stranger that sends anything else, and one that leaves.
exec 5<>"/dev/tcp/127.0.0.1/${address##*:}" && printf '%0400d' 0 >&5 && exec 5>&-
ok env TRIREME_SECRET_FILE=secret "$trireme" bench link "$address" $few --json
expect_line '"wrong":0}$' stdout
expect_served 0
expect_line '^trireme: warning: bench link: 127.0.0.1:[0-9]+ was refused: it does not have the secret of this server$' said
expect_lines 3 said
# A server with the secret of the user, and a client with that of a file.
serve 127.0.0.1:0 -T 100
refused 2 '^trireme: bench link: 127.0.0.1:[0-9]+: it has another secret' "$trireme" bench link "$address" --secret-file secret
ok "$trireme" bench link "$address" $few
expect_served 0
refused 2 "^trireme: a benchmark's server on 0.0.0.0:0, which other hosts reach, needs a secret" "$trireme" bench link --serve 0.0.0.0:0

# ---- Deadlines: nobody comes, nobody answers, and an end that is lost.
run "$trireme" bench link --serve 127.0.0.1:0 -T 0.1
expect_exit 1
expect_line '^trireme: bench link: no client came in time$'
serve 127.0.0.1:0
kill -STOP $server
run "$trireme" bench link "$address" -T 0.2
expect_exit 1
expect_line "^trireme: bench link: $address: (an answer|connecting) took too long$"
kill -CONT $server
kill $server
wait $server 2>/dev/null
run "$trireme" bench link "$address" -T 0.2
expect_exit 1
expect_line "^trireme: bench link: $address: (nobody was there in time|connecting took too long)"
serve 127.0.0.1:0
rm -f rows
"$trireme" bench link "$address" -b 8 -e 8 -n 16M >rows 2>&1 &
client=$!
wait_for_line '^link: ' rows
kill -KILL $client
wait $client 2>/dev/null
expect_served 1
expect_line '^trireme: bench link: 127.0.0.1:[0-9]+: the connection' said

# ---- Refused
refuse() { # REGEX ARGUMENTS...
    local pattern=$1
    shift
    refused 2 "^trireme: $pattern" "$trireme" bench link "$@"
}
refuse 'bench link: --serve and 127.0.0.1:1; a server' 127.0.0.1:1 --serve 127.0.0.1:1
refuse 'bench link: --serve takes no sizes' --serve 127.0.0.1:0 -n 1
refuse 'bench link: --serve takes no sizes' --serve 127.0.0.1:0 --json
refuse 'bench link: --comm and --device are of two ranks' 127.0.0.1:1 --comm tcp
refuse 'bench link: --interface: the address' 127.0.0.1:1 --interface lo
refuse 'bench link: --secret-file is for' --secret-file secret
refuse 'bench link: --interface: found --comm local; valid is tcp' --interface lo --comm local
refuse 'bench link: --device: TCP sockets' --interface lo --device cpu
refuse "bench link: found '127.0.0.1', without a port" 127.0.0.1
refuse "bench link: found 'c:2' after 'a:1'" a:1 c:2
refuse "--serve: found '127.0.0.1', without a port" --serve 127.0.0.1
refuse '--serve: found port 70000' --serve 70000
refuse '--serve: 192.0.2.77 is no address of this machine' --serve 192.0.2.77:0
refuse '--serve: an address and --interface' --serve 127.0.0.1:0 --interface lo
refuse '--maxbytes: found 2147483648; valid are 1 to 1073741824' -e 2Gi
refuse '--minbytes 64 is more than --maxbytes 8' -b 64 -e 8
refuse '--stepfactor: found 1; valid are 2' -f 1
refuse '--timeout: found 0; valid' -T 0
refuse '.*communicator.*no-such' --comm no-such
finish
