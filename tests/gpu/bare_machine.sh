#!/bin/bash
# ./check-gpu --fetch on this machine, then ./check-gpu --build in a root that holds a C library, a compiler, Python and a
# CUDA toolkit, and no network. Run by hand: it needs a network, root and minutes. It ends where a driver is missing.
#   bare_machine.sh [--limit SECONDS] [TOOLKIT]
# SECONDS is the most that the build takes (3600), and TOOLKIT the folder of the CUDA toolkit, with cuDNN's headers
# (/usr/local/cuda).
# Exit codes: 0 the device was built and says that there is no driver, 1 not so, 77 this machine cannot make such a root.
set -eu
cd "$(dirname "$0")/../.."
limit=3600
if [ "${1-}" = --limit ]; then
    limit=${2:?"--limit needs a number of seconds"}
    shift 2
fi
toolkit=$(readlink -f "${1:-/usr/local/cuda}")
. tools/packages.sh

if [ "$(id -u)" != 0 ] || ! unshare -mn true 2>/dev/null || ! [ -x "$toolkit/bin/nvcc" ]; then
    echo "$0: it needs root, namespaces and a CUDA toolkit in $toolkit"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bare=$scratch/bare

# The root, by unpacking packages: nothing in it is configured.
mkdir -p "$scratch/debs" "$bare"
# shellcheck disable=SC2046 # a list of words
(cd "$scratch/debs" && apt-get -q download $(packages_closure libc6-dev gcc g++ make python3-minimal bash coreutils dash \
    sed grep findutils tar gzip diffutils mawk util-linux debianutils)) >"$scratch/apt.log" 2>&1
for one in "$scratch"/debs/*.deb; do dpkg-deb -x "$one" "$bare"; done
[ -e "$bare/bin/sh" ] || ln -s dash "$bare/bin/sh"
[ -e "$bare/usr/bin/awk" ] || ln -s mawk "$bare/usr/bin/awk"
mkdir -p "$bare/proc" "$bare/dev" "$bare/tmp" "$bare/root" "$bare/etc" "$bare$toolkit" "$bare/trireme"
[ "$toolkit" = /usr/local/cuda ] || ln -sfn "$toolkit" "$bare/usr/local/cuda"
for one in cmake ninja pkg-config dpkg-deb xz nvidia-smi; do
    [ ! -e "$bare/usr/bin/$one" ] || echo "the root holds $one"
done

git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$bare/trireme"
(cd "$bare/trireme" && ./check-gpu --fetch) >"$scratch/fetch.log" 2>&1 || { cat "$scratch/fetch.log"; exit 1; }
ls -l "$bare/trireme/build-packages"

cat >"$bare/inside.sh" <<'END'
set -u
export PATH=/usr/bin:/bin:/usr/local/cuda/bin HOME=/root LC_ALL=C
cd /trireme
./check-gpu --build --limit $1 || { tail -n 60 build-gpu/build.log; exit 1; }
. tools/packages.sh
packages_unpack build-packages
build-gpu/trireme explain --launch.device cuda --model.family gpt2 --data.train mock
code=$?
echo "exit code $code"
[ $code = 2 ]
END
unshare -mn bash -c "mount --bind '$toolkit' '$bare$toolkit' && mount --rbind /dev '$bare/dev' && mount -t proc proc '$bare/proc' &&
    chroot '$bare' /bin/bash /inside.sh $limit" 2>&1 | tee "$scratch/said"
[ "${PIPESTATUS[0]}" = 0 ] && grep -q 'no NVIDIA driver' "$scratch/said" || { echo "$0: FAILED"; exit 1; }
echo "$0: passed"
