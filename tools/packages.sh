# packages.sh -- lists the Debian packages that Trireme needs and installs missing ones. ./test and
# ./demo source it. The names are those of Debian 12. It installs only packages of these lists.

# Compiler and tools, then the libraries of CMakeLists.txt, in its order, then what the tests link.
# CPack asks file(1) what is in a package. g++ (of build-essential) compiles the CUDA sources for tests.
BUILD_PACKAGES="build-essential cmake ninja-build pkg-config
libjansson-dev libyaml-dev libpcre2-dev libxxhash-dev libpng-dev zlib1g-dev
liburing-dev libevent-dev libssl-dev libucx-dev libcmocka-dev file"

# What ./test-launchers starts `trireme train` with.
LAUNCHER_PACKAGES="openmpi-bin mpich slurm-wlm munge"
# What deploy/Dockerfile adds to an image for mpirun.
IMAGE_PACKAGES="openmpi-bin openssh-client openssh-server"

# The words of $1 that are not installed, on one line.
packages_missing() {
    for package in $1; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || printf '%s ' "$package"
    done
}

# Runs a command with the rights to install, or returns 127 where there are none.
packages_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@" </dev/null
    elif sudo -n true 2>/dev/null; then
        sudo -n "$@" </dev/null
    else
        return 127
    fi
}

packages_install() {
    packages_as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" 2>&1
}

# Makes sure that the packages of $1 are installed. Says what it installs; without the rights to,
# says what is missing and ends the script with exit code 2.
packages_require() {
    if ! command -v dpkg-query >/dev/null; then
        echo "$0: no dpkg here, so packages are not checked; needed is what these hold:" $1
        return
    fi
    missing=$(packages_missing "$1")
    [ -n "$missing" ] || return 0
    if ! packages_as_root true; then
        echo "$0: packages are missing and there are no rights to install them; please run" >&2
        echo "  apt-get install $missing" >&2
        exit 2
    fi
    echo "$0: installing Debian's packages $missing"
    # shellcheck disable=SC2086 # a list of words
    said=$(packages_install $missing) && return
    echo "$0: that failed; again after apt-get update, in case that apt's list is missing or old"
    # shellcheck disable=SC2086
    if ! said=$(packages_as_root apt-get -q update 2>&1 && packages_install $missing); then
        echo "$said" | tail -n 20 >&2
        echo "$0: apt-get could not install $missing" >&2
        exit 1
    fi
}

# What CMakeLists.txt links, without the compiler: the libraries with their headers, and what finds them.
LIBRARY_PACKAGES="libjansson-dev libjansson4 libyaml-dev libyaml-0-2 libpcre2-dev libpcre2-8-0 libxxhash-dev libxxhash0
libpng-dev libpng16-16 zlib1g-dev zlib1g liburing-dev liburing2 libevent-dev libevent-core-2.1-7
libssl-dev libssl3 libucx-dev libucx0 libcmocka-dev libcmocka0 pkgconf pkgconf-bin libpkgconf3"

# packages_fetch FOLDER: downloads the libraries' packages, for a machine without a network.
packages_fetch() {
    mkdir -p "$1"
    # apt downloads into the folder that it runs in.
    (cd "$1" && apt-get -q download $LIBRARY_PACKAGES) || {
        echo "$0: apt-get could not download $LIBRARY_PACKAGES" >&2
        exit 1
    }
}

# packages_extract FILE FOLDER: the files of a package. Not every machine has dpkg.
packages_extract() {
    if command -v dpkg-deb >/dev/null; then
        dpkg-deb -x "$1" "$2"
    else
        member=$(ar t "$1" | grep '^data\.tar')
        ar p "$1" "$member" >"$2/$member" && tar -xf "$2/$member" -C "$2" && rm "$2/$member"
    fi
}

# packages_unpack FOLDER ROOT: makes the libraries of fetched packages usable for cmake and for programs,
# without installing anything: they lie under ROOT.
packages_unpack() {
    mkdir -p "$2"
    for one in "$1"/*.deb; do packages_extract "$one" "$2"; done
    root=$(cd "$2" && pwd)
    for folder in "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu; do
        [ -d "$folder" ] || continue
        PKG_CONFIG_PATH=$folder/pkgconfig:${PKG_CONFIG_PATH-}
        LD_LIBRARY_PATH=$folder:${LD_LIBRARY_PATH-}
        LIBRARY_PATH=$folder:${LIBRARY_PATH-}
        CMAKE_LIBRARY_PATH=$folder:${CMAKE_LIBRARY_PATH-}
    done
    PKG_CONFIG_SYSROOT_DIR=$root
    command -v pkg-config >/dev/null || PATH=$PATH:$root/usr/bin
    export PATH PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH LIBRARY_PATH CMAKE_LIBRARY_PATH
}

# packages_of_python: makes the headers and libraries of CUDA usable that python3's packages hold (PyTorch brings
# cuDNN and cuBLAS), after those of the toolkit. Does nothing where there are none.
packages_of_python() {
    for root in $(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null || true); do
        for folder in "$root"/*/include; do
            [ ! -d "$folder" ] || CMAKE_INCLUDE_PATH=${CMAKE_INCLUDE_PATH+$CMAKE_INCLUDE_PATH:}$folder
        done
        for folder in "$root"/*/lib; do
            [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH+$LD_LIBRARY_PATH:}$folder
        done
    done
    export CMAKE_INCLUDE_PATH LD_LIBRARY_PATH
}
