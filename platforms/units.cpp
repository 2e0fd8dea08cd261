#include "platforms/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "platforms/platform.hpp"

namespace kpu::platforms {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view engine_prefix = "engine.";

/// Returns a number at a path of single fields.
uint64_t number_at(const Message& root, std::string_view path) {
    const Message* message = &root;
    for (;;) {
        const size_t dot = path.find('.');
        const FieldDescriptor* field =
            message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
        if (field == nullptr) throw InternalError(fmt::format("the platform has no field `{}`", path));
        const auto* reflection = message->GetReflection();
        if (dot != std::string_view::npos) {
            message = &reflection->GetMessage(*message, field);
            path.remove_prefix(dot + 1);
            continue;
        }
        if (field->cpp_type() != FieldDescriptor::CPPTYPE_UINT32)
            throw InternalError(fmt::format("field `{}` of the platform is not a count", path));
        return reflection->GetUInt32(*message, field);
    }
}

uint64_t field_of(const proto::Platform& platform, const proto::Engine* engine, std::string_view path) {
    if (!starts_with(path, engine_prefix)) return number_at(platform, path);
    if (engine == nullptr) throw InternalError(fmt::format("`{}` is a field of an engine", path));
    return number_at(*engine, path.substr(engine_prefix.size()));
}

}  // namespace

Clock clock_of(const proto::Platform& platform, ClockDomain domain) {
    const proto::Clock& clock = platform.clock();
    switch (domain) {
        case ClockDomain::array:
            return array_clock(platform);
        case ClockDomain::sram:
            return clock.has_sram_mhz() ? clock_of_mhz(clock.sram_mhz()) : core_clock(platform);
        case ClockDomain::interconnect:
            return clock.has_interconnect_mhz() ? clock_of_mhz(clock.interconnect_mhz())
                                                : core_clock(platform);
        case ClockDomain::ddr:
            return Clock(static_cast<uint64_t>(std::llround(1e9 / ddr_device(platform).tck_ns())));
        case ClockDomain::core:
            break;
    }
    return core_clock(platform);
}

uint32_t unit_count(const proto::Platform& platform, const proto::Engine* engine, UnitKind kind) {
    const std::string_view path = row_of(kind).count;
    return path.empty() ? 1 : static_cast<uint32_t>(field_of(platform, engine, path));
}

double unit_peak(const proto::Platform& platform, const proto::Engine* engine, UnitKind kind) {
    const UnitKindRow& row = row_of(kind);
    if (row.peak.empty()) return 0;
    double peak = 1;
    for (std::string_view rest = row.peak; !rest.empty();) {
        const size_t blank = std::min(rest.find(' '), rest.size());
        peak *= static_cast<double>(field_of(platform, engine, rest.substr(0, blank)));
        rest.remove_prefix(std::min(blank + 1, rest.size()));
    }
    const double own_cycles = static_cast<double>(clock_of(platform, row.clock).hz()) /
                              static_cast<double>(core_clock(platform).hz());  // in a core cycle
    return peak * own_cycles;
}

}  // namespace kpu::platforms
