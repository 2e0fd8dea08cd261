#pragma once
// The rows of tests/reference/systolic: what SCALE-Sim reports.
#include <string>
#include <vector>

#include "model/timing/systolic.hpp"
#include "tests/csv.hpp"

namespace kpu::reference {

inline std::vector<Row> systolic_rows(const std::string& file) {
    return read_csv(std::string(KPUSIM_SOURCE_DIR) + "/tests/reference/systolic/" + file);
}

inline uint64_t number(const Row& row, const char* column) { return std::stoull(row.at(column)); }

inline timing::GemmShape shape_of(const Row& row) {
    return {number(row, "M"), number(row, "N"), number(row, "K")};
}

inline timing::SystolicArray array_of(const Row& row, proto::SystolicArray::Timing timing) {
    proto::SystolicArray::Dataflow dataflow{};
    proto::SystolicArray::Dataflow_Parse(row.at("dataflow"), &dataflow);
    return {number(row, "R"), number(row, "C"), dataflow, timing, 1};
}

}  // namespace kpu::reference
