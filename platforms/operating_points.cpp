#include "platforms/operating_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.hpp"

namespace kpu::platforms {
namespace {

using proto::OperatingPoint;

constexpr OperatingPoint::Domain domains[] = {OperatingPoint::core, OperatingPoint::array,
                                              OperatingPoint::sram, OperatingPoint::interconnect};
constexpr std::string_view no_point = "none";

/// A clock's field of a domain: array_mhz, array_vdd, array_point.
class Field {
  public:
    Field(OperatingPoint::Domain domain, const char* kind)
        : name_(fmt::format("{}_{}", OperatingPoint::Domain_Name(domain), kind)),
          field_(proto::Clock::descriptor()->FindFieldByName(name_)) {}
    std::string path() const { return "clock." + name_; }
    bool is_set(const proto::Clock& clock) const { return clock.GetReflection()->HasField(clock, field_); }
    double number(const proto::Clock& clock) const { return clock.GetReflection()->GetDouble(clock, field_); }
    std::string text(const proto::Clock& clock) const {
        return clock.GetReflection()->GetString(clock, field_);
    }
    void set(proto::Clock& clock, double value) const {
        clock.GetReflection()->SetDouble(&clock, field_, value);
    }
    void clear(proto::Clock& clock) const { clock.GetReflection()->ClearField(&clock, field_); }
    bool is_overridden(const Overrides& overrides) const {
        return std::any_of(overrides.begin(), overrides.end(),
                           [&](const auto& item) { return item.first == path(); });
    }

  private:
    std::string name_;
    const google::protobuf::FieldDescriptor* field_;
};

const OperatingPoint* find_point(const proto::Clock& clock, OperatingPoint::Domain domain,
                                 const std::string& name) {
    for (const OperatingPoint& point : clock.point()) {
        if (point.domain() == domain && point.name() == name) return &point;
    }
    return nullptr;
}

std::string unknown_point(const proto::Clock& clock, OperatingPoint::Domain domain, const std::string& name) {
    std::vector<std::string_view> names;
    for (const OperatingPoint& point : clock.point())
        if (point.domain() == domain) names.push_back(point.name());
    const std::string& of = OperatingPoint::Domain_Name(domain);
    if (names.empty())
        return fmt::format(
            "`clock.{0}_point` is `{1}`, but the platform has no operating points of its {0} "
            "clock. Fix: add `clock {{ point {{ name: \"{1}\" domain: {0} mhz: ... vdd: ... }} }}`.",
            of, name);
    return fmt::format(
        "`clock.{}_point`: no operating point `{}`; there are {}. Fix: did you mean `{}`? (none: what "
        "clock.{}_mhz says)",
        of, name, fmt::join(names, ", "), nearest_name(name, names), of);
}

/// Gives a field the point's value; a message if it says something else.
std::optional<std::string> settle(proto::Clock& clock, const Field& field, double value, const Field& chosen,
                                  const std::string& name) {
    if (field.is_set(clock) && field.number(clock) != value)
        return fmt::format(
            "`{}` is {}, and `{}` is `{}`, at which it is {}. Fix: leave one of them out, or give "
            "`{}` the value none.",
            field.path(), field.number(clock), chosen.path(), name, value, chosen.path());
    field.set(clock, value);
    return std::nullopt;
}

void choose_point(proto::Clock& clock, OperatingPoint::Domain domain, const Overrides& overrides,
                  Diagnostics& diagnostics) {
    const Field chosen(domain, "point"), mhz(domain, "mhz"), vdd(domain, "vdd");
    if (!chosen.is_set(clock)) return;
    const std::string name = chosen.text(clock);
    if (name == no_point) return chosen.clear(clock);
    const OperatingPoint* point = find_point(clock, domain, name);
    if (point == nullptr) return diagnostics.error({}, unknown_point(clock, domain, name));
    if (chosen.is_overridden(overrides)) {
        for (const Field& replaced : {mhz, vdd})
            if (!replaced.is_overridden(overrides)) replaced.clear(clock);
    }
    for (const auto& [field, value] : {std::pair(mhz, point->mhz()), std::pair(vdd, point->vdd())}) {
        if (std::optional<std::string> problem = settle(clock, field, value, chosen, name))
            diagnostics.error({}, std::move(*problem));
    }
}

OperatingPoint::Domain domain_of(traces::Component component) {
    switch (component) {
        case traces::Component::array:
            return OperatingPoint::array;
        case traces::Component::l1:
        case traces::Component::l2:
            return OperatingPoint::sram;
        case traces::Component::noc:
            return OperatingPoint::interconnect;
        default:
            return OperatingPoint::core;
    }
}

/// Returns the number of the domain, or of the core, which the other domains follow.
std::optional<double> number_of(const proto::Clock& clock, traces::Component component, const char* kind) {
    for (const OperatingPoint::Domain domain : {domain_of(component), OperatingPoint::core}) {
        const Field field(domain, kind);
        if (field.is_set(clock)) return field.number(clock);
    }
    return std::nullopt;
}

}  // namespace

void choose_points(proto::Platform& platform, const Overrides& overrides, Diagnostics& diagnostics) {
    if (!platform.has_clock()) return;
    for (const OperatingPoint::Domain domain : domains)
        choose_point(*platform.mutable_clock(), domain, overrides, diagnostics);
}

void forget_replaced_pairs(proto::Clock& clock, const proto::Clock& changes) {
    for (const OperatingPoint::Domain domain : domains) {
        if (!Field(domain, "point").is_set(changes)) continue;
        Field(domain, "mhz").clear(clock);
        Field(domain, "vdd").clear(clock);
    }
}

std::vector<std::string> point_problems(const proto::Clock& clock) {
    std::vector<std::string> problems;
    std::set<std::pair<OperatingPoint::Domain, std::string>> seen;
    for (const OperatingPoint& a : clock.point()) {
        const std::string& domain = OperatingPoint::Domain_Name(a.domain());
        if (a.name().empty() || a.name() == no_point)
            problems.push_back(
                fmt::format("`clock.point.name` is `{}`. Fix: give the point another name.", a.name()));
        if (!seen.emplace(a.domain(), a.name()).second)
            problems.push_back(fmt::format("`clock.point` has `{}` of the {} clock twice. Fix: remove one.",
                                           a.name(), domain));
        for (const OperatingPoint& b : clock.point()) {
            if (a.domain() != b.domain() || a.vdd() <= b.vdd() || a.mhz() >= b.mhz()) continue;
            problems.push_back(
                fmt::format("`clock.point`: `{}` of the {} clock takes {} V for {} MHz, and `{}` runs at {} "
                            "MHz with {} V. Fix: "
                            "remove `{}`, or correct it.",
                            a.name(), domain, a.vdd(), a.mhz(), b.name(), b.mhz(), b.vdd(), a.name()));
        }
    }
    return problems;
}

double mhz_of(const proto::Clock& clock, traces::Component component) {
    return number_of(clock, component, "mhz").value_or(0);
}

double vdd_of(const proto::Clock& clock, traces::Component component, double otherwise) {
    if (component == traces::Component::dram || component == traces::Component::phy) return otherwise;
    return number_of(clock, component, "vdd").value_or(otherwise);
}

}  // namespace kpu::platforms
