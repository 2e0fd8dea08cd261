#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace kpu {

size_t workers_for(size_t count, size_t most) {
    const size_t processors = std::max(1U, std::thread::hardware_concurrency());
    return std::min({count, most, processors});
}

void parallel_for(size_t count, size_t workers, const std::function<void(size_t, size_t)>& body) {
    std::atomic<size_t> next{0};
    std::vector<std::pair<size_t, std::exception_ptr>> errors(workers, {count, nullptr});
    const auto work = [&](size_t worker) {
        for (size_t i = next++; i < count; i = next++) {
            try {
                body(worker, i);
            } catch (...) {
                errors[worker] = {i, std::current_exception()};
                next = count;
            }
        }
    };
    std::vector<std::thread> threads;
    try {
        for (size_t worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
    } catch (const std::system_error&) {  // no more threads are to be had: those there are do all of it
    }
    if (workers > 0) work(0);
    for (std::thread& thread : threads) thread.join();
    // pieces are begun in order, so the first one that throws is always among them
    const auto first = std::min_element(errors.begin(), errors.end(),
                                        [](const auto& a, const auto& b) { return a.first < b.first; });
    if (first != errors.end() && first->second) std::rethrow_exception(first->second);
}

}  // namespace kpu
