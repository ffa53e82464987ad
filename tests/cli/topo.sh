# topo.sh -- `trireme topo`: this machine and others, as text, matrix, picture and JSON, what it measures, and what it refuses.
golden=$(cd "$(dirname "$0")/../golden/topology" && pwd)
. "$(dirname "$0")/lib.sh" "$1"
# hwloc's plugin for PCI is unloaded at the end, with the only pointers to the devices that its library keeps. On machines
# with such devices the address sanitizer takes them for lost.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

ok "$trireme" topo
expect_line '^[0-9]+ sockets?, .*[0-9]+ hardware threads?$' stdout
expect_line 'cores?(,|:) .*\(threads [0-9,-]+\)$' stdout
ok "$trireme" topo --json
expect_json_lines stdout
expect_line '^\{"machine":\{"kind":"machine","label":"[^"]*hardware thread' stdout
expect_no_line '"measured"' stdout

# Another machine's file. Nothing of this machine is in it.
ok "$trireme" topo --input "$golden/gpus.xml" --svg picture.svg
expect_line '^2 sockets, 2 NUMA nodes, 8 cores, 16 hardware threads$' stdout
expect_line '^GPU0	 X 	PHB	SYS	SYS	PIX	NODE	0-7	0	N/A$' stdout
expect_line '^  NIC0: mlx5_0, ib0$' stdout
expect_line '^<svg xmlns="http://www.w3.org/2000/svg" width="[0-9]+" height="[0-9]+"' picture.svg
[ "$(grep -c '<rect class="gpu"' picture.svg)" = 4 ] || fail 'the picture has other GPUs than four'
[ "$(grep -c '<rect class="path"' picture.svg)" = 36 ] || fail 'the table has other cells than 36'
ok "$trireme" topo --input "$golden/gpus.xml" --json
expect_json_lines stdout
expect_line '"kind":"gpu","number":3,"title":"GH100 \[H100 SXM5 80GB\]","address":"0000:9e:00.0","threads":"8-15","numa_nodes":"1","paths":\["SYS","SYS","PXB","X","SYS","SYS"\]' stdout
ok env HWLOC_SYNTHETIC='pack:2 core:2 pu:2' "$trireme" topo
expect_line '^2 sockets, .*, 4 cores, 8 hardware threads$' stdout

# Rates. One core has no other one to reach.
ok taskset -c "$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$trireme" topo --measure --json
expect_json_lines stdout
expect_line '"measured":\{"copies":\[\{"numa_node":[0-9]+,"gb_per_s":[0-9.]+\}\],"core_latency":\[\],"gpu_links":\[\]\}' stdout

refused 2 '^trireme: topo: --measure measures this machine; valid without --input$' "$trireme" topo --measure --input x.xml
refused 2 '^trireme: nosuch.xml: there is no such file$' "$trireme" topo --input nosuch.xml
echo 'no topology' >words.xml
refused 2 '^trireme: words.xml: hwloc ' "$trireme" topo --input words.xml
refused 1 'nosuch/a.svg' "$trireme" topo --svg nosuch/a.svg
finish
