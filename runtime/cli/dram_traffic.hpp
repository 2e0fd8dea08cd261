#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "model/dram/replay.hpp"

namespace kpu::cli {

/// Files of a replayed trace's banks, as `run` writes them of its DRAM.
class DramTrafficFiles {
  public:
    DramTrafficFiles();
    ~DramTrafficFiles();
    void add_to(CLI::App& command);
    bool wanted() const { return !table_.empty() || !page_.empty(); }
    std::vector<std::string> paths() const { return {table_, page_}; }
    /// Makes an observer for each channel, which must see all of its commands.
    std::vector<dram::CommandObserver*> observe(const dram::ReplayConfig& config);
    /// `sources`: who asked; `what` was replayed on which `device`.
    void write(const std::vector<dram::TraceSource::Source>& sources, const std::string& what,
               const std::string& device) const;

  private:
    class Collector;
    std::string table_, page_, by_ = "bank";
    double bin_ns_ = 1000;
    std::unique_ptr<Collector> collector_;
};

}  // namespace kpu::cli
