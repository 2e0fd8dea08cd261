#include "runtime/compare_runs.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "platforms/platform.hpp"

namespace kpu::runtime {

namespace {

/// The memory of each tensor that a program's text declares, from its `buffer` and `#! tensor` lines.
std::vector<std::pair<std::string, std::string>> places_of(std::string_view program) {
    constexpr std::string_view buffer_mark = "buffer ", tensor_mark = "#! tensor ";
    std::vector<std::pair<std::string, std::string>> tensors;  // with their buffers
    std::map<std::string, std::string, std::less<>> levels;
    while (!program.empty()) {
        std::string_view line = take_line(program);
        if (starts_with(line, buffer_mark)) {  // buffer NAME : LEVEL (...)
            line.remove_prefix(buffer_mark.size());
            const size_t colon = line.find(':'), end = line.find('(');
            if (colon >= end) continue;
            levels.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1, end - colon - 1)));
        } else if (starts_with(line, tensor_mark)) {
            try {
                const nlohmann::json tensor = parse_json(line.substr(tensor_mark.size()));
                tensors.emplace_back(tensor.at("id").get<std::string>(),
                                     tensor.at("buffer").get<std::string>());
            } catch (const std::exception&) {  // a damaged folder: what it says of places is left out
            }
        }
    }
    for (auto& [name, place] : tensors) {
        const auto level = levels.find(place);
        place = level == levels.end() ? "?" : level->second == "DDR" ? "DRAM" : level->second;
    }
    return tensors;
}

}  // namespace

traces::DiffSide read_side(const std::string& folder) {
    traces::DiffSide side{traces::read_run(folder), {}};
    if (!side.run.platform.empty())
        side.platform = platforms::fields_of(
            platforms::parse_textproto(side.run.platform, folder + "/platform.textproto"));
    side.places = places_of(side.run.program);
    return side;
}

}  // namespace kpu::runtime
