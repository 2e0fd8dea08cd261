#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over every C++ source, or over those named.
#   scripts/tidy.sh [FILE.cpp ...]
#   scripts/tidy.sh --changed BASE     sources changed since the git revision BASE, and one includer of each changed
#                                      header that has no source of its own name
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install_packages "${command_packages[@]}" "${test_packages[@]}" clang-tidy

all() { git ls-files --cached --others --exclude-standard "$@"; }

changed() { # BASE
    local file
    { git diff --name-only --diff-filter=d "$1"; git ls-files --others --exclude-standard; } | sort -u |
        while read -r file; do
            case "$file" in
                *.cpp) echo "$file" ;;
                *.hpp) if [ -f "${file%.hpp}.cpp" ]; then echo "${file%.hpp}.cpp"; else
                    { git grep -lF "\"$file\"" -- '*.cpp' || true; } | head -n 1; fi ;;
            esac
        done | sort -u
}

if [ "${1:-}" = --changed ]; then
    mapfile -t files < <(changed "${2:?usage: scripts/tidy.sh --changed BASE}")
elif [ $# -gt 0 ]; then
    files=("$@")
else
    mapfile -t files < <(all '*.cpp')
fi

# Not built without clang or only inside another source: they have no compile command.
sources=()
for file in "${files[@]}"; do
    case "$file" in tests/fuzz/* | cmake/*) ;; *) sources+=("$file") ;; esac
done
[ ${#sources[@]} -gt 0 ] || { echo "no C++ source changed"; exit; }

# Only compile commands and the generated headers are needed, no build.
/usr/bin/cmake --preset tidy >/dev/null
mapfile -t schemas < <(all "*.proto")
protoc --cpp_out=build/tidy "${schemas[@]}"
say "clang-tidy on ${#sources[@]} sources"
failed=0
run-clang-tidy -quiet -p build/tidy -j "$(nproc)" "${sources[@]/#/^$root/}" >build/tidy/findings.txt 2>build/tidy/progress.txt ||
    failed=1
grep -v '^clang-tidy' build/tidy/findings.txt || true
exit "$failed"
