#pragma once

#include "isa/footprint.hpp"

namespace kpu {

/// Calls visit(address, bytes) for every contiguous run until it returns false.
template <class Visit>
void for_each_run(const Footprint& f, Visit visit) {
    int64_t index[max_rank] = {};
    uint64_t address = f.address;
    for (;;) {
        if (!visit(address, f.run_bytes)) return;
        int d = 0;
        for (; d < f.dims; ++d) {
            address += static_cast<uint64_t>(f.stride_bytes[d]);
            if (++index[d] < f.count[d]) break;
            address -= static_cast<uint64_t>(f.stride_bytes[d] * f.count[d]);
            index[d] = 0;
        }
        if (d == f.dims) return;
    }
}

}  // namespace kpu
