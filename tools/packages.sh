# packages.sh -- lists the Debian packages that Trireme needs and installs missing ones. ./test and
# ./demo source it. The names are those of Debian 12. It installs only packages of these lists.

# Compiler and tools, then the libraries of CMakeLists.txt, in its order, then what the tests link.
# CPack asks file(1) what is in a package. g++ (of build-essential) compiles the CUDA sources for tests.
BUILD_PACKAGES="build-essential cmake ninja-build pkg-config
libjansson-dev libyaml-dev libpcre2-dev libutf8proc-dev libxxhash-dev libpng-dev zlib1g-dev
liburing-dev libevent-dev libssl-dev libhwloc-dev libucx-dev libncurses-dev libcmocka-dev file"

# What ./test-launchers starts `trireme train` with.
LAUNCHER_PACKAGES="openmpi-bin mpich slurm-wlm munge"
# What deploy/Dockerfile adds to an image for mpirun.
IMAGE_PACKAGES="openmpi-bin openssh-client openssh-server libucx0"

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

# For a machine that has a compiler and Python, and no network: what CMakeLists.txt links, and what builds it. apt finds what
# these need. The libraries that a C library's or Debian's own packages need, too, are named.
LIBRARY_PACKAGES="libjansson-dev libyaml-dev libpcre2-dev libpcre2-8-0 libutf8proc-dev libxxhash-dev libpng-dev zlib1g-dev zlib1g
liburing-dev libevent-dev libssl-dev libssl3 libhwloc-dev libucx-dev libncurses-dev libncursesw6 libtinfo6 libcmocka-dev"
TOOL_PACKAGES="cmake ninja-build pkgconf"

# packages_closure PACKAGE...: these and what they need, on a machine that has nothing.
packages_closure() {
    apt-get -s -o Dir::State::status=/dev/null --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | sort
}

# packages_archive NAME FOLDER "PACKAGES" "OTHERS": writes FOLDER/NAME.tar.gz, the files of packages and of what they need,
# less OTHERS and what these need, which every machine has in a form that fits it.
packages_archive() {
    scratch=$(mktemp -d)
    # shellcheck disable=SC2086 # lists of words
    (
        set -e
        cd "$scratch"
        packages_closure $3 >all
        packages_closure $4 >others
        [ -s all ] && [ -s others ]
        mkdir root
        apt-get -q download $3 $(comm -23 all others)
        for one in *.deb; do dpkg-deb -x "$one" root; done
        cd root
        rm -rf usr/share/doc usr/share/man usr/share/locale
        # A link of a package may begin at the root of its machine.
        find . -type l | while read -r link; do
            to=$(readlink "$link")
            case $to in /*) ln -sfnr "./$to" "$link" ;; esac
        done
        tar -czf ../files.tar.gz .
    ) && mv "$scratch/files.tar.gz" "$2/$1.tar.gz" && rm -rf "$scratch" && return
    rm -rf "$scratch"
    echo "$0: apt-get could not download $3" >&2
    exit 1
}

# packages_fetch FOLDER: downloads the libraries and tools, for a machine without a network. Needs Debian 12.
packages_fetch() {
    mkdir -p "$1"
    packages_archive libraries "$1" "$LIBRARY_PACKAGES" "libc6-dev adduser"
    packages_archive tools "$1" "$TOOL_PACKAGES" "libc6-dev libstdc++6 perl adduser"
}

# The words of $1 before $2, joined by colons.
packages_path() {
    for folder in $1; do
        [ ! -d "$folder" ] || printf '%s:' "$folder"
    done
    printf '%s' "$2"
}

# packages_extract FOLDER NAME: sets `root` to the folder that holds the files of FOLDER/NAME.tar.gz.
packages_extract() {
    root=$1/$2
    if ! [ -e "$root" ]; then
        mkdir "$root.part" && tar -xzf "$root.tar.gz" -C "$root.part" && mv "$root.part" "$root"
    fi
    root=$(cd "$root" && pwd)
}

# packages_unpack FOLDER: makes what packages_fetch has put there usable for cmake and for programs, without installing
# anything. Tools are taken from there only where this machine has none.
packages_unpack() {
    for name in libraries tools; do
        [ -e "$1/$name.tar.gz" ] || {
            echo "$0: $1 holds no $name.tar.gz; ./check-gpu --fetch makes it on a machine with a network" >&2
            exit 2
        }
    done
    packages_extract "$1" libraries
    folders="$root/usr/lib/*-linux-gnu $root/lib/*-linux-gnu"
    PKG_CONFIG_PATH=$(packages_path "$root/usr/lib/*-linux-gnu/pkgconfig" "${PKG_CONFIG_PATH-}")
    LD_LIBRARY_PATH=$(packages_path "$folders" "${LD_LIBRARY_PATH-}")
    LIBRARY_PATH=$(packages_path "$folders" "${LIBRARY_PATH-}")
    CMAKE_LIBRARY_PATH=$(packages_path "$folders" "${CMAKE_LIBRARY_PATH-}")
    # Debian keeps headers that differ between machines apart.
    headers="$root/usr/include/*-linux-gnu $root/usr/include"
    C_INCLUDE_PATH=$(packages_path "$headers" "${C_INCLUDE_PATH-}")
    CPLUS_INCLUDE_PATH=$(packages_path "$headers" "${CPLUS_INCLUDE_PATH-}")
    PKG_CONFIG_SYSROOT_DIR=$root
    packages_extract "$1" tools
    if ! command -v cmake >/dev/null || ! command -v pkg-config >/dev/null; then
        PATH=$PATH:$root/usr/bin
        LD_LIBRARY_PATH=$LD_LIBRARY_PATH$(packages_path "$root/usr/lib/*-linux-gnu $root/lib/*-linux-gnu" "")
    fi
    export PATH PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH LIBRARY_PATH CMAKE_LIBRARY_PATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH
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
