#pragma once
// Results of searches: networks repeat their layers, and are planned more than once, so each search is made
// once.
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/mapping/tiling.hpp"

namespace kpu::compiler {

/// Returns everything that the tilings of an operation follow from, beside the device. Names of operations
/// and numbers of constants are no part of it.
std::string content_of(const TilingRequest& request);

/// Results by content. Threads may share one.
class Searches {
  public:
    std::vector<Tiling> find(const std::string& content, const std::function<std::vector<Tiling>()>& search);
    size_t size() const { return known_.size(); }

  private:
    std::mutex mutex_;
    std::unordered_map<std::string, std::vector<Tiling>> known_;
};

}  // namespace kpu::compiler
