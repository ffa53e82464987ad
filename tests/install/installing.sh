#!/bin/bash
# docs/installing.md, followed step by step in a home folder of its own, and then what it leaves there: the
# program without any setting, programs of one's own against each form of the library, the package.
#   installing.sh ROOT BUILD_FOLDER
root=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
if ! grep -q '^TRIREME_SANITIZE:STRING=$' "$build/CMakeCache.txt"; then
    echo 'a build with a sanitizer is not installed'
    exit 77
fi
. "$root/tests/cli/lib.sh" "$build/trireme"
unset DESTDIR PKG_CONFIG_PATH LD_LIBRARY_PATH LD_RUN_PATH CMAKE_PREFIX_PATH

# The page's commands, but those that it says nobody runs.
awk '
    /^```$/ { inside = 0 }
    inside
    /^```sh$/ { inside = previous ~ /^<!-- not run: tests\/install\/installing.sh does -->$/ }
    { previous = $0 }' "$root/docs/installing.md" >page.sh
[ "$(wc -l <page.sh)" -gt 20 ] || fail "the page has only $(wc -l <page.sh) lines of commands"
mkdir home checkout
ln -s "$build" checkout/build
ln -s "$root/examples" checkout/examples
if ! (cd checkout && HOME=$scratch/home timeout 250 sh -eux ../page.sh) >log 2>&1 </dev/null; then
    tail -n 20 log
    fail 'a command of docs/installing.md failed'
    finish
fi
prefix=$scratch/home/trireme

# ---- What is installed runs as it is, and is of one version
version=$(env -i "$prefix/bin/trireme" --version)
[ "$version" = "$("$trireme" --version)" ] || fail "the installed program says '$version'"
version=${version#trireme }
[ "$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion trireme)" = "$version" ] || fail 'trireme.pc has another version'
minor=${version%.*}
[ "$(readlink "$prefix/lib/libtrireme.so")" = "libtrireme.so.$minor" ] || fail "libtrireme.so is $(readlink "$prefix/lib/libtrireme.so")"
[ "$(readlink "$prefix/lib/libtrireme.so.$minor")" = "libtrireme.so.$version" ] || fail "libtrireme.so.$minor is no link to $version"
objdump -p "$prefix/lib/libtrireme.so" >header
expect_line "SONAME +libtrireme.so.$minor$" header
for file in bin/trireme lib/libtrireme.so; do
    objdump -p "$prefix/$file" >header
    expect_no_line "(RPATH|RUNPATH).*$build" header
    ldd "$prefix/$file" >needs
    expect_no_line 'not found' needs
done
expect_same "$prefix/include/trireme.h" "$root/include/trireme.h"
"$trireme" help --man >written && expect_same written "$prefix/share/man/man1/trireme.1"
"$trireme" completion bash >written && expect_same written "$prefix/share/bash-completion/completions/trireme"
"$trireme" completion zsh >written && expect_same written "$prefix/share/zsh/site-functions/_trireme"
expect_none 'a path of this machine is installed' "$(grep -rlF -e "$build" -e "$scratch" "$prefix/lib/pkgconfig" "$prefix/lib/cmake")"

# ---- Programs: which library each uses
ldd checkout/classifier >needs
expect_line "libtrireme.so.$minor => $prefix/lib/" needs
ldd checkout/program/build/shared >needs
expect_line "libtrireme.so.$minor => $prefix/lib/" needs
for file in classifier-static program/build/static; do
    ldd checkout/$file >needs
    expect_no_line 'libtrireme|not found' needs
done
# The prefix may be moved.
mv "$prefix" moved
PKG_CONFIG_PATH=moved/lib/pkgconfig pkg-config --cflags trireme >flags
[ "$(sed -n 's/^-I\(.*[^ ]\) *$/\1/p' flags | xargs realpath)" = "$(realpath moved/include)" ] || fail "moved, pkg-config says $(cat flags)"
# Another version is not taken for this one.
sed -i 's/find_package(trireme 0.1/find_package(trireme 0.2/' checkout/program/CMakeLists.txt
run cmake -S checkout/program -B elsewhere -DCMAKE_PREFIX_PATH="$PWD/moved"
[ "$code" != 0 ] || fail 'find_package took version 0.1 for 0.2'

# ---- DESTDIR, and a prefix of the system
ok env DESTDIR="$scratch/stage" cmake --install "$build" --prefix /usr
expect_file stage/usr/bin/trireme

# ---- The package
deb=$(ls checkout/trireme_"$version"_*.deb)
ok dpkg-deb --field "$deb" Version Depends Recommends
expect_line "^Version: $version$" stdout
if command -v dpkg-shlibdeps >/dev/null; then
    for library in libc6 libjansson libyaml libpcre2-8 libutf8proc libxxhash liburing libevent-core libevent-extra libssl3 libhwloc15 libpng zlib1g; do
        expect_line "^Depends:.* $library" stdout
    done
fi
ok dpkg-deb -x "$deb" unpacked
[ "$(env -i unpacked/usr/bin/trireme --version)" = "trireme $version" ] || fail 'the program of the package does not run'
(cd stage && find usr ! -type d | sort) >staged
(cd unpacked && find usr ! -type d | sort) >packed
expect_same staged packed
finish
