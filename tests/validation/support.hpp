#pragma once
// Files of measurements, from a text.
#include <fstream>
#include <string>
#include <vector>

#include "base/diagnostics.hpp"
#include "runtime/validation/measured.hpp"
#include "tests/temp_folder.hpp"

namespace kpu::validation {

inline std::vector<MeasuredRow> read(const std::string& text) {
    const test::TempFolder folder;
    const std::string path = folder.file("rows.csv");
    std::ofstream(path) << text;
    return read_measured(path);
}
/// Returns what the file is refused with.
inline std::string error_of(const std::string& text) {
    try {
        read(text);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace kpu::validation
