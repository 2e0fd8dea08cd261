#pragma once

#include <memory>
#include <string>

#include "runtime/compare/difference.hpp"

namespace kpu::compare {

/// Runs side by side as one page of HTML that needs nothing else: timelines on one axis, operations, what moved, energy.
/// Differences are to the first run.
class Page {
  public:
    /// The most runs: each has a letter.
    static constexpr size_t most_runs = 26;

    /// Reads the run's events, if it has any; so does add(). Throws UserError on a damaged event file.
    explicit Page(traces::DiffSide& first);
    ~Page();
    /// Adds one more run, with how it differs from the first.
    void add(traces::DiffSide& other, const traces::DiffSide& first, const Difference& difference);
    std::string html() const;

  private:
    struct Data;
    std::unique_ptr<Data> data_;
};

}  // namespace kpu::compare
