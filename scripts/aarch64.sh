#!/usr/bin/env bash
# Compiles the simulator for ARM64 with Debian's cross compiler and runs programs under QEMU: the folders that they leave are
# byte for byte those of this machine's command, which must be built. Root only: installs the compiler and QEMU.
#   scripts/aarch64.sh [PROGRAM.nem ...]    those of examples/ by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh
tree="$root/build/aarch64" kpusim="$root/build/release/bin/kpusim" platform=npm_lite
export TERM=dumb
install_packages g++-aarch64-linux-gnu qemu-user
[ $# -gt 0 ] || set -- examples/*/*.nem

# Libraries of the other architecture, beside this system's packages instead of among them: unpacked into a folder.
if [ ! -d "$tree/sysroot" ]; then
    say "unpacking ARM64's libraries"
    mkdir -p "$tree/apt/state/lists/partial" "$tree/apt/cache/archives/partial" "$tree/unpacked"
    : >"$tree/apt/state/status"
    cat >"$tree/apt/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$tree/apt/state";
Dir::State::status "$tree/apt/state/status";
Dir::Cache "$tree/apt/cache";
END
    mapfile -t libraries < <(printf '%s\n' "${command_packages[@]}" | grep -- '-dev$')
    APT_CONFIG="$tree/apt/conf" apt-get update -qq
    APT_CONFIG="$tree/apt/conf" apt-get install -y -qq --download-only --no-install-recommends libc6-dev "${libraries[@]}"
    for package in "$tree"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$tree/unpacked"; done
    mv "$tree/unpacked" "$tree/sysroot"
fi

say "compiling"
[ -f "$tree/build/build.ninja" ] || "$cmake" -S . -B "$tree/build" -G Ninja --toolchain "$root/cmake/aarch64.cmake" \
    -DCMAKE_SYSROOT="$tree/sysroot" -DCMAKE_BUILD_TYPE=Release -DKPUSIM_TESTS=OFF >"$tree/configure.log" 2>&1 || { cat "$tree/configure.log"; exit 1; }
"$cmake" --build "$tree/build" --target kpusim_simulator
library="$tree/build/lib"
aarch64-linux-gnu-g++ --sysroot="$tree/sysroot" -std=c++17 -O1 -I"$tree/build/package/include" tests/install/consumer/plain.cpp \
    -L"$library" -lkpusim -lfmt -lprotobuf -Wl,-rpath-link,"$tree/sysroot/usr/lib/aarch64-linux-gnu" -o "$tree/plain"

say "running under QEMU"
different=0
for program in "$@"; do
    work="$(mktemp -d)"
    if "$kpusim" asm "$program" -I "$(dirname "$program")" -o "$work/program.kpu" --force >/dev/null 2>&1 &&
        "$kpusim" run "$work/program.kpu" --platform "$platform" --fill random:7 -o "$work/here" --quiet >/dev/null 2>&1; then
        qemu-aarch64 -L "$tree/sysroot" -E LD_LIBRARY_PATH="$library" "$tree/plain" "$work/program.kpu" "$platform" "$work/there" >"$work/text" 2>&1 || true
        # the manifest has times and command lines
        if diff -r --exclude manifest.json "$work/here" "$work/there" >"$work/differences"; then
            printf 'same  %s: %s\n' "$program" "$(cat "$work/text")"
        else
            printf 'DIFFERENT  %s\n' "$program"
            cat "$work/text" "$work/differences"
            different=1
        fi
    else
        printf 'left out  %s: does not run on %s alone\n' "$program" "$platform"
    fi
    rm -rf "$work"
done
exit "$different"
