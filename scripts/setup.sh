# Sourced by run.sh and test.sh: installs what the build needs (Debian 12), then builds. Safe to run again, quick then.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

say() { printf '\033[1m== %s\033[0m\n' "$*"; }

packages=(
    g++ cmake ninja-build ccache git pkg-config ca-certificates
    libsystemc-dev libprotobuf-dev protobuf-compiler libboost-dev libboost-iostreams-dev libfmt-dev
    nlohmann-json3-dev libcli11-dev libssl-dev zlib1g-dev libsleef-dev libmpfr-dev libisl-dev
    libgtest-dev libgmock-dev libbenchmark-dev gtkwave verilator
    python3 python3-dev python3-venv python3-numpy python3-sarif-python-om chromium
)

install_packages() {
    local missing=()
    for package in "${packages[@]}"; do
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

# build PRESET: configure once, then compile what changed.
build() {
    local preset="$1"
    say "building ($preset)"
    [ -f "build/$preset/build.ninja" ] || /usr/bin/cmake --preset "$preset" >"$root/build-$preset.log" 2>&1 ||
        { cat "$root/build-$preset.log"; exit 1; }
    rm -f "$root/build-$preset.log"
    /usr/bin/cmake --build --preset "$preset"
}
