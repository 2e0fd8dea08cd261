#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/dram/command.hpp"
#include "model/dram/config.hpp"

namespace kpu::dram {

/// An independent check of a command stream: a table of the JEDEC rules, the last time of every command in
/// every scope, and the state of every bank. Knows nothing of the controller.
class CommandChecker final : public CommandObserver {
  public:
    enum class Scope { bank, group, same_bank, rank, other_rank };
    /// `then` comes at least `clocks` after the last `first` in the scope.
    struct Rule {
        std::string name;
        Command first, then;
        Scope scope;
        uint64_t clocks;
    };

    explicit CommandChecker(const Config& config) : g_(config.geometry), t_(config.timing) {
        make_rules();
        banks_.resize(g_.banks());
        ranks_.resize(g_.ranks);
    }

    void on_command(const IssuedCommand& c) override {
        for (size_t i = 0; i < rules_.size(); ++i) {
            if (rules_[i].then != c.command) continue;
            const std::optional<uint64_t> last = last_of(rules_[i], c);
            if (last) note(rules_[i].name, c.time, *last + rules_[i].clocks);
        }
        check_four_activates(c);
        check_state(c);
        check_buses(c);
        remember(c);
    }

    const std::vector<std::string>& violations() const { return violations_; }
    /// Returns how many clocks each rule was kept beyond its minimum, at the least.
    const std::map<std::string, int64_t>& slack() const { return slack_; }
    const std::vector<Rule>& rules() const { return rules_; }

  private:
    static constexpr size_t command_count = 12;
    using Times = std::array<std::optional<uint64_t>, command_count>;
    struct Bank {
        Times last;
        bool open = false;
    };
    struct RankState {
        std::vector<uint64_t> activates;
        bool powered_down = false, self_refreshing = false;
    };

    void rule(std::string name, Command first, Command then, Scope scope, uint64_t clocks) {
        rules_.push_back({std::move(name), first, then, scope, clocks});
    }

    void make_rules() {
        using C = Command;
        const uint64_t write_data = uint64_t{t_.cwl} + t_.burst;
        rule("tRCD read", C::activate, C::read, Scope::bank, t_.trcd_rd);
        rule("tRCD write", C::activate, C::write, Scope::bank, t_.trcd_wr);
        rule("tRAS", C::activate, C::precharge, Scope::bank, t_.tras);
        rule("tRAS, all banks", C::activate, C::precharge_all, Scope::rank, t_.tras);
        rule("tRC", C::activate, C::activate, Scope::bank, t_.trc);
        rule("tRP", C::precharge, C::activate, Scope::bank, t_.trp);
        rule("tRP of all banks", C::precharge_all, C::activate, Scope::rank, t_.trp_ab);
        rule("tRRD_L", C::activate, C::activate, Scope::group, t_.trrd_l);
        rule("tRRD_S", C::activate, C::activate, Scope::rank, t_.trrd_s);
        rule("tRTP", C::read, C::precharge, Scope::bank, t_.trtp);
        rule("tRTP, all banks", C::read, C::precharge_all, Scope::rank, t_.trtp);
        rule("tWR", C::write, C::precharge, Scope::bank, write_data + t_.twr);
        rule("tWR, all banks", C::write, C::precharge_all, Scope::rank, write_data + t_.twr);
        rule("tCCD_L read", C::read, C::read, Scope::group, std::max(t_.tccd_l, t_.burst));
        rule("tCCD_S read", C::read, C::read, Scope::rank, std::max(t_.tccd_s, t_.burst));
        rule("tCCD_L write", C::write, C::write, Scope::group, std::max(t_.tccd_l, t_.burst));
        rule("tCCD_S write", C::write, C::write, Scope::rank, std::max(t_.tccd_s, t_.burst));
        rule("tWTR_L", C::write, C::read, Scope::group, write_data + t_.twtr_l);
        rule("tWTR_S", C::write, C::read, Scope::rank, write_data + t_.twtr_s);
        rule("read to write", C::read, C::write, Scope::rank, t_.rd_to_wr);
        rule("tRTRS read", C::read, C::read, Scope::other_rank, uint64_t{t_.burst} + t_.trtrs);
        rule("tRTRS write", C::write, C::write, Scope::other_rank, uint64_t{t_.burst} + t_.trtrs);
        rule("tPPD", C::precharge, C::precharge, Scope::rank, t_.tppd);
        rule("tPPD, all banks", C::precharge, C::precharge_all, Scope::rank, t_.tppd);
        rule("tRP to refresh", C::precharge, C::refresh, Scope::rank, t_.trp);
        rule("tRP of all banks to refresh", C::precharge_all, C::refresh, Scope::rank, t_.trp_ab);
        rule("tRC to refresh", C::activate, C::refresh, Scope::rank, t_.trc);
        rule("tRFC", C::refresh, C::activate, Scope::rank, t_.trfc);
        rule("tRFC to refresh", C::refresh, C::refresh, Scope::rank, t_.trfc);
        rule("tRFC to self-refresh", C::refresh, C::enter_self_refresh, Scope::rank, t_.trfc);
        rule("tRP to self-refresh", C::precharge_all, C::enter_self_refresh, Scope::rank, t_.trp_ab);
        rule("tCCD_L write after write", C::write, C::write, Scope::group, std::max(t_.tccd_l_wr, t_.burst));
        rule("tCKE power-down", C::enter_power_down, C::exit_power_down, Scope::rank, t_.tcke);
        rule("tCKE self-refresh", C::enter_self_refresh, C::exit_self_refresh, Scope::rank, t_.tcke);
        for (const auto& [name, then] :
             {std::pair("activate", C::activate), std::pair("read", C::read), std::pair("write", C::write),
              std::pair("precharge", C::precharge), std::pair("precharge all", C::precharge_all),
              std::pair("refresh", C::refresh)}) {
            rule(std::string("tXP to ") + name, C::exit_power_down, then, Scope::rank, t_.txp);
            if (then == C::activate || then == C::refresh)
                rule(std::string("tXS to ") + name, C::exit_self_refresh, then, Scope::rank, t_.txs);
        }
        if (t_.trfc_sb > 0) make_same_bank_rules();
    }

    void make_same_bank_rules() {
        using C = Command;
        const uint64_t write_data = uint64_t{t_.cwl} + t_.burst;
        rule("tRFCsb to activate", C::refresh_same, C::activate, Scope::same_bank, t_.trfc_sb);
        rule("tREFSBRD", C::refresh_same, C::activate, Scope::rank, t_.trefsb_to_act);
        rule("tRFCsb to self-refresh", C::refresh_same, C::enter_self_refresh, Scope::rank, t_.trfc_sb);
        rule("tRP to same-bank refresh", C::precharge, C::refresh_same, Scope::same_bank, t_.trp);
        rule("tRP of same banks to refresh", C::precharge_same, C::refresh_same, Scope::same_bank, t_.trp);
        rule("tRP of same banks", C::precharge_same, C::activate, Scope::same_bank, t_.trp);
        rule("tRC to same-bank refresh", C::activate, C::refresh_same, Scope::same_bank, t_.trc);
        rule("tRAS, same banks", C::activate, C::precharge_same, Scope::same_bank, t_.tras);
        rule("tRTP, same banks", C::read, C::precharge_same, Scope::same_bank, t_.trtp);
        rule("tWR, same banks", C::write, C::precharge_same, Scope::same_bank, write_data + t_.twr);
    }

    static bool of_same(const IssuedCommand& c) {
        return c.command == Command::precharge_same || c.command == Command::refresh_same;
    }
    /// Whether a command for one bank of every group is for this one too.
    bool is_same(uint32_t b, const IssuedCommand& c) const {
        return rank_of(b) == c.rank && b % g_.banks_per_group == c.bank % g_.banks_per_group;
    }
    uint32_t group_of(uint32_t bank) const { return bank / g_.banks_per_group; }
    uint32_t rank_of(uint32_t bank) const { return bank / g_.banks_per_rank(); }

    std::optional<uint64_t> last_of(const Rule& rule, const IssuedCommand& c) const {
        std::optional<uint64_t> last;
        for (uint32_t b = 0; b < banks_.size(); ++b) {
            const bool in_rank = rank_of(b) == c.rank;
            if (rule.scope == Scope::other_rank ? in_rank : !in_rank) continue;
            if (rule.scope == Scope::bank && b != c.bank) continue;
            if (rule.scope == Scope::same_bank && b % g_.banks_per_group != c.bank % g_.banks_per_group)
                continue;
            if (rule.scope == Scope::group && group_of(b) != group_of(c.bank)) continue;
            const auto& time = banks_[b].last[static_cast<size_t>(rule.first)];
            if (time && (!last || *time > *last)) last = time;
        }
        return last;
    }

    void note(const std::string& name, uint64_t time, uint64_t least) {
        const auto slack = static_cast<int64_t>(time) - static_cast<int64_t>(least);
        const auto found = slack_.emplace(name, slack).first;
        found->second = std::min(found->second, slack);
        if (slack < 0)
            violations_.push_back(fmt::format("{} broken at {}: {} clocks early", name, time, -slack));
    }

    void check_four_activates(const IssuedCommand& c) {
        if (c.command != Command::activate) return;
        std::vector<uint64_t>& times = ranks_[c.rank].activates;
        if (times.size() >= 4) note("tFAW", c.time, times[times.size() - 4] + t_.tfaw);
        times.push_back(c.time);
    }

    void expect(bool condition, const IssuedCommand& c, const char* what) {
        if (!condition) violations_.push_back(fmt::format("{} at {}", what, c.time));
    }

    void check_state(const IssuedCommand& c) {
        RankState& rank = ranks_[c.rank];
        bool any_open = false;
        for (uint32_t b = 0; b < banks_.size(); ++b) any_open |= rank_of(b) == c.rank && banks_[b].open;
        const bool leaves = c.command == Command::exit_power_down || c.command == Command::exit_self_refresh;
        expect(leaves || !(rank.powered_down || rank.self_refreshing), c, "command to a sleeping rank");
        switch (c.command) {
            case Command::activate:
                expect(!banks_[c.bank].open, c, "activate of an open bank");
                banks_[c.bank].open = true;
                break;
            case Command::precharge:
                expect(banks_[c.bank].open, c, "precharge of a closed bank");
                banks_[c.bank].open = false;
                break;
            case Command::read:
            case Command::write:
                expect(banks_[c.bank].open, c, "column command to a closed bank");
                break;
            case Command::precharge_all:
                for (uint32_t b = 0; b < banks_.size(); ++b) {
                    if (rank_of(b) == c.rank) banks_[b].open = false;
                }
                break;
            case Command::precharge_same:
                for (uint32_t b = 0; b < banks_.size(); ++b) {
                    if (is_same(b, c)) banks_[b].open = false;
                }
                break;
            case Command::refresh_same:
                for (uint32_t b = 0; b < banks_.size(); ++b)
                    expect(!is_same(b, c) || !banks_[b].open, c, "same-bank refresh with a row open");
                break;
            case Command::refresh:
            case Command::enter_self_refresh:
                expect(!any_open, c, "refresh with a row open");
                rank.self_refreshing = c.command == Command::enter_self_refresh;
                break;
            case Command::enter_power_down:
                rank.powered_down = true;
                break;
            case Command::exit_power_down:
                expect(rank.powered_down, c, "power-down left but not entered");
                rank.powered_down = false;
                break;
            case Command::exit_self_refresh:
                expect(rank.self_refreshing, c, "self-refresh left but not entered");
                rank.self_refreshing = false;
                break;
        }
    }

    uint64_t clocks_of(Command command) const {
        if (command == Command::activate) return t_.activate_clocks;
        return command == Command::read || command == Command::write ? t_.column_clocks : t_.precharge_clocks;
    }

    /// Checks that there is a command at a time on each command bus; data never overlaps.
    void check_buses(const IssuedCommand& c) {
        const bool column = c.command == Command::read || c.command == Command::write;
        const bool row = c.command <= Command::precharge_all || c.command == Command::refresh || of_same(c);
        if (column || row) {
            std::optional<uint64_t>& last = last_on_bus_[t_.separate_row_commands && column];
            expect(!last || c.time >= *last, c, "two commands at one time, or out of order");
            last = c.time + clocks_of(c.command);
        }
        if (!column) return;
        const uint64_t data = c.time + (c.command == Command::read ? t_.cl : t_.cwl);
        expect(data >= data_end_, c, "data bus taken twice");
        data_end_ = data + t_.burst;
    }

    void remember(const IssuedCommand& c) {
        const bool of_bank = c.command == Command::activate || c.command == Command::precharge ||
                             c.command == Command::read || c.command == Command::write;
        for (uint32_t b = 0; b < banks_.size(); ++b) {
            if (of_same(c) ? is_same(b, c) : of_bank ? b == c.bank : rank_of(b) == c.rank)
                banks_[b].last[static_cast<size_t>(c.command)] = c.time;
        }
    }

    Geometry g_;
    Timing t_;
    std::vector<Rule> rules_;
    std::vector<Bank> banks_;
    std::vector<RankState> ranks_;
    std::optional<uint64_t> last_on_bus_[2];
    uint64_t data_end_ = 0;
    std::vector<std::string> violations_;
    std::map<std::string, int64_t> slack_;
};

}  // namespace kpu::dram
