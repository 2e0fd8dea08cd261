#include "base/host_memory.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

namespace kpu {
namespace {

std::optional<uint64_t> number_in(const std::string& path, const std::string& key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, key.size(), key) != 0) continue;
        const size_t from = line.find_first_of("0123456789");
        uint64_t value = 0;
        if (from == std::string::npos) return std::nullopt;
        const auto result = std::from_chars(line.data() + from, line.data() + line.size(), value);
        if (result.ec == std::errc()) return value;
    }
    return std::nullopt;
}

}  // namespace

uint64_t available_bytes() {
    uint64_t available = number_in("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
    const auto limit_to = [&](uint64_t limit, uint64_t used) {
        const uint64_t left = limit > used ? limit - used : 0;
        available = available == 0 ? left : std::min(available, left);
    };
    const std::string group = "/sys/fs/cgroup/";
    const auto limit = number_in(group + "memory.max", ""), used = number_in(group + "memory.current", "");
    if (limit && used) limit_to(*limit, *used);
    rlimit space{};  // ulimit -v
    const auto pages = number_in("/proc/self/statm", "");
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && pages)
        limit_to(space.rlim_cur, *pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    return available;
}

void give_back_freed_memory() {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

}  // namespace kpu
