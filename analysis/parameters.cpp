#include "analysis/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "isa/verify.hpp"

namespace kpu::analysis {
namespace {

constexpr uint64_t max_bindings = 64;        ///< checks of one program
constexpr uint64_t max_statements = 20'000;  ///< all checks together

/// A parameter that the check may choose.
struct Open {
    std::string name;
    int64_t value, min, max;  ///< value: its default

    /// Returns the values in the range; saturates.
    uint64_t count() const {
        const uint64_t steps = static_cast<uint64_t>(max) - static_cast<uint64_t>(min);
        return steps == UINT64_MAX ? UINT64_MAX : steps + 1;
    }
    /// Returns the ends, and the default with its neighbours, ascending.
    std::set<int64_t> samples() const {
        std::set<int64_t> all = {min, value, max};
        if (value > min) all.insert(value - 1);
        if (value < max) all.insert(value + 1);
        return all;
    }
};

std::vector<Open> open_parameters(const KPUProgram& program, const ParamBindings& given) {
    std::vector<Open> open;
    for (const proto::Param& param : program.param()) {
        const bool bound = std::any_of(given.begin(), given.end(),
                                       [&](const auto& binding) { return binding.first == param.name(); });
        if (!bound && param.min() < param.max())
            open.push_back({param.name(), param.default_value(), param.min(), param.max()});
    }
    return open;
}

/// Returns "T = 3, U = 1"
std::string text_of(const ParamBindings& values) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : values) parts.push_back(fmt::format("{} = {}", name, value));
    return fmt::format("{}", fmt::join(parts, ", "));
}

/// The values to check beside the defaults.
struct ParameterChoice {
    std::vector<ParamBindings> values;
    bool complete = true;  ///< every value that there is
    uint64_t total = 1;    ///< so many there are, the defaults included; saturates
};

ParameterChoice choose(const std::vector<Open>& open, uint64_t statements) {
    ParameterChoice choice;
    for (const Open& each : open)
        choice.total = choice.total > UINT64_MAX / each.count() ? UINT64_MAX : choice.total * each.count();
    const uint64_t most = std::min(max_bindings, max_statements / std::max<uint64_t>(1, statements));
    choice.complete = choice.total <= most;
    ParamBindings defaults;
    for (const Open& each : open) defaults.emplace_back(each.name, each.value);
    if (choice.complete) {
        ParamBindings at;
        for (const Open& each : open) at.emplace_back(each.name, each.min);
        for (size_t i = 0; i < open.size();) {  // counts through the ranges, the first parameter fastest
            if (i == 0 && at != defaults) choice.values.push_back(at);
            for (i = 0; i < open.size() && at[i].second == open[i].max; ++i) at[i].second = open[i].min;
            if (i < open.size()) ++at[i].second, i = 0;
        }
        return choice;
    }
    for (size_t i = 0; i < open.size(); ++i)
        for (const int64_t value : open[i].samples()) {
            if (value == open[i].value || choice.values.size() + 1 >= most) continue;
            choice.values.push_back(defaults);
            choice.values.back()[i].second = value;
        }
    return choice;
}

class OtherValues {
  public:
    OtherValues(const std::shared_ptr<const Module>& module, const ParamBindings& given,
                const DeviceLimits& limits, ScheduleReport report)
        : module_(module), given_(given), limits_(limits), report_(std::move(report)) {
        for (const Finding& finding : report_.findings) known_.insert(key_of(finding));
    }

    ScheduleReport run(const ParameterChoice& choice, const std::vector<Open>& open) {
        for (const ParamBindings& values : choice.values) check(values);
        if (refused_ > 0) add_refused();
        if (!choice.complete) add_not_proved(choice, open);
        report_.keep_listed();
        return std::move(report_);
    }

  private:
    using Key = std::tuple<FindingKind, uint32_t, uint32_t, uint32_t>;
    static Key key_of(const Finding& f) { return {f.kind, f.statement, f.other_statement, f.buffer}; }

    void check(const ParamBindings& values) {
        ParamBindings params = given_;
        params.insert(params.end(), values.begin(), values.end());
        VerifyOptions options;
        options.params = params;
        options.retarget = true;  // that was decided before
        Diagnostics found;
        const std::optional<BoundProgram> program = verify(module_, limits_, options, found);
        if (!program) return refused(values, found);
        ScheduleReport report = check_schedule(*program, limits_);
        for (Finding& finding : report.findings) {
            if (!known_.insert(key_of(finding)).second) continue;
            finding.message = fmt::format("with {}: {}", text_of(values), finding.message);
            report_.findings.push_back(std::move(finding));
        }
        report_.unlisted = std::max(report_.unlisted, report.unlisted);  // mostly the same ones
    }

    void refused(const ParamBindings& values, const Diagnostics& found) {
        if (refused_++ > 0) return;
        first_refused_ = text_of(values);
        const auto is_error = [](const Diagnostic& item) { return item.severity == Severity::error; };
        first_refusal_ = std::find_if(found.all().begin(), found.all().end(), is_error)->message;
    }

    void add_refused() {
        Finding finding;
        finding.kind = FindingKind::refused_value;
        finding.severity = Severity::info;
        finding.statement = UINT32_MAX;
        finding.message =
            fmt::format("{} of the values that parameters may have {} refused, the first with {}: {}",
                        refused_, refused_ == 1 ? "is" : "are", first_refused_, first_refusal_);
        report_.findings.push_back(std::move(finding));
    }

    void add_not_proved(const ParameterChoice& choice, const std::vector<Open>& open) {
        std::vector<std::string> checked;
        checked.reserve(open.size());
        for (size_t i = 0; i < open.size(); ++i) {
            std::set<int64_t> values = {open[i].value};
            for (const ParamBindings& binding : choice.values) values.insert(binding[i].second);
            checked.push_back(fmt::format("{} = {}", open[i].name, fmt::join(values, ", ")));
        }
        Finding finding;
        finding.kind = FindingKind::not_proved;
        finding.statement = UINT32_MAX;
        finding.message = fmt::format(
            "not proved: parameters may have {} values, too many to check each. Checked, one parameter at a "
            "time: {}. Fix: give the value with --param, or a smaller range.",
            choice.total == UINT64_MAX ? std::string("over 10^19") : std::to_string(choice.total),
            fmt::join(checked, "; "));
        report_.findings.push_back(std::move(finding));
    }

    const std::shared_ptr<const Module>& module_;
    const ParamBindings& given_;
    const DeviceLimits& limits_;
    ScheduleReport report_;
    std::set<Key> known_;
    uint64_t refused_ = 0;
    std::string first_refused_, first_refusal_;
};

}  // namespace

ScheduleReport check_other_values(const std::shared_ptr<const Module>& module, const ParamBindings& given,
                                  const DeviceLimits& limits, ScheduleReport report) {
    const std::vector<Open> open = open_parameters(module->program, given);
    if (open.empty()) return report;
    const ParameterChoice choice = choose(open, static_cast<uint64_t>(module->program.statement_size()));
    return OtherValues(module, given, limits, std::move(report)).run(choice, open);
}

}  // namespace kpu::analysis
