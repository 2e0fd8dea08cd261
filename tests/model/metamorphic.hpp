#pragma once

#include <map>
#include <string>
#include <vector>

#include "platforms/platform.hpp"

namespace kpu::model {

/// Effect that one step of a platform's parameter up may have on the time of a run.
enum class Effect : uint8_t {
    faster,  ///< more of it helps: widths, counts, clocks
    slower,  ///< more of it costs: latencies, cycles
    either,  ///< no direction: how addresses are spread, sizes of an array, policies
    none     ///< capacities, energy: no cycle may change
};

/// A number of the platform, and how far from its value a step goes.
struct SteppedParameter {
    std::string path;
    Effect effect;
    std::string fallback =
        {};  ///< the value where the platform leaves it out, or the parameter that then counts
};
const std::vector<SteppedParameter>& stepped_parameters();
/// Parameters that are no numbers, or name rows: nothing to step.
const std::vector<std::string>& parameters_without_steps();

/// Results of a parameter's steps over many programs. An anomaly: a run with more of what helps, or less of
/// what costs, that took longer.
struct Anomalies {
    uint64_t pairs = 0;      ///< pairs of runs, one step apart
    uint64_t changed = 0;    ///< ... that took different times
    uint64_t anomalous = 0;  ///< ... of which the better one took longer
    double worst = 0;        ///< longer by this share
    std::string worst_at;    ///< platform, seed, step
    double sum = 0;          ///< sum of better time / worse time - 1; of a direction below 0
};

/// Returns the shipped devices that take part, half of the programs with a DRAM controller.
const std::vector<std::string>& metamorphic_platforms();

/// Runs random programs on a device, and on it with each parameter one step up and one down.
class Metamorphic {
  public:
    explicit Metamorphic(const std::string& platform);
    /// Runs one program: its seed says what it is.
    void run(uint64_t seed);
    const std::map<std::string, Anomalies>& found() const { return found_; }

  private:
    struct Variant {
        const SteppedParameter* parameter;
        bool up;
        proto::Platform platform;
    };
    void make_variants(bool burst, std::vector<Variant>& variants);
    void compare(const Variant& variant, uint64_t seed, double before, double after);

    std::string name_;
    proto::Platform base_[2];  ///< with simple DRAM channels, with controllers
    std::vector<Variant> variants_[2];
    std::map<std::string, Anomalies> found_;
};

void add(std::map<std::string, Anomalies>& to, const std::map<std::string, Anomalies>& from);

/// Returns the largest anomaly that docs/anomalies.md states for a parameter; 0 where it lists none.
double anomaly_bound(const std::string& path);

}  // namespace kpu::model
