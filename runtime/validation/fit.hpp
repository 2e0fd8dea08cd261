#pragma once
// Finds what would have to be otherwise for a row to meet its measurement: one parameter of the platform at a
// time.
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "platforms/platform.hpp"
#include "runtime/validation/measured.hpp"

namespace kpu::validation {

struct Change {
    std::string cause;      ///< as docs/stall_causes.md names them, or what the array does
    std::string parameter;  ///< path as of --set
    double now = 0;
    std::optional<double>
        needed;          ///< value with which the row takes what was measured, to 1 %; none: no value does
    double nearest = 0;  ///< the value that comes nearest
    double cycles = 0;   ///< cycles with it
    /// Returns how far the value is from the one now, as a factor of at least 1; where that is 0, its size.
    double distance() const;
};

struct Explained {
    MeasuredRow row;  ///< in cycles
    double simulated = 0;
    std::vector<Change>
        /// Changes that meet the measurement first, the least change first; without those that leave over
        /// nine tenths of the distance.
        changes;
};

/// Throws UserError for a row that is not simulated.
Explained explain_row(MeasuredRow row, const platforms::Platform& platform,
                      const std::atomic<bool>* interrupt);
std::string text_of(const Explained& explained);
std::string json_of(const Explained& explained);

/// Returns the row of that name, or of that line of the file. Throws UserError with the nearest name.
const MeasuredRow& find_row(const std::vector<MeasuredRow>& rows, const std::string& name);

}  // namespace kpu::validation
