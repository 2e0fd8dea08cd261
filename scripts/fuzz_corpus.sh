#!/usr/bin/env bash
# The kept inputs of a fuzz target, one archive each: tests/fuzz/corpus/TARGET.tar.gz.
#   scripts/fuzz_corpus.sh unpack TARGET FOLDER    FOLDER has them, and nothing else
#   scripts/fuzz_corpus.sh pack TARGET FOLDER      of the files in FOLDER; the same files give the same archive
set -euo pipefail
corpus="$(dirname "${BASH_SOURCE[0]}")/../tests/fuzz/corpus"

case "${1:-}" in
    unpack)
        rm -rf "$3"
        mkdir -p "$3"
        tar -xzf "$corpus/$2.tar.gz" -C "$3"
        ;;
    pack)
        tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -C "$3" -cf - \
            $(cd "$3" && ls) | gzip -9n >"$corpus/$2.tar.gz"
        ;;
    *)
        sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"
        exit 2
        ;;
esac
