# Sourced by run.sh and test.sh: installs what they need (Debian 12; elsewhere it says what is missing), then builds. Safe to
# run again, quick then.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
cmake=/usr/bin/cmake # not one that an environment of Python brings
[ -x "$cmake" ] || cmake=cmake

# Says what begins. A script that called report_times has the times of all such phases at its end, of scripts that it
# runs too.
say() {
    printf '\033[1m== %s\033[0m\n' "$*"
    [ -z "${KPUSIM_PHASES:-}" ] || printf '%s %s\n' "$EPOCHSECONDS" "$*" >>"$KPUSIM_PHASES"
}

# At the end of the script, however it ends, prints how long each phase took, until the next began, and the tests that
# took longest.
report_times() {
    KPUSIM_PHASES="$(mktemp)"
    export KPUSIM_PHASES
    trap print_times EXIT
}

print_times() {
    local phases log=build/release/Testing/Temporary/LastTest.log
    phases="$(sort -s -n -k 1,1 "$KPUSIM_PHASES"; printf '%s end\n' "$EPOCHSECONDS")"
    if grep -q ' testing$' "$KPUSIM_PHASES" && [ -f "$log" ]; then
        printf '\033[1m== the slowest tests\033[0m\n'
        awk '/^[0-9]+\/[0-9]+ Test: / { name = $3 } /^Test time = / { printf "%8.1f s  %s\n", $4, name }' "$log" |
            sort -k 1,1 -rn | sed '11,$d' # not head: it would end sort by a signal, and the script with its status
    fi
    printf '\033[1m== times\033[0m\n'
    awk 'NR > 1 { printf "%6d s  %s\n", $1 - begun, phase } { begun = $1; $1 = ""; phase = substr($0, 2) }' <<<"$phases"
    rm -f "$KPUSIM_PHASES"
}

# What the command is built from, and its examples run with.
mapfile -t command_packages < <(awk '!/^#/ { print $2 }' scripts/packages.txt)
# What the fast tests need beside it.
fast_packages=(git ca-certificates libgtest-dev libgmock-dev libbenchmark-dev libmpfr-dev python3-venv python3-sarif-python-om clang-format pkg-config)
# What all tests need beside both: readers and simulators that are not ours, what counts instructions, the Python package.
test_packages=(gtkwave xvfb xdotool imagemagick verilator chromium python3-dev valgrind)

# Whether what a row of packages.txt is found by is there.
is_there() { # FOUND_BY
    case "$1" in
        !*) command -v "${1#!}" >/dev/null ;;
        %*) python3 -c "import ${1#%}" 2>/dev/null ;;
        *) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1 ;;
    esac
}

# Where there is no apt-get, nothing is installed: says what is not there, by the names of the system's own manager.
check_packages() { # PACKAGE...: by their names for apt-get
    local manager=apt column=2 missing=() unknown=() found_by apt dnf pacman what name
    command -v pacman >/dev/null && manager=pacman column=4
    command -v dnf >/dev/null && manager=dnf column=3
    while read -r found_by apt dnf pacman what; do
        [[ " $* " == *" $apt "* ]] && ! is_there "$found_by" || continue
        name="$apt"
        [ "$column" = 2 ] || name="${!manager}"
        if [ "$name" = - ]; then missing+=("$what (from its sources)"); else missing+=("$name"); fi
    done < <(grep -v '^#' scripts/packages.txt)
    for name in "$@"; do
        grep -q "^[^#]\S* *$name " scripts/packages.txt || unknown+=("$name")
    done
    [ ${#unknown[@]} -eq 0 ] || say "no apt-get: whether these packages of Debian are there is not looked at: ${unknown[*]}"
    [ ${#missing[@]} -eq 0 ] && return
    printf -v name ', %s' "${missing[@]}"
    echo "error: no apt-get to install what is missing. Fix: install, by the names for $manager: ${name:2}" >&2
    exit 1
}

install_packages() { # PACKAGE...
    local missing=() package
    command -v apt-get >/dev/null || { check_packages "$@"; return; }
    for package in "$@"; do
        [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "installing ${#missing[@]} packages: ${missing[*]}"
    local sudo=""
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "error: need root or sudo to install: ${missing[*]}" >&2; exit 1; }
        sudo="sudo"
    fi
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Configures, unless the tree of a preset is there; the command, the fast tests and all tests share one, which grows.
configure() { # PRESET
    local preset="$1" tree="build/$1" lacks="" log
    case "$preset" in
        command) tree=build/release ;;
        fast) tree=build/release lacks='^KPUSIM_TESTS:[A-Z]*=OFF' ;;
        release) lacks='^KPUSIM_(TESTS|RTL):[A-Z]*=OFF' ;;
    esac
    if [ -f "$tree/build.ninja" ]; then
        { [ -n "$lacks" ] && grep -qE "$lacks" "$tree/CMakeCache.txt"; } || return 0
    fi
    log="$(mktemp)"
    "$cmake" --preset "$preset" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; exit 1; }
    rm -f "$log"
}

# Compiles what changed.
build() { # PRESET [ARGUMENT...]: of cmake --build
    say "building ($*)"
    configure "$1"
    "$cmake" --build --preset "$@"
}
