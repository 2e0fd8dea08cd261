#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/compare/path_change.hpp"
#include "runtime/compare/schedule_change.hpp"

namespace kpu::compare {

/// Writes the changes for people, with at most `top` rows of each table; empty when nothing changed.
std::string text_of(const PathChange& change, size_t top);
std::string text_of(const std::vector<ScheduleChange>& changes, size_t top);
/// Lists every row.
nlohmann::ordered_json json_of(const PathChange& change);
nlohmann::ordered_json json_of(const std::vector<ScheduleChange>& changes);

}  // namespace kpu::compare
