#pragma once
// Exports made by hand.
#include <fmt/format.h>

#include <cstring>

#include "tests/compiler/pallas/run_export.hpp"

namespace kpu::compiler::pallas {

using Ints = std::vector<int32_t>;

inline Blob blob(const Ints& values) {
    Blob bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}
inline Ints ints(const Blob& bytes) {
    Ints values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}
inline Ints counted(int32_t n) {
    Ints values;
    for (int32_t i = 0; i < n; ++i) values.push_back(i);
    return values;
}

/// A call of i32[rows, 4] to i32[out_rows, 4] in blocks of [block, 4] over a grid: variables 0 and 1 are the refs, 2 to 9
/// i32[block, 4], 10 to 19 i32 scalars, 20 and on i32[block, 4] in DDR.
struct Draft {
    int rows = 4, out_rows = 4, block = 4, buffers = 2;
    std::string grid = "[]", map_inputs = "[]", map = "[[\"i32\", 0], [\"i32\", 0]]", out_map = map;
    std::string space = "vmem", scratch = "[]";
    std::string equations = R"({"op": "get", "refs": [{"ref": 0}], "out": [2], "line": 0},
                               {"op": "add", "in": [2, ["i32", 7]], "out": [3], "line": 0},
                               {"op": "swap", "in": [3], "refs": [{"ref": 1}], "line": 0})";

    std::string text() const {
        std::string vars = "[0, 1";
        for (int i = 2; i < 10; ++i) vars += ", 2";
        for (int i = 10; i < 20; ++i) vars += ", 3";
        vars += ", 4, 5]";
        const std::string in = fmt::format("[{}, 4]", rows), out = fmt::format("[{}, 4]", out_rows),
                          part = fmt::format("[{}, 4]", block);
        const auto spec = [&](const std::string& starts, const std::string& inputs) {
            return fmt::format(
                R"("block": {{"dims": [["blocked", {}], ["blocked", 4]], "map": {{"inputs": {}, "equations": [], "results": {}}}, "buffers": {}}})",
                block, inputs, starts, buffers);
        };
        return fmt::format(
            R"j({{"format": "kpusim-pallas", "version": 1, "jax": "0", "name": "p", "lines": ["k.py:3 (k)", "k.py:4 (k)", "k.py:5 (k)", "k.py:6 (k)"],
            "arrays": [{{"name": "x", "type": "i32", "shape": {0}, "role": "input"}}, {{"name": "y", "type": "i32", "shape": {1}, "role": "output"}}],
            "steps": [{{"call": {{"name": "k", "line": 0, "grid": {2}, "types": [{{"type": "i32", "shape": {3}, "space": "{4}"}},
              {{"type": "i32", "shape": {3}, "space": "vmem"}}, {{"type": "i32", "shape": {3}}}, {{"type": "i32", "shape": []}},
              {{"type": "dma_semaphore", "shape": [], "space": "semaphore"}}, {{"type": "i32", "shape": {3}, "space": "vmem"}}],
              "vars": {5}, "operands": [{{"array": 0, "role": "input", "shape": {0}, "ref": 0{6}}},
              {{"array": 1, "role": "output", "shape": {1}, "ref": 1, {7}}}], "scratch": {8}, "aliases": [],
              "body": {{"inputs": [], "equations": [{9}], "results": []}}}}}}]}})j",
            in, out, grid, part, space, vars, space == "any" ? "" : ", " + spec(map, map_inputs),
            spec(out_map, map_inputs == "[]" ? "[]" : "[12, 13]"), scratch, equations);
    }
    Ints run() const { return ints(run_export(read_export(text(), "p"), {blob(counted(rows * 4))})[0]); }
    std::string error() const {
        try {
            run();
        } catch (const std::exception& error) {
            return error.what();
        }
        return "";
    }
};

/// Over a grid [2, 3] of steps g, h: the second axis is the faster one.
inline Draft gridded(const std::string& map, const std::string& out_map) {
    Draft draft;
    draft.grid = "[2, 3]";
    draft.block = 2;
    draft.map_inputs = "[10, 11]";
    draft.map = map;
    draft.out_map = out_map;
    return draft;
}

}  // namespace kpu::compiler::pallas
