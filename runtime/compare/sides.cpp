#include "runtime/compare/sides.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "platforms/platform.hpp"
#include "runtime/save_run.hpp"

namespace kpu::compare {

namespace {

/// Returns "F16" and [1, "8"], as a program's text has them, in bytes; 0: it does not say.
uint64_t bytes_of(const nlohmann::json& tensor) {
    const auto elem = tensor.find("elem"), shape = tensor.find("shape");
    if (elem == tensor.end() || !elem->is_string() || shape == tensor.end()) return 0;
    const auto& type = elem->get_ref<const std::string&>();
    const size_t digit = type.find_first_of("0123456789");
    double bits = digit == std::string::npos ? 0 : std::atoi(type.c_str() + digit);
    for (const nlohmann::json& extent : *shape)
        bits *= extent.is_string() ? std::atof(extent.get_ref<const std::string&>().c_str())
                                   : extent.get<double>();
    return bits >= 0 && bits < 1e18 ? static_cast<uint64_t>(std::ceil(bits / 8)) : 0;
}

std::vector<std::pair<std::string, std::string>> places_of(std::string_view program) {
    std::vector<std::pair<std::string, std::string>> places;
    for (DeclaredTensor& tensor : tensors_of(program))
        places.emplace_back(std::move(tensor.name), std::move(tensor.place));
    return places;
}

/// Reads the events of a side whose run has an event file that is not read yet; says why there are none.
void read_events_of(traces::DiffSide& side) {
    auto recording = std::make_shared<traces::Recording>(traces::read_event_file(side.run.events));
    // `run --force` without --events leaves those of the run before in the folder
    if (side.run.stats.real("cycles.total") == static_cast<double>(recording->info.total_cycles)) {
        side.events = std::move(recording);
    } else {
        side.no_events = fmt::format("{} is of another run than stats.json beside it", side.run.events);
        side.events_advice.clear();
    }
}

}  // namespace

std::vector<DeclaredTensor> tensors_of(std::string_view program) {
    constexpr std::string_view buffer_mark = "buffer ", tensor_mark = "#! tensor ";
    std::vector<DeclaredTensor> tensors;  // with their buffers as places
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
                tensors.push_back({tensor.at("id").get<std::string>(), tensor.at("buffer").get<std::string>(),
                                   bytes_of(tensor), tensor.value("role", "INPUT") == "INTERMEDIATE"});
            } catch (const std::exception&) {  // a damaged folder: what it says of places is left out
            }
        }
    }
    for (DeclaredTensor& tensor : tensors) {
        const auto level = levels.find(tensor.place);
        tensor.place = level == levels.end() ? "?" : level->second == "DDR" ? "DRAM" : level->second;
    }
    return tensors;
}

traces::DiffSide read_side(const std::string& folder) {
    traces::DiffSide side{traces::read_run(folder), {}};
    if (!side.run.platform.empty())
        side.platform = platforms::fields_of(
            platforms::parse_textproto(side.run.platform, folder + "/platform.textproto"));
    side.places = places_of(side.run.program);
    side.no_events = fmt::format("{} has no events", folder);
    side.events_advice = fmt::format("run with `-o {0} --events {0}/{1}`", folder, traces::events_file_name);
    return side;
}

traces::DiffSide side_of(runtime::Simulation& simulation, traces::Manifest manifest, std::string name,
                         std::shared_ptr<const traces::Recording> events) {
    traces::DiffSide side{runtime::results_of(simulation, std::move(manifest), std::move(name)), {}};
    if (simulation.platform() != nullptr) side.platform = platforms::fields_of(*simulation.platform());
    side.places = places_of(side.run.program);
    side.events = std::move(events);
    side.no_events = fmt::format("{} recorded no events", side.run.path);
    return side;
}

void load_events(traces::DiffSide& a, traces::DiffSide& b) {
    if (!a.has_events() || !b.has_events()) return;
    for (traces::DiffSide* side : {&a, &b}) load_events(*side);
}

void load_events(traces::DiffSide& side) {
    if (side.events == nullptr && !side.run.events.empty()) read_events_of(side);
}

}  // namespace kpu::compare
