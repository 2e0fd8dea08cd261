#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_output.hpp"

namespace kpu::traces {

constexpr const char* kernels_file_name = "kernels.csv";

/// Cost of a statement of a kernel on all units that executed it: a row of kernels.csv.
struct KernelRow {
    std::string task, kernel;
    std::string region;  ///< names of the regions around it, outermost first, joined by /
    uint32_t line = 0;   ///< line of the kernel's text; 0: not known
    std::string statement;
    uint64_t executions = 0;  ///< executions by all lanes that stand there together
    uint64_t lanes = 0;       ///< that executed it, summed
    uint64_t busy_cycles = 0, stalled_cycles = 0;
};

void write_kernel_rows(const std::vector<KernelRow>& rows, Output& output);
/// Throws UserError.
std::vector<KernelRow> parse_kernel_rows(std::string_view text, const std::string& origin);
/// Returns a table of where the cycles of kernels went, dearest statements first, then by region; `task`
/// empty: of all. Empty when there are no such rows.
std::string kernel_text(const std::vector<KernelRow>& rows, std::string_view task);

}  // namespace kpu::traces
