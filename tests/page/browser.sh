#!/bin/sh
# The page of a run in a browser, from a file: its script runs to its end without an error, each section is drawn, a name
# of the run is text and no code, and no address is asked for. Skipped where there is no browser.
#   browser.sh MADE_PAGE [PICTURE.png]   absolute paths; the picture is of a run of 8 ranks
set -u
made_page=$1
picture=${2-}
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
[ -z "$picture" ] || look "$scratch/run-8/page.html" --screenshot="$picture"
[ "$failures" = 0 ]
