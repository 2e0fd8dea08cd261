#include "model/dram/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/diagnostics.hpp"
#include "platforms/ddr.hpp"

namespace kpu::dram {
namespace {

/// Longer times than any device has; keeps sums of times far from overflow.
constexpr uint32_t max_nck = 1u << 20;

class Checker {
  public:
    explicit Checker(const proto::DdrDevice& device) : device_(device) {}

    uint32_t count(const char* field, uint64_t value, uint64_t most) {
        if (value == 0 || value > most || (value & (value - 1)) != 0) {
            fail(fmt::format("`{}` is {}", field, value), fmt::format("a power of two from 1 to {}", most));
        }
        return static_cast<uint32_t>(value);
    }
    uint32_t clocks(const char* field, uint32_t value, uint32_t least = 1) {
        if (value < least || value > max_nck) {
            fail(fmt::format("`{}` is {} clocks", field, value),
                 fmt::format("from {} to {}", least, max_nck));
        }
        return value;
    }
    /// Requires that `left` is at least `right`.
    void at_least(const char* left, uint64_t left_value, const char* right, uint64_t right_value) {
        if (left_value >= right_value) return;
        fail(fmt::format("{} = {} is less than {} = {}, which no device allows", left, left_value, right,
                         right_value),
             fmt::format("{} of at least {}", left, right_value));
    }
    [[noreturn]] void fail(const std::string& what, const std::string& fix) {
        throw UserError(fmt::format("DRAM device `{}`: {}. Fix: give {}.", device_.name(), what, fix));
    }

  private:
    const proto::DdrDevice& device_;
};

Geometry geometry_of(const proto::DdrDevice& d, uint32_t ranks, Checker& check) {
    Geometry g;
    g.ranks = check.count("ranks", ranks, 8);
    g.groups = check.count("bank_groups", d.bank_groups(), 8);
    g.banks_per_group = check.count("banks_per_group", d.banks_per_group(), 32);
    g.rows = check.count("rows", d.rows(), 1u << 24);
    g.burst_bytes = check.count("burst_bytes", d.burst_bytes(), 4096);
    g.row_bytes = check.count("row_bytes", d.row_bytes(), 1u << 20);
    check.at_least("row_bytes", g.row_bytes, "burst_bytes", g.burst_bytes);
    if (g.banks() > max_banks) {
        check.fail(fmt::format("{} ranks of {} banks are {} banks", ranks, g.banks_per_rank(), g.banks()),
                   fmt::format("at most {} banks to a channel", max_banks));
    }
    return g;
}

Timing timing_of(const proto::DdrDevice& d, Checker& check) {
    Timing t{};
    t.burst = check.clocks("burst_nck", d.burst_nck());
    t.cl = check.clocks("cl", d.cl());
    t.cwl = check.clocks("cwl", d.cwl());
    t.trcd_rd = check.clocks("trcd", d.trcd());
    t.trcd_wr = d.has_trcd_wr() ? check.clocks("trcd_wr", d.trcd_wr()) : t.trcd_rd;
    t.trp = check.clocks("trp", d.trp());
    t.trp_ab = d.has_trp_ab() ? check.clocks("trp_ab", d.trp_ab()) : t.trp;
    t.tras = check.clocks("tras", d.tras());
    t.trc = check.clocks("trc", d.trc());
    t.trrd_s = check.clocks("trrd_s", d.trrd_s());
    t.trrd_l = check.clocks("trrd_l", d.trrd_l());
    t.tfaw = check.clocks("tfaw", d.tfaw());
    t.tccd_s = check.clocks("tccd_s", d.tccd_s());
    t.tccd_l = check.clocks("tccd_l", d.tccd_l());
    t.twr = check.clocks("twr", d.twr());
    t.twtr_s = check.clocks("twtr_s", d.twtr_s());
    t.twtr_l = check.clocks("twtr_l", d.twtr_l());
    t.trtp = check.clocks("trtp", d.trtp());
    t.rd_to_wr = check.clocks("rd_to_wr", d.rd_to_wr());
    t.tppd = check.clocks("tppd", d.tppd(), 0);
    t.trfc = check.clocks("trfc", d.trfc());
    t.trefi = check.clocks("trefi", d.trefi());
    t.tccd_l_wr = d.has_tccd_l_wr() ? check.clocks("tccd_l_wr", d.tccd_l_wr()) : t.tccd_l;
    t.trfc_sb = check.clocks("trfc_sb", d.trfc_sb(), 0);
    t.trefsb_to_act = check.clocks("trefsb_to_act", d.trefsb_to_act(), 0);
    if (t.trfc_sb > 0) t.refresh_sets = std::min(d.banks_per_group(), max_refresh_sets);
    t.txp = check.clocks("txp", d.txp());
    t.txs = check.clocks("txs", d.txs());
    t.tcke = check.clocks("tcke", d.tcke());
    t.trtrs = check.clocks("trtrs", d.trtrs(), 0);
    t.separate_row_commands = d.separate_row_commands();
    t.activate_clocks = d.has_activate_clocks() ? check.clocks("activate_clocks", d.activate_clocks()) : 1;
    t.column_clocks = d.has_column_clocks() ? check.clocks("column_clocks", d.column_clocks()) : 1;
    t.precharge_clocks =
        d.has_precharge_clocks() ? check.clocks("precharge_clocks", d.precharge_clocks()) : 1;
    t.tck_ns = d.tck_ns();
    if (!(t.tck_ns > 0 && t.tck_ns <= 1000))
        check.fail(fmt::format("`tck_ns` is {}", t.tck_ns), "a clock period above 0 and up to 1000 ns");
    check.at_least("tRC", t.trc, "tRAS + tRP", uint64_t{t.tras} + t.trp);
    check.at_least("tRAS", t.tras, "tRCD", std::max(t.trcd_rd, t.trcd_wr));
    check.at_least("tRP of all banks", t.trp_ab, "tRP", t.trp);
    check.at_least("tRRD_L", t.trrd_l, "tRRD_S", t.trrd_s);
    check.at_least("tCCD_L", t.tccd_l, "tCCD_S", t.tccd_s);
    check.at_least("tWTR_L", t.twtr_l, "tWTR_S", t.twtr_s);
    check.at_least("tXS", t.txs, "tRFC", t.trfc);
    check.at_least("tCCD_S or the burst", std::max(t.tccd_s, t.burst), "column_clocks", t.column_clocks);
    // write data must not meet read data on the bus
    check.at_least("read to write + CWL", uint64_t{t.rd_to_wr} + t.cwl, "CL + burst",
                   uint64_t{t.cl} + t.burst);
    // otherwise refreshes leave no time for a single burst
    check.at_least(t.refresh_sets == 1 ? "tREFI" : "tREFI / banks of a group", t.refresh_interval(),
                   "tRFC + tRP + tRCD + CL + burst",
                   uint64_t{t.refresh_time()} + t.trp_ab + std::max(t.trcd_rd, t.trcd_wr) + t.cl + t.burst);
    check.at_least("tCCD_L of writes", t.tccd_l_wr, "tCCD_L", t.tccd_l);
    return t;
}

uint32_t policy_value(const char* field, uint32_t value, uint32_t least, uint32_t most, const char* why) {
    if (value >= least && value <= most) return value;
    throw UserError(
        fmt::format("DRAM controller: `{}` is {}{}. Fix: give {} to {}.", field, value, why, least, most));
}

Policy policy_of(const proto::DdrController& c) {
    constexpr uint32_t most_entries = 4096;
    Policy p{};
    p.read_queue = policy_value("read_queue", c.read_queue(), 1, most_entries, "");
    p.write_queue = policy_value("write_queue", c.write_queue(), 1, most_entries, "");
    p.write_high = policy_value("write_high", c.write_high(), 1, p.write_queue,
                                ", which the write queue never reaches or always has");
    p.write_low = policy_value("write_low", c.write_low(), 0, p.write_high - 1,
                               ", not below `write_high`, so that writing would never pause");
    p.row_hit_cap = policy_value("row_hit_cap", c.row_hit_cap(), 1, max_nck, "");
    p.request_nck = policy_value("request_nck", c.request_nck(), 0, max_nck, "");
    p.response_nck = policy_value("response_nck", c.response_nck(), 0, max_nck, "");
    p.power_down_nck = policy_value("power_down_nck", c.power_down_nck(), 0, 1u << 30, "");
    p.self_refresh_nck = policy_value("self_refresh_nck", c.self_refresh_nck(), 0, 1u << 30, "");
    return p;
}

std::string order_of(const std::string& mapping) {
    for (const proto::DdrMapping& known : platforms::ddr_mappings()) {
        if (known.name() == mapping) return known.order();
    }
    // a single word can only be meant as a name
    if (mapping.find_first_of(" ,:") == std::string::npos) {
        std::string names;
        for (const proto::DdrMapping& known : platforms::ddr_mappings())
            names += (names.empty() ? "" : ", ") + known.name();
        throw UserError(
            fmt::format("there is no address mapping `{}`. Fix: use one of {}, or list the fields "
                        "from the lowest bits up, as in `bg col ba ra row`.",
                        mapping, names));
    }
    return mapping;
}

}  // namespace

Config make_config(const proto::DdrDevice& device, const proto::DdrController& controller,
                   const std::string& mapping, uint32_t ranks) {
    Checker check(device);
    const Geometry geometry = geometry_of(device, ranks, check);
    return {geometry, timing_of(device, check), policy_of(controller),
            AddressMap(order_of(mapping), geometry)};
}

}  // namespace kpu::dram
