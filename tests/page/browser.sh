#!/bin/sh
# The page of a run in a browser, from a file: its script runs to its end without an error, each section is drawn, a name
# of the run is text and no code, and no address is asked for. Skipped where there is no browser.
#   browser.sh MADE_PAGE   an absolute path. pictures.py makes the pictures of docs/images.
set -u
made_page=$1
browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
[ -n "$browser" ] || { echo "no Chromium here"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/trireme-page.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
failures=0
cd "$scratch" || exit 1
size=1280,2900

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# look FILE.html OPTION...: what the browser makes of it, in dom and says.
look() {
    file=$1
    shift
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking \
        --user-data-dir="$scratch/browser" --window-size="$size" --hide-scrollbars --virtual-time-budget=2000 \
        --enable-logging=stderr --v=0 "$@" "file://$file" >"$scratch/dom" 2>"$scratch/says"
}

for ranks in 1 8 100; do
    "$made_page" "run-$ranks" "$ranks" || { fail "made_page $ranks"; continue; }
    look "$scratch/run-$ranks/page.html" --dump-dom
    ! grep 'CONSOLE' "$scratch/says" | grep -iE 'error|refused' || fail "$ranks ranks: the script failed"
    grep -q 'data-ready="yes"' "$scratch/dom" || fail "$ranks ranks: the script did not run to its end"
    [ "$(grep -o '<svg' "$scratch/dom" | wc -l)" -ge 8 ] || fail "$ranks ranks: $(grep -o '<svg' "$scratch/dom" | wc -l) charts"
    [ "$(grep -o '<canvas' "$scratch/dom" | wc -l)" = 1 ] || fail "$ranks ranks: no timeline"
done
size=1180,2600
# The pointer over each chart, over each row of the timeline, and over its middle after a zoom.
cat >moves.js <<'END'
const said = [];
const point = (node, x, y) => {
    const at = node.getBoundingClientRect();
    const event = {clientX: at.left + at.width * x, clientY: at.top + y};
    node.dispatchEvent(new MouseEvent("mousemove", event));
    if (!$("tip").hidden) said.push([...$("tip").querySelectorAll("b, td")].map(part => part.textContent).join("|"));
};
for (const node of document.querySelectorAll("svg, svg g")) point(node, 0.5, 20);
const canvas = document.querySelector("canvas");
for (let y = 0; y < canvas.clientHeight; y += 3) for (const x of [0.2, 0.8]) point(canvas, x, y);
canvas.dispatchEvent(new MouseEvent("mousedown", {clientX: 400}));
canvas.dispatchEvent(new MouseEvent("mouseup", {clientX: 500}));
point(canvas, 0.5, 24);
canvas.dispatchEvent(new MouseEvent("dblclick", {}));
document.querySelector("button").click();
dispatchEvent(new Event("resize"));
document.body.append(make("pre", {}, said.join("\n") + "\nmoved"));
END
sed -e '/<\/body>/{
    i <script>
    r moves.js
    N
}' run-8/page.html | sed 's|</body>|</script></body>|' >run-8/moved.html
look "$scratch/run-8/moved.html" --dump-dom
! grep 'CONSOLE' "$scratch/says" | grep -iE 'error|refused' || fail "the script failed when the pointer moved"
for part in '^moved' 'step [0-9]*|train|' 'rank 3 on a, pp 0 dp_shard 3|input|' '|weights|1 MiB|' '|communication|6 MiB|' \
    'FORWARD micro-batch 0|rank|0|phase|forward|' 'all_reduce|rank|0|.*|last arriver|rank 3|moves|1 MiB|process group|dp_shard'; do
    grep -q -- "$part" "$scratch/dom" || fail "no tooltip matches $part"
done
[ "$failures" = 0 ]
