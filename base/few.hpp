#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>

namespace kpu {

/// A list that rarely has more than N members, and costs no memory of its own until it has. Moves copy: of so
/// few that is as quick, and GCC 12 takes the library's own moves for reads past the end.
template <typename T, size_t N = 4>
class Few : public boost::container::small_vector<T, N> {
    using Base = boost::container::small_vector<T, N>;

  public:
    using Base::Base;
    Few() = default;
    Few(const Few&) = default;
    Few(Few&& other) : Base(static_cast<const Base&>(other)) {}  // NOLINT: a copy, which may allocate
    Few& operator=(const Few&) = default;
    Few& operator=(Few&& other) {  // NOLINT: the same
        Base::operator=(static_cast<const Base&>(other));
        return *this;
    }
    ~Few() = default;
};

}  // namespace kpu
