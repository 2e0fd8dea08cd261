#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace kpu {

using Row = std::map<std::string, std::string>;

/// Returns the rows of a reference table by column name; no quoting.
inline std::vector<Row> read_csv(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> header;
    std::vector<Row> rows;
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        std::vector<std::string> cells;
        std::istringstream stream(line);
        for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
        if (header.empty()) {
            header = cells;
            continue;
        }
        Row row;
        for (size_t i = 0; i < cells.size(); ++i) row[header.at(i)] = cells[i];
        rows.push_back(row);
    }
    return rows;
}

}  // namespace kpu
