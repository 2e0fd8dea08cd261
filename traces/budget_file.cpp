#include "traces/budget_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/json.hpp"
#include "base/json_document.hpp"
#include "base/text.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

namespace {

using nlohmann::json;

/// Metric that a budget can limit. Another one is a row, and a property in docs/budgets.schema.json.
struct Metric {
    std::string_view key, unit;
    bool whole;   ///< counted, not measured
    bool energy;  ///< not there where energy is not modelled
    const char* statistic;
    double (*of_op)(const OpRow& row);
};
constexpr std::array<Metric, 3> metrics{{
    {"cycles", "cycles", true, false, "cycles.total",
     [](const OpRow& row) { return static_cast<double>(row.charged_cycles); }},
    {"energy_uj", "uJ", false, true, "energy.total_uj", [](const OpRow& row) { return row.energy_pj / 1e6; }},
    {"average_power_w", "W", false, true, "power.average_w", [](const OpRow& row) { return row.power_w; }},
}};

constexpr int schema = 1;
constexpr std::array<std::string_view, 4> top_keys{"schema", "tolerance_percent", "run", "operations"};

std::string number_text(const Metric& metric, double value) {
    return metric.whole ? fmt::format("{:.0f}", value) : fmt::format("{:.10g}", value);
}

class BudgetReader {
  public:
    BudgetReader(std::string_view text, const std::string& origin, const std::vector<std::string_view>& known)
        : text_(text), known_(known), is_known_(known.begin(), known.end()) {
        file_.path = origin;
    }

    BudgetFile read() {
        const json document = parse();
        if (!document.is_object())
            fail("no JSON object. Fix: write one as `kpusim run PROGRAM --write-budgets FILE` does");
        if (const auto keys = JsonDocument::parse(text_)) refuse_repeated(keys->root(), "", 3);
        for (const auto& [key, value] : document.items()) check_key(key, key, top_keys);
        if (document.value("schema", json()) != json(schema))
            fail(fmt::format("`schema` is not {}. Fix: write \"schema\": {}", schema, schema));
        if (document.contains("tolerance_percent"))
            file_.tolerance = number(document["tolerance_percent"], "tolerance_percent", false) / 100;
        if (document.contains("run")) budgets_of("", document["run"], "run");
        if (document.contains("operations")) {
            const json& operations = object(document["operations"], "operations");
            for (const auto& [op, value] : operations.items()) {
                check_operation(op);
                budgets_of(op, value, "operations." + op);
            }
        }
        if (file_.budgets.empty())
            fail(
                "has no budget. Fix: give one in `run` or in `operations`, such as \"run\": {\"cycles\": "
                "1000}");
        return std::move(file_);
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw UserError(fmt::format("{}: {}.", file_.path, what));
    }

    json parse() const {
        try {
            return parse_json(text_);
        } catch (const UserError& error) {
            fail(fmt::format("{}. Fix: write JSON, as `kpusim run PROGRAM --write-budgets FILE` does",
                             error.what()));
        }
    }

    /// Refuses repeated keys: of two values with one key a parser keeps the last, and the first would count
    /// for nothing.
    void refuse_repeated(const JsonValue& value, const std::string& path, int levels) const {
        if (!value.is_object() || levels == 0) return;
        std::unordered_set<std::string_view> seen;
        for (auto at = value.begin(), last = value.end(); at != last; ++at) {
            const std::string inner = (path.empty() ? path : path + ".") + std::string(at.key());
            if (!seen.insert(at.key()).second) fail(fmt::format("`{}` stands twice. Fix: keep one", inner));
            refuse_repeated(at.value(), inner, levels - 1);
        }
    }

    template <class Names>
    void check_key(const std::string& key, const std::string& path, const Names& names) const {
        if (std::find(names.begin(), names.end(), key) != names.end()) return;
        fail(fmt::format("`{}` is not a key of a file of budgets. Fix: did you mean `{}`? There are {}", path,
                         nearest_name(key, {names.begin(), names.end()}), fmt::join(names, ", ")));
    }

    void check_operation(const std::string& op) const {
        if (is_known_.count(op) > 0) return;
        if (known_.empty())
            fail(fmt::format("`operations.{}`: the program has no operations. Fix: leave `operations` out",
                             op));
        fail(
            fmt::format("`operations.{}`: the program has no such operation. Fix: did you mean `{}`? "
                        "`kpusim run PROGRAM --write-budgets FILE` writes those it has",
                        op, nearest_name(op, known_)));
    }

    const json& object(const json& value, const std::string& path) const {
        if (!value.is_object())
            fail(fmt::format(
                "`{}` is not an object. Fix: write budgets in braces, such as {{\"cycles\": 1000}}", path));
        return value;
    }

    double number(const json& value, const std::string& path, bool whole) const {
        const bool right = whole ? value.is_number_unsigned() : value.is_number();
        if (right && value.get<double>() >= 0) return value.get<double>();
        fail(fmt::format("`{}` is {}, no {} from 0 on. Fix: give one", path, json_text(value),
                         whole ? "whole number" : "number"));
    }

    void budgets_of(const std::string& op, const json& value, const std::string& path) {
        std::array<std::string_view, metrics.size()> keys;
        std::transform(metrics.begin(), metrics.end(), keys.begin(), [](const Metric& m) { return m.key; });
        for (const auto& [key, most] : object(value, path).items()) {
            const std::string inner = path + "." + key;
            check_key(key, inner, keys);
            const auto metric = static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
            file_.budgets.push_back({op, metric, number(most, inner, metrics[metric].whole)});
        }
    }

    const std::string_view text_;
    const std::vector<std::string_view>& known_;
    const std::unordered_set<std::string_view> is_known_;
    BudgetFile file_;
};

Verdict judge(const Budget& budget, double measured, double tolerance) {
    const Metric& metric = metrics[budget.metric];
    // of what is counted, whole ones; the product may miss the next number by its last bits
    const double most = budget.most * (1 + tolerance);
    const double allowed = metric.whole ? std::floor(most * (1 + 1e-12)) : most;
    Verdict verdict;
    verdict.name = BudgetFile::name_of(budget);
    verdict.passed = measured <= allowed;
    verdict.excess = allowed > 0 ? measured / allowed - 1 : (measured > 0 ? INFINITY : -1);
    verdict.text = fmt::format(
        "{}: measured {} {}, allowed {}: {}", verdict.name, number_text(metric, measured), metric.unit,
        number_text(metric, allowed),
        std::isfinite(verdict.excess) ? fmt::format("{:+.2f} %", 100 * verdict.excess) : "none is allowed");
    return verdict;
}

}  // namespace

bool BudgetFile::needs_energy() const {
    return std::any_of(budgets.begin(), budgets.end(),
                       [](const Budget& budget) { return metrics[budget.metric].energy; });
}

std::string BudgetFile::name_of(const Budget& budget) {
    const std::string_view key = metrics[budget.metric].key;
    return budget.op.empty() ? fmt::format("run.{}", key) : fmt::format("operations.{}.{}", budget.op, key);
}

BudgetFile parse_budget_file(std::string_view text, const std::string& origin,
                             const std::vector<std::string_view>& known) {
    return BudgetReader(text, origin, known).read();
}

std::string budget_file_text(const StatSet& stats, const std::vector<OpRow>& ops, double tolerance) {
    using Json = nlohmann::ordered_json;
    const bool energy = !stats.contains("energy.not_modelled");
    const auto budgets = [energy](const auto& value_of) {
        Json object = Json::object();
        for (const Metric& metric : metrics) {
            if (metric.energy && !energy) continue;
            const double value = value_of(metric);
            if (metric.whole)
                object[metric.key] = static_cast<uint64_t>(value);
            else
                object[metric.key] = value;
        }
        return object;
    };
    Json document = {{"schema", schema}};
    if (tolerance > 0)  // as it was given, without the error of dividing by 100
        document["tolerance_percent"] = std::stod(fmt::format("{:.12g}", 100 * tolerance));
    document["run"] = budgets([&](const Metric& metric) { return stats.real(metric.statistic); });
    Json operations = Json::object();
    for (const OpRow& row : ops) {
        if (row.id == background_name || !row.fused_into.empty()) continue;
        operations.get_ref<Json::object_t&>().emplace_back(  // ids differ, and a search for each is slow
            row.id, budgets([&](const Metric& metric) { return metric.of_op(row); }));
    }
    if (!operations.empty()) document["operations"] = std::move(operations);
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<Verdict> judge_budgets(const BudgetFile& file, const StatSet& stats,
                                   const std::vector<OpRow>& ops, double tolerance) {
    std::unordered_map<std::string_view, const OpRow*> by_id;
    for (const OpRow& row : ops) by_id.emplace(row.id, &row);
    std::vector<Verdict> verdicts;
    for (const Budget& budget : file.budgets) {
        const Metric& metric = metrics[budget.metric];
        double measured = 0;  // an operation without tasks has no row
        if (budget.op.empty())
            measured = stats.real(metric.statistic);
        else if (const auto row = by_id.find(budget.op); row != by_id.end())
            measured = metric.of_op(*row->second);
        verdicts.push_back(judge(budget, measured, tolerance));
    }
    std::stable_sort(verdicts.begin(), verdicts.end(),
                     [](const Verdict& x, const Verdict& y) { return x.excess > y.excess; });
    return verdicts;
}

}  // namespace kpu::traces
