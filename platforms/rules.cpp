#include "platforms/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "isa/kernel/operations.hpp"
#include "isa/opcodes.hpp"
#include "platforms/ddr.hpp"
#include "platforms/operating_points.hpp"
#include "platforms/variants.hpp"

namespace kpu::platforms {
namespace {

bool is_kernel_cost(std::string_view name) {
    const auto& rows = kernel::cost_rows();
    return std::any_of(rows.begin(), rows.end(),
                       [&](const kernel::CostRow& row) { return row.name == name; });
}

constexpr uint32_t accumulator_bytes = 4;

/// Returns the bytes a cycle that keep the longer side of the array fed at its hungriest type.
uint32_t operand_port_bytes(const proto::SystolicArray& array) {
    double widest = 1;
    for (const proto::MacRate& rate : array.rate()) {
        const auto types = rate_types(rate.type());
        if (!types) continue;
        const double bytes = std::max(bit_width(types->first), bit_width(types->second)) / 8.0;
        widest = std::max(widest, std::max(array.rows(), array.cols()) * bytes * rate.relative());
    }
    return static_cast<uint32_t>(std::ceil(widest));
}

class Checker {
  public:
    Checker(const proto::Platform& platform, std::string origin, const schema::ParseInfoTree* places,
            Diagnostics& diagnostics)
        : platform_(platform), origin_(std::move(origin)), places_(places), diagnostics_(diagnostics) {}

    void run() {
        if (platform_.engine().empty()) {
            error("engine", "`engine` is missing: a device has at least one. Fix: add `engine { ... }`.");
        }
        uint64_t engines = 0;
        for (int k = 0; k < platform_.engine_size(); ++k) {
            engines += platform_.engine(k).count();
            check_array(platform_.engine(k).array(), fmt::format("engine[{}].array", k));
            check_costs(platform_.engine(k).vector(), fmt::format("engine[{}].vector", k));
        }
        if (engines > 1024)
            error("engine", fmt::format("{} engines in all; at most 1024 are modelled.", engines));
        for (std::string& problem : point_problems(platform_.clock())) error("clock", std::move(problem));
        check_ddr();
        check_variants();
    }

  private:
    void error(const char* top_field, std::string message) {
        SourcePos pos{origin_, 0, 0};
        if (places_ != nullptr) {
            const auto* field = proto::Platform::descriptor()->FindFieldByName(top_field);
            const auto location = places_->GetLocation(field, field->is_repeated() ? 0 : -1);
            if (location.line >= 0) {
                pos.line = static_cast<uint32_t>(location.line + 1);
                pos.column = static_cast<uint32_t>(location.column + 1);
            }
        }
        diagnostics_.error(std::move(pos), std::move(message));
    }

    void check_array(const proto::SystolicArray& array, const std::string& path) {
        if (array.rate().empty()) {
            error("engine",
                  fmt::format("`{}.rate` is missing: an array without a rate executes nothing. Fix: add "
                              "`rate {{ type: \"i8\" relative: 1 }}`.",
                              path));
        }
        std::set<std::string> seen;
        for (const proto::MacRate& rate : array.rate()) {
            if (!rate_types(rate.type())) {
                error(
                    "engine",
                    fmt::format("`{}.rate.type` is `{}`. Fix: one of i8, i8xi4, i16, f16, bf16, f32, posit8, "
                                "posit16, f8e4m3, f8e5m2, f6e2m3, f6e3m2, f4e2m1, f8e4m3xf4e2m1.",
                                path, rate.type()));
            }
            if (!seen.insert(rate.type()).second) {
                error("engine",
                      fmt::format("`{}.rate` has type `{}` twice. Fix: remove one.", path, rate.type()));
            }
        }
    }

    void check_costs(const proto::Vector& vector, const std::string& path) {
        std::set<std::string> seen;
        for (const proto::OpcodeCost& cost : vector.cost()) {
            if (!find_opcode(cost.opcode()) && !is_kernel_cost(cost.opcode())) {
                error("engine", fmt::format("`{}.cost.opcode`: unknown opcode `{}`. Fix: did you mean `{}`?",
                                            path, cost.opcode(), nearest_opcode(cost.opcode())));
            }
            if (!seen.insert(cost.opcode()).second) {
                error("engine",
                      fmt::format("`{}.cost` has opcode `{}` twice. Fix: remove one.", path, cost.opcode()));
            }
        }
    }

    void check_ddr() {
        const proto::Ddr& ddr = platform_.ddr();
        const proto::DdrDevice* device = find_ddr_device(ddr.device());
        if (device == nullptr) {
            const std::vector<std::string> names = ddr_device_names();
            const std::vector<std::string_view> candidates(names.begin(), names.end());
            error("ddr",
                  fmt::format("`ddr.device`: unknown device `{}`. Fix: one of {}; did you mean `{}`?",
                              ddr.device(), fmt::join(names, ", "), nearest_name(ddr.device(), candidates)));
            return;
        }
        if (ddr.data_rate_mtps() > device->data_rate_mtps()) {
            error("ddr",
                  fmt::format("`ddr.data_rate_mtps` is {}, but {} runs at up to {}. Fix: lower the rate or "
                              "choose a faster device.",
                              ddr.data_rate_mtps(), device->name(), device->data_rate_mtps()));
        }
        const uint64_t capacity = ddr_capacity(ddr, *device);
        if (ddr.size_bytes() > capacity) {
            error("ddr",
                  fmt::format(
                      "`ddr.size_bytes` is {}, but {} channels of {}{} hold {}. Fix: lower the size or "
                      "add channels or ranks.",
                      ddr.size_bytes(), ddr.channels(), device->name(),
                      ddr.ranks() > 1 ? fmt::format(" with {} ranks each", ddr.ranks()) : "", capacity));
        }
        check_mapping(ddr);
        check_controller(ddr.controller());
    }

    /// The orders of fields that fidelity burst also takes are checked where they are used.
    void check_mapping(const proto::Ddr& ddr) {
        std::vector<std::string_view> names;
        for (const proto::DdrMapping& mapping : ddr_mappings()) names.push_back(mapping.name());
        if (std::find(names.begin(), names.end(), ddr.mapping()) != names.end()) return;
        if (ddr.mapping().find_first_of(" ,:") == std::string::npos) {
            error("ddr",
                  fmt::format("`ddr.mapping`: unknown mapping `{}`. Fix: one of {}; did you mean `{}`?",
                              ddr.mapping(), fmt::join(names, ", "), nearest_name(ddr.mapping(), names)));
        } else if (ddr.fidelity() != "burst") {
            error("ddr", fmt::format("`ddr.mapping` is `{}`, but `ddr.fidelity: \"simple\"` knows only {}. "
                                     "Fix: use one of them, or `fidelity: \"burst\"`.",
                                     ddr.mapping(), fmt::join(names, ", ")));
        }
    }

    void check_controller(const proto::DdrController& controller) {
        if (controller.write_high() > controller.write_queue()) {
            error("ddr", fmt::format("`ddr.controller.write_high` is {}, which a write queue of {} never "
                                     "reaches. Fix: lower write_high or raise write_queue.",
                                     controller.write_high(), controller.write_queue()));
        }
        if (controller.write_low() >= controller.write_high()) {
            error("ddr", fmt::format("`ddr.controller.write_low` is {}, not below write_high = {}, so that "
                                     "writing would never pause. Fix: lower write_low.",
                                     controller.write_low(), controller.write_high()));
        }
    }

    void check_variants() {
        std::set<std::string> seen;
        for (const std::string& variant : platform_.variant()) {
            if (!seen.insert(variant).second) {
                error("variant", fmt::format("`variant` has `{}` twice. Fix: remove one.", variant));
            }
        }
        Diagnostics found;
        resolve_variants(platform_, found);
        for (const Diagnostic& diagnostic : found.all()) error("variant", diagnostic.message);
    }

    const proto::Platform& platform_;
    std::string origin_;
    const schema::ParseInfoTree* places_;
    Diagnostics& diagnostics_;
};

}  // namespace

std::optional<RateTypes> rate_types(std::string_view text) {
    struct Row {
        std::string_view text;
        RateTypes types;
    };
    using E = ElemType;
    constexpr Row rows[] = {{"i8", {E::i8, E::i8}},
                            {"i8xi4", {E::i8, E::i4}},
                            {"i16", {E::i16, E::i16}},
                            {"f16", {E::f16, E::f16}},
                            {"bf16", {E::bf16, E::bf16}},
                            {"f32", {E::f32, E::f32}},
                            {"posit8", {E::posit8, E::posit8}},
                            {"posit16", {E::posit16, E::posit16}},
                            {"f8e4m3", {E::f8e4m3, E::f8e4m3}},
                            {"f8e5m2", {E::f8e5m2, E::f8e5m2}},
                            {"f6e2m3", {E::f6e2m3, E::f6e2m3}},
                            {"f6e3m2", {E::f6e3m2, E::f6e3m2}},
                            {"f4e2m1", {E::f4e2m1, E::f4e2m1}},
                            {"f8e4m3xf4e2m1", {E::f8e4m3, E::f4e2m1}}};
    for (const Row& row : rows) {
        if (row.text == text) return row.types;
    }
    return std::nullopt;
}

namespace {

/// Gives every opcode of the vector units its row, so that a resolved platform says what each costs.
void derive_costs(proto::Vector& vector) {
    for (const OpcodeSpec& spec : opcode_table()) {
        if (row_of(spec.unit).opcodes != "vector" || spec.movement || spec.refused) continue;
        auto& rows = *vector.mutable_cost();
        const auto known = std::find_if(rows.begin(), rows.end(), [&](const proto::OpcodeCost& row) {
            return row.opcode() == spec.name;
        });
        proto::OpcodeCost& row = known != rows.end() ? *known : *rows.Add();
        row.set_opcode(std::string(spec.name));
        if (!row.has_cycles_per_element()) row.set_cycles_per_element(spec.cycles);
        if (!row.has_passes()) row.set_passes(spec.passes);
    }
}

}  // namespace

void derive(proto::Platform& platform) {
    for (proto::Engine& engine : *platform.mutable_engine()) {
        proto::SystolicArray& array = *engine.mutable_array();
        if (!array.has_operand_bytes_per_cycle())
            array.set_operand_bytes_per_cycle(operand_port_bytes(array));
        if (!array.has_result_bytes_per_cycle())
            array.set_result_bytes_per_cycle(array.cols() * accumulator_bytes);
        proto::Vector& vector = *engine.mutable_vector();
        if (!vector.has_operand_bytes_per_cycle()) vector.set_operand_bytes_per_cycle(vector.lanes() * 4);
        if (!vector.has_result_bytes_per_cycle()) vector.set_result_bytes_per_cycle(vector.lanes() * 4);
        derive_costs(vector);
    }
    proto::Interconnect& links = *platform.mutable_interconnect();
    if (!links.has_system_link_bytes_per_cycle())
        links.set_system_link_bytes_per_cycle(links.link_bytes_per_cycle());
    const proto::DdrDevice* device = find_ddr_device(platform.ddr().device());
    if (device == nullptr) return;  // check_rules says so
    proto::Ddr& ddr = *platform.mutable_ddr();
    if (!ddr.has_data_rate_mtps()) ddr.set_data_rate_mtps(device->data_rate_mtps());
    if (!ddr.has_size_bytes()) ddr.set_size_bytes(ddr_capacity(ddr, *device));
    proto::DdrController controller = default_ddr_controller();
    controller.clear_request_nck();  // both follow from controller_latency_ns
    controller.clear_response_nck();
    controller.MergeFrom(ddr.controller());
    *ddr.mutable_controller() = controller;
}

void fit_ddr_size(proto::Platform& platform, const Overrides& overrides, bool changed, Diagnostics* notes) {
    const auto any = [&](auto matches) { return std::any_of(overrides.begin(), overrides.end(), matches); };
    if (any([](const auto& item) { return item.first == "ddr.size_bytes"; })) return;
    if (!changed && !any([](const auto& item) { return starts_with(item.first, "ddr."); })) return;
    proto::Ddr& ddr = *platform.mutable_ddr();
    const proto::DdrDevice* device = find_ddr_device(ddr.device());
    if (device == nullptr || ddr.size_bytes() <= ddr_capacity(ddr, *device)) return;
    const uint64_t before = ddr.size_bytes();
    ddr.set_size_bytes(ddr_capacity(ddr, *device));
    if (notes != nullptr)
        notes->info(
            {}, fmt::format("ddr.size_bytes is {} instead of {}: more does not fit the other values of ddr.",
                            ddr.size_bytes(), before));
}

void check_rules(const proto::Platform& platform, const std::string& origin,
                 const schema::ParseInfoTree* places, Diagnostics& diagnostics) {
    Checker(platform, origin, places, diagnostics).run();
}

}  // namespace kpu::platforms
