#include "platforms/scale_sim_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace kpu::platforms {
namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return result;
}

/// Keys that describe what is not modelled here: memory beyond the array's SRAM, its layout, sparsity.
constexpr std::string_view ignored_keys[] = {"IfmapOffset",
                                             "FilterOffset",
                                             "OfmapOffset",
                                             "Bandwidth",
                                             "MemoryBanks",
                                             "ReadRequestBuffer",
                                             "WriteRequestBuffer",
                                             "IfmapCustomLayout",
                                             "IfmapSRAMBankBandwidth",
                                             "IfmapSRAMBankNum",
                                             "IfmapSRAMBankPort",
                                             "FilterCustomLayout",
                                             "FilterSRAMBankBandwidth",
                                             "FilterSRAMBankNum",
                                             "FilterSRAMBankPort",
                                             "SparsitySupport",
                                             "SparseRep",
                                             "OptimizedMapping",
                                             "BlockSize",
                                             "RandomNumberGeneratorSeed",
                                             "InterfaceBandwidth",
                                             "UseRamulatorTrace",
                                             "Topology"};
constexpr std::string_view used_keys[] = {"run_name",       "ArrayHeight",   "ArrayWidth", "IfmapSramSzkB",
                                          "FilterSramSzkB", "OfmapSramSzkB", "Dataflow"};
constexpr std::string_view sections[] = {"general",  "architecture_presets", "layout",
                                         "sparsity", "run_presets",          "network_presets"};

struct Entry {
    std::string value;
    uint32_t line = 0;
};

class Reader {
  public:
    Reader(std::string origin, Diagnostics& diagnostics)
        : origin_(std::move(origin)), diagnostics_(diagnostics) {}

    void read(std::string_view text) {
        while (!text.empty()) {
            const std::string_view line = take_line(text);
            ++line_;
            if (line.empty() || line.front() == '#' || line.front() == ';') continue;
            if (line.front() == '[') {
                read_section(line);
            } else {
                read_entry(line);
            }
        }
        if (!ignored_.empty()) {
            diagnostics_.info({origin_, 0, 0},
                              fmt::format("not modelled, so ignored: {}.", fmt::join(ignored_, ", ")));
        }
    }

    const Entry* find(std::string_view key) const {
        const auto entry = entries_.find(lower(key));
        return entry == entries_.end() ? nullptr : &entry->second;
    }

    uint32_t size(std::string_view key, uint64_t most) {
        const Entry* entry = find(key);
        if (entry == nullptr) {
            diagnostics_.error({origin_, 0, 0}, fmt::format("`{}` is missing. Fix: add it to "
                                                            "[architecture_presets].",
                                                            key));
            return 0;
        }
        int64_t value = 0;
        const std::string& text = entry->value;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (failed != std::errc() || end != text.data() + text.size() || value <= 0 ||
            static_cast<uint64_t>(value) > most) {
            diagnostics_.error(
                {origin_, entry->line, 1},
                fmt::format("`{}` is `{}`. Fix: give a whole number from 1 to {}.", key, text, most));
            return 0;
        }
        return static_cast<uint32_t>(value);
    }

  private:
    void error(std::string message) { diagnostics_.error({origin_, line_, 1}, std::move(message)); }

    void read_section(std::string_view line) {
        in_section_ = true;
        const std::string name = lower(trimmed(line.substr(1, line.find(']') - 1)));
        if (line.back() != ']')
            return error(fmt::format("`{}` is not a section. Fix: close it with `]`.", line));
        if (std::find(std::begin(sections), std::end(sections), name) != std::end(sections)) return;
        error(fmt::format("unknown section `{}`. Fix: did you mean `{}`?", name,
                          nearest_name(name, {std::begin(sections), std::end(sections)})));
    }

    void read_entry(std::string_view line) {
        const size_t mark = line.find_first_of(":=");
        if (mark == std::string_view::npos)
            return error(
                fmt::format("`{}` is neither a section nor an entry. Fix: write KEY : VALUE.", line));
        const std::string_view key = trimmed(line.substr(0, mark));
        std::string_view value = trimmed(line.substr(mark + 1));
        const auto is_key = [&](std::string_view known) { return lower(known) == lower(key); };
        if (std::any_of(std::begin(used_keys), std::end(used_keys), is_key)) {
            if (!entries_.try_emplace(lower(key), Entry{std::string(value), line_}).second)
                error(fmt::format("`{}` stands twice. Fix: remove one.", key));
        } else if (std::any_of(std::begin(ignored_keys), std::end(ignored_keys), is_key)) {
            ignored_.emplace_back(key);
            if (lower(key) == "interfacebandwidth" && lower(value) == "user")
                diagnostics_.warning(
                    {origin_, line_, 1},
                    "`InterfaceBandwidth: USER` asks for the stalls of that bandwidth, which "
                    "are not counted: cycles are those of CALC. Fix: give the memory as a "
                    "platform of kpusim, where stalls come from it.");
        } else {
            std::vector<std::string_view> known(std::begin(used_keys), std::end(used_keys));
            known.insert(known.end(), std::begin(ignored_keys), std::end(ignored_keys));
            diagnostics_.info({origin_, line_, 1},
                              fmt::format("unknown key `{}` is ignored: did you mean `{}`?", key,
                                          nearest_name(key, known)));
        }
        if (!in_section_)
            error(
                fmt::format("`{}` stands before any section. Fix: begin with [architecture_presets].", key));
        in_section_ = true;  // said once
    }

    std::string origin_;
    Diagnostics& diagnostics_;
    uint32_t line_ = 0;
    bool in_section_ = false;
    std::map<std::string, Entry> entries_;
    std::vector<std::string> ignored_;
};

/// Makes SRAM as wide as the schema allows: an array of any size finds every operand in time.
void never_limits(proto::Engine& engine) {
    constexpr uint32_t widest = 65536;
    engine.mutable_array()->set_operand_bytes_per_cycle(widest);
    engine.mutable_array()->set_result_bytes_per_cycle(widest);
    proto::Sram& l1 = *engine.mutable_l1();
    l1.set_banks(4096);
    l1.set_bank_width_bytes(4096);
    l1.set_interleave_bytes(4096);
    l1.set_ports(16);
    l1.set_bytes_per_cycle(widest);
    l1.set_read_latency_cycles(0);
    l1.set_write_latency_cycles(0);
}

}  // namespace

bool is_scale_sim_config(std::string_view text) {
    while (!text.empty()) {
        const std::string_view line = take_line(text);
        if (line.empty() || line.front() == '#' || line.front() == ';') continue;
        const std::string key = lower(trimmed(line.substr(0, line.find_first_of(":="))));
        return line.front() == '[' ||
               std::any_of(std::begin(used_keys), std::end(used_keys),
                           [&](std::string_view known) { return lower(known) == key; });
    }
    return false;
}

proto::Platform scale_sim_fields(std::string_view text, const std::string& origin, Diagnostics& diagnostics) {
    constexpr uint64_t most_cells = 4096, most_kib = uint64_t{1} << 20;
    Reader reader(origin, diagnostics);
    reader.read(text);
    proto::Platform platform;
    const Entry* name = reader.find("run_name");
    platform.set_name(name != nullptr && !name->value.empty() ? name->value : "scale_sim");
    platform.set_description("from a SCALE-Sim configuration");
    proto::Engine& engine = *platform.add_engine();
    proto::SystolicArray& array = *engine.mutable_array();
    array.set_count(1);
    array.set_rows(reader.size("ArrayHeight", most_cells));
    array.set_cols(reader.size("ArrayWidth", most_cells));
    array.set_timing(proto::SystolicArray::compat);
    const Entry* dataflow = reader.find("Dataflow");
    proto::SystolicArray::Dataflow parsed{};
    if (dataflow == nullptr) {
        diagnostics.error({origin, 0, 0}, "`Dataflow` is missing. Fix: add it to [architecture_presets].");
    } else if (proto::SystolicArray::Dataflow_Parse(lower(dataflow->value), &parsed)) {
        array.set_dataflow(parsed);
    } else {
        diagnostics.error({origin, dataflow->line, 1},
                          fmt::format("`Dataflow` is `{}`. Fix: one of os, ws, is.", dataflow->value));
    }
    proto::MacRate& rate = *array.add_rate();
    rate.set_type("i8");
    rate.set_relative(1);
    uint64_t kib = 0;
    for (const char* key : {"IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB"})
        kib += reader.size(key, most_kib);
    never_limits(engine);
    engine.mutable_l1()->set_size_bytes(kib * 1024);
    platform.mutable_sequencer()->set_dispatch_cycles(0);
    platform.add_variant("gemm.acc<i8,i8,i32>.no_addend");
    return platform;
}

}  // namespace kpu::platforms
