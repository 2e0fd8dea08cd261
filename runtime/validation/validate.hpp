#pragma once
// Simulated beside measured: row by row, by class, and in all.
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/validation/row_runner.hpp"
#include "runtime/validation/tiling.hpp"

namespace kpu::validation {

struct ComparedRow {
    MeasuredRow measured;
    std::optional<double> simulated;       ///< cycles of the measured schedule; none: the row gives no shape
    std::optional<double> own;             ///< result of this compiler's choice, where it was asked for
    std::string own_failed;                ///< why it has none
    std::optional<double> dram_megabytes;  ///< traffic of a row whose traffic is compared
    int64_t tiles = 0;                     ///< number of tiles of the schedule that was simulated
    Causes causes;
    double error() const { return (*simulated - measured.cycles) / measured.cycles; }  ///< signed
    bool counted() const { return simulated && measured.not_counted.empty(); }
};

struct Summary {
    std::string name;
    size_t rows = 0;
    double median = 0, mean = 0, p90 = 0;  ///< quantiles of |error|
    double signed_mean = 0;
    double rank = 0;  ///< Spearman's correlation of simulated and measured cycles; NaN with fewer than 2 rows
};
/// Sums up the rows that count. Quantiles are linear between ranks.
Summary summary_of(const std::string& name, const std::vector<const ComparedRow*>& rows);
/// Makes one for each class that has rows, of at least 50,000 measured cycles; one for all that are below;
/// one for all rows, last.
std::vector<Summary> summaries_of(const std::vector<ComparedRow>& rows);

/// Pairs of rows that count and are of one group, whose measurements differ by over 10 %: how many are
/// ordered as measured.
struct PairOrder {
    size_t pairs = 0, right = 0;
};
PairOrder pair_order_of(const std::vector<ComparedRow>& rows);

struct ValidateOptions {
    bool own = true;  ///< compile each layer as well
    const std::atomic<bool>* interrupt = nullptr;
    std::function<void(size_t done, size_t all)> progress;
};
/// Throws UserError for what does not fit the platform. Rows in the order of the file; of equal layers one is simulated.
std::vector<ComparedRow> validate(std::vector<MeasuredRow> rows, const platforms::Platform& platform,
                                  const ValidateOptions& options);

/// Returns a table of rows, one of classes, and a last line with the summary of all.
std::string text_of(const std::vector<ComparedRow>& rows);
std::string json_of(const std::vector<ComparedRow>& rows, const std::string& platform);

}  // namespace kpu::validation
