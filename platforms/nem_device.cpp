#include "platforms/nem_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "platforms/library.hpp"
#include "platforms/schema.hpp"
#include "platforms/variants.hpp"

namespace kpu::platforms {
namespace {

using nem::DeviceDecl;

std::vector<CharacteristicKey> make_keys() {
    std::vector<CharacteristicKey> keys = {
        {"NMU", "rows", "engine.array.rows",
         "rows of the array; with cols instead of the rule for int8_macs"},
        {"NMU", "cols", "engine.array.cols", "columns of the array"},
        {"NMU", "operand_bytes_per_cycle", "engine.array.operand_bytes_per_cycle",
         "width of an operand port"},
        {"NMU", "result_bytes_per_cycle", "engine.array.result_bytes_per_cycle", "width of the result port"},
        {"CSTL", "elems_per_cycle", "engine.vector.lanes", "lanes of every CSTL and VPU"},
        {"CSTL", "latency", "engine.vector.pipeline_latency_cycles", "pipeline latency"},
        {"CSTL", "operand_bytes_per_cycle", "engine.vector.operand_bytes_per_cycle",
         "width of an operand port"},
        {"CSTL", "result_bytes_per_cycle", "engine.vector.result_bytes_per_cycle",
         "width of the result port"},
        {"SEQ", "max_active_tokens", "sequencer.max_active_tokens", "entries of the token table"},
        {"SEQ", "dispatch_cycles", "sequencer.dispatch_cycles", "between two dispatches"},
        {"SYS", "core_mhz", "clock.core_mhz", "core clock"},
        {"SYS", "link_bytes_per_cycle", "interconnect.link_bytes_per_cycle", "width of each link"},
        {"SYS", "hop_latency_cycles", "interconnect.hop_latency_cycles", "latency of a link"},
        {"SYS", "ddr_channels", "ddr.channels", "DRAM channels"},
        {"SYS", "ddr_data_rate_mtps", "ddr.data_rate_mtps", "DRAM data rate"},
        {"SYS", "ddr_size_bytes", "ddr.size_bytes", "DRAM capacity"},
    };
    const std::pair<const char*, const char*> movers[] = {{"DMA", "engine.dma"}, {"sDMA", "system_dma"}};
    for (const auto& [unit, path] : movers) {
        for (const char* key : {"bytes_per_cycle", "descriptor_cycles", "row_cycles", "burst_bytes",
                                "max_outstanding_bursts"}) {
            keys.push_back({unit, key, fmt::format("{}.{}", path, key), "as the platform field"});
        }
    }
    const std::pair<const char*, const char*> memories[] = {{"L1", "engine.l1"}, {"L2", "l2"}};
    for (const auto& [unit, path] : memories) {
        for (const char* key : {"banks", "bank_width_bytes", "interleave_bytes", "ports", "bytes_per_cycle",
                                "read_latency_cycles", "write_latency_cycles", "access_width_bytes"}) {
            keys.push_back({unit, key, fmt::format("{}.{}", path, key), "as the platform field"});
        }
    }
    return keys;
}

/// MACs per cycle and NMU, by the type that runs at that rate.
constexpr std::pair<const char*, const char*> mac_keys[] = {
    {"int8_macs", "i8"},         {"int4_macs", "i8xi4"},
    {"int16_macs", "i16"},       {"fp16_macs", "f16"},
    {"bf16_macs", "bf16"},       {"fp32_macs", "f32"},
    {"posit8_macs", "posit8"},   {"posit16_macs", "posit16"},
    {"fp8_e4m3_macs", "f8e4m3"}, {"fp8_e5m2_macs", "f8e5m2"},
    {"fp6_e2m3_macs", "f6e2m3"}, {"fp6_e3m2_macs", "f6e3m2"},
    {"fp4_macs", "f4e2m1"},      {"fp8_fp4_macs", "f8e4m3xf4e2m1"}};

/// A device with all that it inherits.
struct Resolved {
    const DeviceDecl* topology = nullptr;
    std::map<std::string, std::map<std::string, int64_t>> characteristics;
    std::vector<nem::VariantRef> mandatory, extended;  ///< each without repetition
    std::string spec_version;
};

class Resolver {
  public:
    Resolver(const nem::Document& document, Diagnostics& diagnostics)
        : document_(document), diagnostics_(diagnostics), families_(families_with(document.families)) {}

    std::optional<Resolved> resolve(const std::string& name) {
        const std::vector<const DeviceDecl*> chain = ancestors(name);
        if (chain.empty()) return std::nullopt;
        Resolved device;
        for (const DeviceDecl* decl : chain) inherit(device, *decl);
        check(device, *chain.back());
        return device;
    }

  private:
    const DeviceDecl* find(const std::string& name) const {
        const auto declared = [&](std::string_view wanted) -> const DeviceDecl* {
            for (const DeviceDecl& decl : document_.devices) {
                if (decl.name == wanted) return &decl;
            }
            return nullptr;
        };
        const DeviceDecl* own = declared(name);
        return own != nullptr ? own : declared(declared_name(name));
    }

    /// Lists the devices from the base to the device; empty after an error. Each parent stands before its
    /// child.
    std::vector<const DeviceDecl*> ancestors(const std::string& name) {
        const DeviceDecl* device = find(name);
        if (device == nullptr) {
            diagnostics_.error({}, unknown_device(name));
            return {};
        }
        std::vector<const DeviceDecl*> chain = {device};
        while (!device->parent.empty()) {
            const DeviceDecl* parent = find(device->parent);
            if (parent == nullptr) {
                diagnostics_.error(device->pos, unknown_device(device->parent));
                return {};
            }
            if (parent >= device) {
                diagnostics_.error(
                    device->pos,
                    fmt::format(
                        "device `{}` extends {}. Fix: name one that is declared before.", device->name,
                        parent == device ? std::string("itself")
                                         : fmt::format("`{}`, which is declared after it", parent->name)));
                return {};
            }
            chain.push_back(device = parent);
        }
        std::reverse(chain.begin(), chain.end());
        return chain;
    }

    std::string unknown_device(const std::string& name) const {
        std::vector<std::string_view> names;
        for (const DeviceDecl& decl : document_.devices) names.push_back(decl.name);
        const std::string nearest = nearest_name(name, names);
        return fmt::format("unknown device `{}`. Fix: {}", name,
                           nearest.empty() ? "include the file that declares it."
                                           : fmt::format("did you mean `{}`?", nearest));
    }

    void inherit(Resolved& device, const DeviceDecl& decl) {
        // the reader has checked spec_version and opcode.mandatory
        if (decl.spec_version) device.spec_version = *decl.spec_version;
        if (decl.has_topology) device.topology = &decl;
        for (const auto& [unit, values] : decl.characteristics) {
            for (const nem::Characteristic& value : values)
                device.characteristics[unit][value.key] = value.value;
        }
        unite(device.mandatory, decl.mandatory);
        unite(device.extended, decl.extended);
    }

    static void unite(std::vector<nem::VariantRef>& set, const std::vector<nem::VariantRef>& more) {
        for (const nem::VariantRef& ref : more) {
            if (!contains(set, ref)) set.push_back(ref);
        }
    }

    static bool contains(const std::vector<nem::VariantRef>& set, const nem::VariantRef& ref) {
        const std::string text = ref.text();
        return std::any_of(set.begin(), set.end(),
                           [&](const nem::VariantRef& other) { return other.text() == text; });
    }

    void check(const Resolved& device, const DeviceDecl& decl) {
        if (device.topology == nullptr) {
            diagnostics_.error(decl.pos,
                               fmt::format("device `{}` is abstract: neither it nor a parent has a topology. "
                                           "Fix: name a device that extends it, or add a topology.",
                                           decl.name));
            return;
        }
        check_counts(*device.topology);
        if (device.mandatory.empty()) {
            diagnostics_.error(decl.pos,
                               fmt::format("opcode.mandatory of device `{}` is empty. Fix: list at least the "
                                           "variants that every device must have.",
                                           decl.name));
        }
        for (const auto* list : {&device.mandatory, &device.extended}) {
            for (const nem::VariantRef& ref : *list) nem::resolve_variant(ref, families_, diagnostics_);
        }
        check_must(device, decl);
        for (const nem::VariantRef& ref : device.extended) {
            if (!contains(device.mandatory, ref)) continue;
            diagnostics_.warning(ref.pos,
                                 fmt::format("`{}` is both mandatory and extended; the extended entry is "
                                             "ignored. Fix: remove it.",
                                             ref.text()));
        }
    }

    void check_counts(const DeviceDecl& decl) {
        const auto error = [&](const std::string& message) { diagnostics_.error(decl.pos, message); };
        if (decl.num_engines < 1) error("num_engines must be at least 1. Fix: give the number of engines.");
        if (decl.l1_size_bytes < 1 || decl.l2_size_bytes < 1)
            error("memory sizes must be > 0. Fix: give sizes in bytes.");
        for (const nem::UnitCount& count : decl.per_engine) {
            if (count.count >= 1) continue;
            diagnostics_.error(count.pos, fmt::format("per_engine {} must be at least 1. Fix: give a count.",
                                                      name_of(count.kind)));
        }
        for (const nem::UnitCount& count : decl.device_units) {
            if (count.count >= 0) continue;
            diagnostics_.error(
                count.pos,
                fmt::format("device_units {} must be at least 0. Fix: give a count.", name_of(count.kind)));
        }
    }

    void check_must(const Resolved& device, const DeviceDecl& decl) {
        std::string missing;
        for (const TypeVariant& must : nem::all_variants(nem::standard_families(), true)) {
            const auto is_must = [&](const nem::VariantRef& ref) { return ref.text() == must.name; };
            if (std::any_of(device.mandatory.begin(), device.mandatory.end(), is_must)) continue;
            missing += (missing.empty() ? "" : ", ") + must.name;
        }
        if (missing.empty()) return;
        diagnostics_.error(
            decl.pos, fmt::format("opcode.mandatory of device `{}` lacks variants that every device must "
                                  "have: {}. Fix: add them, or extend npm_baseline_1_0.",
                                  decl.name, missing));
    }

    const nem::Document& document_;
    Diagnostics& diagnostics_;
    const std::vector<nem::TypeFamily> families_;
};

/// Turns a resolved device into fields of a platform.
class Writer {
  public:
    Writer(const nem::Document& document, const Resolved& device, const DeviceDecl& decl,
           Diagnostics& diagnostics)
        : document_(document), device_(device), decl_(decl), diagnostics_(diagnostics) {}

    proto::Platform write() {
        platform_.set_name(decl_.name);
        platform_.set_version(device_.spec_version);
        write_topology();
        write_array();
        for (const auto& [unit, values] : device_.characteristics) {
            for (const auto& [key, value] : values) write_characteristic(unit, key, value);
        }
        for (const nem::VariantRef& ref : device_.mandatory) platform_.add_variant(ref.text());
        for (const nem::VariantRef& ref : device_.extended) {
            const std::string text = ref.text();
            const auto& list = platform_.variant();
            if (std::find(list.begin(), list.end(), text) == list.end()) platform_.add_variant(text);
        }
        write_families();
        describe();
        return platform_;
    }

  private:
    /// Families that the device's variants name and that are not the shipped ones.
    void write_families() {
        for (const nem::TypeFamily& family : document_.families) {
            const auto& known = known_families();
            const bool shipped = std::any_of(known.begin(), known.end(), [&](const nem::TypeFamily& other) {
                return other.name == family.name && other.text == family.text;
            });
            const auto names_it = [&](const nem::VariantRef& ref) { return ref.family == family.name; };
            const bool used = std::any_of(device_.mandatory.begin(), device_.mandatory.end(), names_it) ||
                              std::any_of(device_.extended.begin(), device_.extended.end(), names_it);
            if (used && !shipped) platform_.add_type_family(family.text);
        }
    }

    void describe() {
        const DeviceDecl& topology = *device_.topology;
        const auto& array = platform_.engine(0).array();
        platform_.set_description(
            fmt::format("NEM device: {} engine{} with {} {}x{} systolic array{}, {} KiB L1 each, {} KiB L2",
                        topology.num_engines, topology.num_engines == 1 ? "" : "s", array.count(),
                        array.rows(), array.cols(), array.count() == 1 ? "" : "s",
                        topology.l1_size_bytes / 1024, topology.l2_size_bytes / 1024));
    }

    void write_topology() {
        const DeviceDecl& topology = *device_.topology;
        platform_.add_engine();
        set("engine.count", topology.num_engines);
        set("l2.size_bytes", topology.l2_size_bytes);
        set("engine.l1.size_bytes", topology.l1_size_bytes);
        for (const auto* counts : {&topology.per_engine, &topology.device_units}) {
            for (const nem::UnitCount& count : *counts) {
                // one sequencer per engine is what the model has: it has no field
                const std::string_view field = row_of(count.kind).count;
                if (!field.empty()) set(std::string(field), count.count);
            }
        }
    }

    std::optional<int64_t> nmu(const std::string& key) const {
        const auto unit = device_.characteristics.find("NMU");
        if (unit == device_.characteristics.end()) return std::nullopt;
        const auto value = unit->second.find(key);
        return value == unit->second.end() ? std::nullopt : std::optional<int64_t>(value->second);
    }

    /// rows <= cols, powers of two, rows * cols = int8_macs; rate[T] = macs[T] / int8_macs.
    void write_array() {
        const auto int8 = nmu("int8_macs");
        if (!int8 || *int8 < 1 || (*int8 & (*int8 - 1)) != 0 || *int8 > (int64_t{1} << 24)) {
            diagnostics_.error(
                decl_.pos, fmt::format("device `{}`: NMU.int8_macs must be a power of two from 1 to 2^24. "
                                       "Fix: add unit_characteristics {{ NMU {{ int8_macs = 4096 }} }}.",
                                       decl_.name));
            return;
        }
        int bits = 0;
        while ((int64_t{1} << bits) < *int8) ++bits;
        set("engine.array.rows", int64_t{1} << (bits / 2));
        set("engine.array.cols", int64_t{1} << (bits - bits / 2));
        for (const auto& [key, type] : mac_keys) {
            const auto macs = nmu(key);
            if (!macs) continue;
            if (*macs < 1) {
                diagnostics_.error(decl_.pos,
                                   fmt::format("device `{}`: NMU.{} must be at least 1.", decl_.name, key));
                continue;
            }
            proto::MacRate& rate = *platform_.mutable_engine(0)->mutable_array()->add_rate();
            rate.set_type(type);
            rate.set_relative(static_cast<double>(*macs) / static_cast<double>(*int8));
        }
    }

    void write_characteristic(const std::string& unit, const std::string& key, int64_t value) {
        if (unit == "NMU" && std::any_of(std::begin(mac_keys), std::end(mac_keys),
                                         [&](const auto& row) { return key == row.first; })) {
            return;
        }
        for (const CharacteristicKey& row : characteristic_keys()) {
            if (row.unit != unit || row.key != key) continue;
            set(row.path, value);
            return;
        }
        proto::UnitCharacteristic& kept = *platform_.add_characteristic();
        kept.set_unit(unit);
        kept.set_key(key);
        kept.set_value(value);
    }

    void set(const std::string& path, int64_t value) {
        try {
            schema::set_path(platform_, path, fmt::format("{}", value));
        } catch (const UserError& error) {
            std::string_view message = error.what();
            const std::string option = fmt::format("--set {}={}: ", path, value);  // nobody gave one
            if (message.substr(0, option.size()) == option) message.remove_prefix(option.size());
            diagnostics_.error(decl_.pos, fmt::format("device `{}`: {}", decl_.name, message));
        }
    }

    const nem::Document& document_;
    const Resolved& device_;
    const DeviceDecl& decl_;
    Diagnostics& diagnostics_;
    proto::Platform platform_;
};

}  // namespace

const std::vector<CharacteristicKey>& characteristic_keys() {
    static const std::vector<CharacteristicKey> keys = make_keys();
    return keys;
}

proto::Platform nem_fields(const nem::Document& document, const std::string& device_name,
                           Diagnostics& diagnostics) {
    const size_t errors_before = diagnostics.error_count();
    const auto device = Resolver(document, diagnostics).resolve(device_name);
    if (!device || diagnostics.error_count() != errors_before) return {};
    const auto decl = std::find_if(document.devices.begin(), document.devices.end(),
                                   [&](const DeviceDecl& d) { return d.name == device_name; });
    return Writer(document, *device, *decl, diagnostics).write();
}

}  // namespace kpu::platforms
