#!/usr/bin/env bash
# Fuzzes the readers of untrusted files with libFuzzer, ASan and UBSan: NEM text, .kpu containers, tile schedules,
# kernels, ONNX models, texts of graphs.
#   scripts/fuzz.sh [SECONDS [TARGET...]]  each target (default: all) runs so long on its kept corpus (default 60; 0: only
#                               what is kept), all at once; what they find new stays in build/fuzz/corpus, a crash in
#                               build/fuzz/crashes (exit 1)
#                               FUZZ_SEED=1 walks the same way each time, as ./test.sh does: what it says of a change must
#                               not depend on luck
#   scripts/fuzz.sh --keep      adds found inputs of up to 900 bytes to the archives of tests/fuzz/corpus and drops what adds
#                               no coverage: run it, look (scripts/fuzz_corpus.sh unpack), commit
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install_packages "${command_packages[@]}" clang libclang-rt-14-dev llvm
build fuzz

# Seed 0 is another one each time. An input may take 10 s and 2 GiB, far more than any needs. The entropic schedule
# costs more than our targets do.
limits=(-seed="${FUZZ_SEED:-0}" -entropic=0 -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1)

fuzz() { # TARGET SECONDS
    local kind="$1" seconds="$2" options=()
    [ "$seconds" -gt 0 ] || options+=(-runs=0)
    [ -f "tests/fuzz/$kind.dict" ] && options+=(-dict="$root/tests/fuzz/$kind.dict")
    mkdir -p "build/fuzz/corpus/$kind" "build/fuzz/crashes"
    scripts/fuzz_corpus.sh unpack "$kind" "build/fuzz/kept/$kind"
    "build/fuzz/bin/fuzz_$kind" "${limits[@]}" "${options[@]}" -max_total_time="$seconds" \
        -artifact_prefix="$root/build/fuzz/crashes/$kind-" "build/fuzz/corpus/$kind" "build/fuzz/kept/$kind" \
        >"build/fuzz/$kind.log" 2>&1
}

if [ "${1:-}" = --keep ]; then
    for kind in nem kpu sched kern onnx graph; do
        rm -rf build/fuzz/merged build/fuzz/small
        mkdir -p build/fuzz/merged build/fuzz/small "build/fuzz/corpus/$kind"
        scripts/fuzz_corpus.sh unpack "$kind" "build/fuzz/kept/$kind"
        find "build/fuzz/corpus/$kind" -type f -size -900c -exec cp {} build/fuzz/small \;
        "build/fuzz/bin/fuzz_$kind" -set_cover_merge=1 -max_len=65536 build/fuzz/merged "build/fuzz/kept/$kind" build/fuzz/small
        scripts/fuzz_corpus.sh pack "$kind" build/fuzz/merged
    done
    exit
fi

seconds="${1:-60}"
shift || true
kinds=("$@")
[ ${#kinds[@]} -gt 0 ] || kinds=(nem kpu sched kern onnx graph)
say "fuzzing the readers of ${kinds[*]} for $seconds s each"
declare -A running
for kind in "${kinds[@]}"; do
    fuzz "$kind" "$seconds" & running[$kind]=$!
done
failed=()
for kind in "${kinds[@]}"; do
    wait "${running[$kind]}" || failed+=("$kind")
    echo "$kind: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$kind.log") inputs," \
        "$(grep -ao 'cov: [0-9]* ft: [0-9]*' "build/fuzz/$kind.log" | tail -n 1 || true)"
done
for kind in "${failed[@]}"; do tail -n 60 "build/fuzz/$kind.log"; done
[ ${#failed[@]} -eq 0 ]
