#!/usr/bin/env bash
# Makes the files of a release in out/dist: wheel, source archives, notes, checksums; after the tests. The version is the one
# that CMakeLists.txt, CITATION.cff and a section of CHANGELOG.md have; the tree is committed.
#   scripts/release.sh VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version="${1:?usage: scripts/release.sh VERSION}"

stop() { printf 'error: %s\n' "$1" >&2; exit 1; }
grep -q "^project(kpusim VERSION $version " CMakeLists.txt || stop "CMakeLists.txt has another version than $version. Fix: set it in project()."
grep -q "^version: $version\$" CITATION.cff || stop "CITATION.cff has another version than $version. Fix: set it there too."
grep -q "^## $version\$" CHANGELOG.md || stop "CHANGELOG.md has no section $version. Fix: make one of \`## Unreleased\`."
[ -z "$(git status --porcelain)" ] || stop "files differ from the last commit. Fix: commit them."

./test.sh
scripts/wheel.sh chroot
git archive --format=tar.gz --prefix="kpusim-$version/" --output="out/dist/kpusim-$version-repository.tar.gz" HEAD
awk -v heading="## $version" '/^## / { inside = $0 == heading; next } inside' CHANGELOG.md >"out/dist/NOTES.md"
(cd out/dist && sha256sum -- *.whl *.tar.gz NOTES.md >SHA256SUMS)

printf 'out/dist has kpusim %s, made of %s. What is left: %s\n' "$version" "$(git rev-parse --short=12 HEAD)" "git tag v$version"
