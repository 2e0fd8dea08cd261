#pragma once

#include <cstdint>
#include <vector>

namespace kpu {

/// Objects known by numbers. A number that was given back is taken again, the last one first, and its object
/// is what it was then: memory that it holds serves the next one.
/// `Places`: a sequence; one whose elements stay where they are, where references are kept over take().
template <typename T, typename Places = std::vector<T>>
class Pool {
  public:
    uint32_t take() {
        if (free_.empty()) {
            places_.emplace_back();
            return size() - 1;
        }
        const uint32_t number = free_.back();
        free_.pop_back();
        return number;
    }
    void give_back(uint32_t number) { free_.push_back(number); }

    T& operator[](uint32_t number) { return places_[number]; }
    const T& operator[](uint32_t number) const { return places_[number]; }
    /// Every number is below.
    uint32_t size() const { return static_cast<uint32_t>(places_.size()); }

  private:
    Places places_;
    std::vector<uint32_t> free_;
};

}  // namespace kpu
