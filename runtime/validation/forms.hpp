#pragma once
// The forms of files of measurements: which columns each has, and how a row is read.
#include <functional>
#include <vector>

#include "runtime/validation/measured.hpp"
#include "runtime/validation/table.hpp"

namespace kpu::validation {

struct Form {
    std::vector<Column> columns;
    /// Adds what the row has measured: none, one or several.
    std::function<void(Table& table, std::vector<MeasuredRow>& rows)> read_row;
};

Form layer_form();         ///< layers with counted tiles: net, kind, index, ...
Form copy_form();          ///< copies to on-chip memory: kernel, rows, cols, bytes, us
Form product_form();       ///< products in on-chip memory: M, N, K, fusion_us
Form elementwise_form();   ///< vector kernels in on-chip memory: op, shape, elements, us
Form workload_form();      ///< kernels and networks by name: workload, tpuv3
Form mapping_form();       ///< layers with their loops: C, K, P, Q, R, S, stride, N, mapping, cycles
Form mapped_layer_form();  ///< the same beside a default tiling: auto_cycles, tiled_cycles
Form core_grid_form();     ///< products on a grid of cores: m, k, n, grid, ns
Form power_form();         ///< layers with DRAM bytes and power: net, layer, power_mw, dram_mb
Form task_form();          ///< networks of MLPerf Tiny: system, task, uj_per_inf

/// Returns all forms. The first is the one that errors are told of where none fits.
std::vector<Form> all_forms();

}  // namespace kpu::validation
