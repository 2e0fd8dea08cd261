#include "platforms/starved.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "platforms/operating_points.hpp"
#include "platforms/rules.hpp"

namespace kpu::platforms {
namespace {

/// The limit of an array: a field, the bytes that it brings in a cycle of the array, those that are needed.
struct Narrow {
    std::string field;
    double brings, needs;
    double share() const { return brings / needs; }
};

/// Bytes a cycle of the operands that stream through an array: both of them, or the one that does not stay in it.
/// What stays is loaded once for as many cycles as a program likes, so no shape of the device starves it.
struct Streams {
    double first = 0, second = 0;
};
Streams streams_of(const proto::SystolicArray& array, const proto::MacRate& rate, const RateTypes& types) {
    const double first = bit_width(types.first) / 8.0 * rate.relative();
    const double second = bit_width(types.second) / 8.0 * rate.relative();
    switch (array.dataflow()) {
        case proto::SystolicArray::os:
            return {array.rows() * first, array.cols() * second};
        case proto::SystolicArray::ws:
            return {array.rows() * first, 0};
        case proto::SystolicArray::is:
            return {0, array.rows() * second};
    }
    return {};
}

/// The narrowest part on the way of an array's operands; nothing if none of them is too narrow.
std::optional<Narrow> narrowest(const proto::Platform& platform, const proto::Engine& engine,
                                const Streams& streams) {
    const double wider = std::max(streams.first, streams.second);
    const double sram_cycles =
        mhz_of(platform.clock(), traces::Component::l1) / mhz_of(platform.clock(), traces::Component::array);
    const proto::Sram& l1 = engine.l1();
    const double all = engine.array().count() * (streams.first + streams.second);
    const Narrow parts[] = {
        {"engine.array.operand_bytes_per_cycle", double(engine.array().operand_bytes_per_cycle()), wider},
        {"engine.l1.ports * engine.l1.bytes_per_cycle", sram_cycles * l1.ports() * l1.bytes_per_cycle(), all},
        {"engine.l1.banks * engine.l1.bank_width_bytes", sram_cycles * l1.banks() * l1.bank_width_bytes(),
         all}};
    const Narrow& least =
        *std::min_element(std::begin(parts), std::end(parts),
                          [](const Narrow& a, const Narrow& b) { return a.share() < b.share(); });
    return least.share() < 1 ? std::optional(least) : std::nullopt;
}

}  // namespace

void note_starved_arrays(const proto::Platform& platform, Diagnostics& notes) {
    for (int k = 0; k < platform.engine_size(); ++k) {
        const proto::Engine& engine = platform.engine(k);
        for (const proto::MacRate& rate : engine.array().rate()) {
            const std::optional<RateTypes> types = rate_types(rate.type());
            if (!types) continue;
            const auto part = narrowest(platform, engine, streams_of(engine.array(), rate, *types));
            if (!part) continue;
            notes.info(
                {},
                fmt::format(
                    "platform {}: engine[{}].array starves in {} by its own shape: its {} stream takes {:g} "
                    "bytes a cycle, and {} brings {:g}, so that it works at most {:.3g} % of the "
                    "time. Fix: widen that, or set fewer rows or a lower rate.",
                    platform.name(), k, rate.type(),
                    engine.array().dataflow() == proto::SystolicArray::os ? "operands'" : "operand's",
                    part->needs, part->field, part->brings, 100 * part->share()));
        }
    }
}

}  // namespace kpu::platforms
