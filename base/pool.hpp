#pragma once

#include <cstdint>
#include <vector>

namespace kpu {

/// Objects that are known by numbers and used again. take() gives the number that was given back last, and its
/// object as it was left, so that memory which it holds need not be allocated anew.
/// `Places` is the sequence that holds them; one that moves no element where references survive a take().
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
    /// Returns the number of places; every number is below it.
    uint32_t size() const { return static_cast<uint32_t>(places_.size()); }

  private:
    Places places_;
    std::vector<uint32_t> free_;
};

}  // namespace kpu
