# packages.sh -- lists the Debian packages that Trireme needs and installs missing ones. ./test and
# ./demo source it. The names are those of Debian 12. It installs only packages of these lists.

# Compiler and tools, then the libraries of CMakeLists.txt, in its order, then what the tests link.
# CPack asks file(1) what is in a package. libdnnl-dev's CMake file asks for OpenCL, which the package only recommends.
BUILD_PACKAGES="build-essential cmake ninja-build pkg-config
libdnnl-dev ocl-icd-opencl-dev libjansson-dev libyaml-dev libpcre2-dev libxxhash-dev libpng-dev zlib1g-dev
liburing-dev libcmocka-dev file"

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
