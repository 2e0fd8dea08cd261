#pragma once

#include <utility>
#include <vector>

namespace kpu::platforms {

/// Interpolates between a at x0 and b at x1, linear in the logarithms.
double log_between(double x0, double a, double x1, double b, double x);

/// Areas of SRAM macros: area_sram.csv, which area_sram.py makes with CACTI.
class SramTable {
  public:
    /// Points of the table, ascending in both; `mm2[width][size]`.
    struct Points {
        std::vector<double> size_bytes, width_bytes;
        std::vector<std::vector<double>> mm2;
    };
    /// Returns the shipped table, read once.
    static const SramTable& shipped();
    explicit SramTable(Points points) : points_(std::move(points)) {}

    /// Returns the mm2 of one bank, at the process of the table. Exact at its points, between them linear in
    /// the logarithms: a larger or wider bank is never smaller, and half of it never less than half as large.
    /// Wider than the table: several side by side; larger: several; smaller: as large as the smallest.
    double macro_mm2(double size_bytes, double width_bytes) const;

    const Points& points() const { return points_; }
    /// SRAM cell that the table was made with.
    static constexpr double cell_um2 = 0.0707;

  private:
    double along_sizes(const std::vector<double>& mm2, double size_bytes) const;

    Points points_;
};

}  // namespace kpu::platforms
