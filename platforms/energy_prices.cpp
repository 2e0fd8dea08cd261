// Prices of a platform's actions: energy.md has the formulas and what is assumed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "platforms/area.hpp"
#include "platforms/ddr.hpp"
#include "platforms/energy_table.hpp"
#include "platforms/operating_points.hpp"
#include "platforms/platform.hpp"
#include "platforms/rules.hpp"

namespace kpu::platforms {
namespace {

using traces::Component;

constexpr double hop_mm = 2.0;  ///< wire that a byte drives per hop
constexpr double kib = 1024, mib = 1024 * kib;

/// Returns the action that a MAC of this rate is charged as.
std::string mac_action(const std::string& rate_type) {
    // an array for both types of a pair has the multipliers of the wider float, but halves of those of integers
    return "mac." + (rate_type == "i8xi4" ? "i4" : rate_type.substr(0, rate_type.find('x')));
}

class Pricer {
  public:
    Pricer(const Platform& platform, const proto::EnergyTable& table)
        : platform_(platform),
          table_(scale_table(table, platform.energy())),
          engines_(engines_of(platform)),
          device_(rated_ddr_device(platform.ddr().device())) {}

    traces::EnergyPrices price() {
        fill_conditions();
        add_actions();
        add_dram();
        add_statics();
        prices_.not_modelled = outside();
        return std::move(prices_);
    }

    /// Splits the static power of components among the engines and the device.
    std::vector<traces::StaticPart> parts() const {
        std::vector<traces::StaticPart> result;
        const double idle = value("clock", "static.idle"), gated = value("clock", "static.gated");
        const auto part = [&](Component component, int engine, double size, double peak_mw) {
            const double leak = leakage(component, size), clock = idle * peak_mw;
            result.push_back({component, engine, leak + clock, leak + gated * clock});
        };
        const proto::Interconnect& links = platform_.interconnect();
        const double link_bytes = links.link_bytes_per_cycle(),
                     system_bytes = links.system_link_bytes_per_cycle();
        part(Component::dma, -1, platform_.system_dma().channels(), peak_dma(platform_.system_dma()));
        part(Component::noc, -1, system_bytes, mw(Component::noc, system_bytes * noc_byte()));
        for (size_t k = 0; k < engines_.size(); ++k) {
            const auto engine = static_cast<int>(k);
            const Blocks own = blocks_of(engines_[k]);
            part(Component::array, engine, own.array_mm2, own.array_mw);
            part(Component::vector, engine, own.vector_mm2, own.vector_mw);
            part(Component::l1, engine, own.l1_bytes, own.l1_mw);
            part(Component::dma, engine, own.dma_channels, own.dma_mw);
            part(Component::noc, engine, link_bytes, mw(Component::noc, link_bytes * noc_byte()));
        }
        return result;
    }

  private:
    const proto::EnergyEntry& entry(const std::string& component, const std::string& action) const {
        for (const proto::EnergyEntry& candidate : table_.entry()) {
            if (candidate.component() == component && candidate.action() == action) return candidate;
        }
        throw UserError(
            fmt::format("energy table `{}` has no entry `{}.{}`, which platform `{}` needs. Fix: add it with "
                        "its source.",
                        table_.name(), component, action, platform_.name()));
    }
    bool has_entry(std::string_view component, std::string_view action) const {
        return std::any_of(table_.entry().begin(), table_.entry().end(), [&](const proto::EnergyEntry& row) {
            return row.component() == component && row.action() == action;
        });
    }
    double value(const std::string& component, const std::string& action) const {
        return entry(component, action).energy_pj();
    }

    void fill_conditions() {
        const proto::Energy& energy = platform_.energy();
        prices_.table = table_.name();
        prices_.corner = proto::Energy::Corner_Name(energy.corner());
        prices_.node_nm = table_.node_nm();
        prices_.vdd = table_.vdd();
        prices_.temp_c = table_.temp_c();
        prices_.tdp_w = energy.tdp_w();
        prices_.trace_bin_ns = energy.trace_bin_ns();
        prices_.clock_gating = energy.clock_gating();
        prices_.idle_to_gate_cycles = energy.idle_to_gate_cycles();
    }

    void add(Component component, std::string action, double energy_pj, std::string per, std::string source) {
        prices_.actions.push_back({component, std::move(action), energy_pj * dynamic_of(component),
                                   std::move(per), std::move(source)});
    }
    /// Adds an action that is an entry of the table as it stands.
    void add_entry(Component component, const std::string& table_component, const std::string& action) {
        const proto::EnergyEntry& found = entry(table_component, action);
        add(component, action, found.energy_pj(), found.per(), found.source());
    }

    void add_actions() {
        std::vector<std::string> macs;
        for (const proto::Engine& engine : engines_) {
            for (const proto::MacRate& rate : engine.array().rate()) {
                const std::string action = mac_action(rate.type());
                if (std::find(macs.begin(), macs.end(), action) == macs.end()) macs.push_back(action);
            }
        }
        for (const std::string& action : macs) add_entry(Component::array, "array", action);
        for (const char* action : {"pe.shift", "pe.idle"}) add_entry(Component::array, "array", action);
        for (const char* action :
             {"op.i8", "op.i16", "op.i32", "op.f16", "op.bf16", "op.f32", "op.transcendental", "move"}) {
            add_entry(Component::vector, "vector", action);
        }
        // every device casts posits, not every table has their prices
        for (const char* action : {"op.posit8", "op.posit16"}) {
            const proto::EnergyEntry& found =
                entry("vector", has_entry("vector", action) ? action : "op.f16");
            add(Component::vector, action, found.energy_pj(), found.per(), found.source());
        }
        add_sram(Component::l1, largest_l1());
        add_sram(Component::l2, platform_.l2());
        add(Component::noc, "byte", noc_byte(), "byte_hop",
            fmt::format("router and {} mm of wire: {}", hop_mm, entry("noc", "wire").source()));
        add_entry(Component::dma, "dma", "descriptor");
        add_entry(Component::dma, "dma", "burst");
        add_entry(Component::ctrl, "ctrl", "instr");
    }

    double noc_byte() const { return value("noc", "router") + hop_mm * value("noc", "wire"); }

    /// Returns the largest L1 of mixed engines: its accesses are the dearest.
    const proto::Sram& largest_l1() const {
        const auto smaller = [](const proto::Engine& a, const proto::Engine& b) {
            return a.l1().size_bytes() < b.l1().size_bytes();
        };
        return std::max_element(engines_.begin(), engines_.end(), smaller)->get().l1();
    }

    double sram_read_byte(const proto::Sram& sram) const {
        return value("sram", "read.64kib") *
               std::pow(static_cast<double>(sram.size_bytes()) / (64 * kib), 0.28);
    }

    void add_sram(Component component, const proto::Sram& sram) {
        const double read = sram_read_byte(sram) * sram.access_width_bytes();
        const std::string& source = entry("sram", "read.64kib").source();
        add(component, "read", read, "access", source);
        add(component, "write", read * value("sram", "write_ratio"), "access", source);
    }

    double phy_bit() const { return value("phy", device_.in_package() ? "bit.in_package" : "bit"); }

    void add_dram() {
        const DramEnergy dram = dram_energy(device_, phy_bit());
        add(Component::dram, "read", dram.read_pj, "burst", device_.source());
        add(Component::dram, "write", dram.write_pj, "burst", device_.source());
        add(Component::dram, "activate", dram.activate_pj, "activate", device_.source());
        add(Component::dram, "refresh", dram.refresh_pj, "refresh", device_.source());
        const proto::EnergyEntry& bit = entry("phy", device_.in_package() ? "bit.in_package" : "bit");
        add(Component::phy, "burst", bit.energy_pj() * device_.burst_bytes() * 8, "burst", bit.source());
        const uint32_t channels = platform_.ddr().channels();
        const uint32_t ranks = channels * platform_.ddr().ranks();
        prices_.dram_background_mw = dram.standby_mw * ranks;
        if (platform_.ddr().fidelity() == "burst") prices_.dram_background_mw = add_states(dram) * ranks;
        prices_.phy_static_mw =
            value("phy", device_.in_package() ? "static.standby.in_package" : "static.standby") *
            device_.bus_width_bits() * channels / 64.0;
    }

    /// Returns the power states of a rank, per clock of the device and beyond the cheapest of them, which it
    /// never leaves: that one's power, mW.
    double add_states(const DramEnergy& dram) {
        const proto::DdrController& controller = platform_.ddr().controller();
        const bool sleeps = controller.power_down_nck() > 0, rests = controller.self_refresh_nck() > 0;
        double least = std::min(dram.standby_mw, dram.precharged_mw);
        if (sleeps) least = std::min({least, dram.active_power_down_mw, dram.precharge_power_down_mw});
        if (rests) least = std::min(least, dram.self_refresh_mw);
        const double tck_ns = ddr_device(platform_).tck_ns();
        const auto state = [&](const char* action, double mw) {
            add(Component::dram, action, (mw - least) * tck_ns, "clock", device_.source());
        };
        state("state.active", dram.standby_mw);
        state("state.precharged", dram.precharged_mw);
        if (sleeps) {
            state("state.active_power_down", dram.active_power_down_mw);
            state("state.precharge_power_down", dram.precharge_power_down_mw);
        }
        if (rests) state("state.self_refresh", dram.self_refresh_mw);
        return least;
    }

    /// Returns the voltage of a component's clock domain over the table's.
    double voltage_of(Component component) const {
        return vdd_of(platform_.clock(), component, table_.vdd()) / table_.vdd();
    }
    double dynamic_of(Component component) const { return std::pow(voltage_of(component), 2); }
    double leakage_of(Component component) const { return std::pow(voltage_of(component), 3); }

    /// Converts pJ (at the table's voltage) in a cycle of the component's clock to mW (at its own voltage).
    double mw(Component component, double pj_per_cycle) const {
        return pj_per_cycle * dynamic_of(component) * mhz_of(platform_.clock(), component) * 1e-3;
    }

    void add_static(Component component, double leakage_mw, double peak_dynamic_mw) {
        const double clock = value("clock", "static.idle") * peak_dynamic_mw;
        prices_.statics.push_back(
            {component, leakage_mw + clock, leakage_mw + value("clock", "static.gated") * clock});
    }
    /// The areas are those of area_figures.csv; for leakage they shrink with the square of the node.
    double logic_leakage(double mm2_at_16nm) const {
        const double shrink = table_.node_nm() / area_node_nm;
        return value("logic", "static.leak") * mm2_at_16nm * shrink * shrink;
    }
    double sram_leakage(double bytes) const { return value("sram", "static.leak") * bytes / mib; }

    /// Says what of the device lies outside of energy.md's domain; empty when nothing does.
    std::string outside() const {
        constexpr double widest = 1024, largest = 64 * mib;
        std::string why;
        const auto width = [&](const std::string& what, double bytes) {
            if (bytes > widest && why.empty())
                why = fmt::format("{} moves {} bytes a cycle, and the energy table describes up to {}", what,
                                  bytes, widest);
        };
        const auto sram = [&](const std::string& what, const proto::Sram& memory) {
            width("a port of " + what, memory.bytes_per_cycle());
            const auto size = static_cast<double>(memory.size_bytes());
            if (size > largest && why.empty())
                why = fmt::format("{} has {} MiB, and the energy table describes up to {}", what, size / mib,
                                  largest / mib);
        };
        for (const proto::Engine& engine : engines_) {
            sram("L1", engine.l1());
            width("an engine's DMA", engine.dma().bytes_per_cycle());
        }
        sram("L2", platform_.l2());
        width("a system DMA", platform_.system_dma().bytes_per_cycle());
        width("a link", platform_.interconnect().link_bytes_per_cycle());
        width("the system link", platform_.interconnect().system_link_bytes_per_cycle());
        return why;
    }

    double peak_array(const proto::SystolicArray& array) const {
        double dearest = 0;
        for (const proto::MacRate& rate : array.rate()) {
            dearest = std::max(dearest, rate.relative() * value("array", mac_action(rate.type())));
        }
        return mw(Component::array,
                  (dearest + value("array", "pe.shift")) * array.count() * array.rows() * array.cols());
    }

    double peak_port(const proto::Sram& sram) const {
        return mw(Component::l1, sram_read_byte(sram) * sram.bytes_per_cycle());
    }

    double peak_dma(const proto::Dma& dma) const {
        return mw(Component::dma, value("dma", "burst") * dma.channels() * dma.bytes_per_cycle() /
                                      traces::dma_beat_group_bytes(dma.burst_bytes()));
    }

    double leakage(Component component, double size) const {
        return leakage_of(component) * leakage_at_table(component, size);
    }
    double leakage_at_table(Component component, double size) const {
        switch (component) {
            case Component::l1:
            case Component::l2:
                return sram_leakage(size);
            case Component::noc:
                return logic_leakage(size * figure_mm2("noc.link_byte"));
            case Component::dma:
                return logic_leakage(size * figure_mm2("dma.channel"));
            default:
                return logic_leakage(size);
        }
    }

    /// Parts of one engine in each component: its size (area, capacity, channels, width of its link) and its
    /// peak dynamic power.
    struct Blocks {
        double array_mm2, array_mw, vector_mm2, vector_mw, l1_bytes, l1_mw, dma_channels, dma_mw;
    };
    Blocks blocks_of(const proto::Engine& engine) const {
        const proto::SystolicArray& array = engine.array();
        const proto::Vector& vector = engine.vector();
        const double lanes = static_cast<double>(vector.cstl_count() + vector.vpu_count()) * vector.lanes();
        return {figure_mm2(cell_figure(array)) * array.count() * array.rows() * array.cols(),
                peak_array(array),
                lanes * figure_mm2("vector.lane"),
                mw(Component::vector, lanes * value("vector", "op.f32")),
                static_cast<double>(engine.l1().size_bytes()),
                peak_port(engine.l1()),
                static_cast<double>(engine.dma().channels()),
                peak_dma(engine.dma())};
    }

    void add_statics() {
        Blocks all{};
        all.dma_channels = platform_.system_dma().channels();
        all.dma_mw = peak_dma(platform_.system_dma());
        for (const proto::Engine& engine : engines_) {
            const Blocks own = blocks_of(engine);
            all.array_mm2 += own.array_mm2;
            all.array_mw += own.array_mw;
            all.vector_mm2 += own.vector_mm2;
            all.vector_mw += own.vector_mw;
            all.l1_bytes += own.l1_bytes;
            all.l1_mw += own.l1_mw;
            all.dma_channels += own.dma_channels;
            all.dma_mw += own.dma_mw;
        }
        const auto engines = static_cast<double>(engines_.size());
        const double link_bytes = platform_.interconnect().system_link_bytes_per_cycle() +
                                  engines * platform_.interconnect().link_bytes_per_cycle();
        const double dispatches = engines / std::max(1u, platform_.sequencer().dispatch_cycles());
        const auto l2_bytes = static_cast<double>(platform_.l2().size_bytes());
        const auto add = [this](Component component, double size, double peak_mw) {
            add_static(component, leakage(component, size), peak_mw);
        };
        add(Component::array, all.array_mm2, all.array_mw);
        add(Component::vector, all.vector_mm2, all.vector_mw);
        add(Component::l1, all.l1_bytes, all.l1_mw);
        add(Component::l2, l2_bytes, peak_port(platform_.l2()));
        add(Component::noc, link_bytes, mw(Component::noc, link_bytes * noc_byte()));
        add(Component::dma, all.dma_channels, all.dma_mw);
        add(Component::ctrl, engines * figure_mm2("ctrl.sequencer"),
            mw(Component::ctrl, dispatches * value("ctrl", "instr")));
    }

    const Platform& platform_;
    proto::EnergyTable table_;
    const Engines engines_;
    const proto::DdrDevice& device_;
    traces::EnergyPrices prices_;
};

/// Returns the power of a supply current, mW: `total` over both rails, `on_vdd1` of it on the second.
double power(const proto::DdrDevice& device, double total_ma, double on_vdd1_ma) {
    return device.vdd() * (total_ma - on_vdd1_ma) + device.vdd1() * on_vdd1_ma;
}

}  // namespace

DramEnergy dram_energy(const proto::DdrDevice& device, double phy_pj_per_bit) {
    const double bits = device.burst_bytes() * 8.0;
    if (!device.has_idd0()) {
        // one number for the whole system, activates and refreshes in it; the PHY's part is charged to the
        // PHY
        const double burst = bits * std::max(0.0, device.fallback_pj_per_bit() - phy_pj_per_bit);
        const double idle = device.fallback_background_mw();
        return {burst, burst, 0, 0, idle, 0, 0, idle, idle, idle, idle};
    }
    const double active = power(device, device.idd3n(), device.idd3n_vdd1());
    const double precharged = power(device, device.idd2n(), device.idd2n_vdd1());
    const double chips = device.devices_per_rank(), tck = device.tck_ns();
    const double burst_ns = device.burst_nck() * tck, tras = device.tras() * tck, trc = device.trc() * tck;
    DramEnergy energy{};
    energy.read_io_pj = bits * device.io_read_pj_per_bit();
    energy.write_io_pj = bits * device.io_write_pj_per_bit();
    energy.read_pj =
        chips * (power(device, device.idd4r(), device.idd4r_vdd1()) - active) * burst_ns + energy.read_io_pj;
    energy.write_pj =
        chips * (power(device, device.idd4w(), device.idd4w_vdd1()) - active) * burst_ns + energy.write_io_pj;
    energy.activate_pj = chips * (power(device, device.idd0(), device.idd0_vdd1()) * trc -
                                  (active * tras + precharged * (trc - tras)));
    energy.refresh_pj =
        chips * (power(device, device.idd5ab(), device.idd5ab_vdd1()) - active) * device.trfc() * tck;
    energy.standby_mw = chips * active;
    energy.precharged_mw = chips * precharged;
    energy.active_power_down_mw = chips * power(device, device.idd3p(), 0);
    energy.precharge_power_down_mw = chips * power(device, device.idd2p(), 0);
    energy.self_refresh_mw = chips * power(device, device.idd6(), 0);
    for (const double value : {energy.read_pj, energy.write_pj, energy.activate_pj, energy.refresh_pj}) {
        if (!(value >= 0)) {
            throw UserError(fmt::format(
                "DRAM device `{}`: its supply currents give a negative energy (read {:.0f}, write "
                "{:.0f}, activate {:.0f}, refresh {:.0f} pJ). Fix: IDD0 over tRC, IDD4 and IDD5 "
                "must exceed the standby currents.",
                device.name(), energy.read_pj, energy.write_pj, energy.activate_pj, energy.refresh_pj));
        }
    }
    return energy;
}

traces::EnergyPrices energy_prices(const Platform& platform, const proto::EnergyTable& table) {
    return Pricer(platform, table).price();
}

traces::EnergyPrices energy_prices(const Platform& platform) {
    return energy_prices(platform, find_energy_table(platform.energy().table()));
}

std::vector<traces::EnergyCorner> energy_corners(const Platform& platform) {
    const proto::EnergyTable table = find_energy_table(platform.energy().table());
    std::vector<traces::EnergyCorner> corners;
    for (const auto corner : {proto::Energy::low, proto::Energy::high}) {
        Platform at = platform;
        at.mutable_energy()->set_corner(corner);
        traces::EnergyPrices prices = energy_prices(at, table);
        traces::EnergyCorner& result = corners.emplace_back();
        result.name = prices.corner;
        for (const traces::ActionPrice& price : prices.actions) result.actions_pj.push_back(price.energy_pj);
        result.statics = std::move(prices.statics);
        result.dram_background_mw = prices.dram_background_mw;
        result.phy_static_mw = prices.phy_static_mw;
    }
    return corners;
}

std::vector<traces::StaticPart> energy_parts(const Platform& platform) {
    return Pricer(platform, find_energy_table(platform.energy().table())).parts();
}

}  // namespace kpu::platforms
