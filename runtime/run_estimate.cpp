#include "runtime/run_estimate.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

namespace kpu::runtime {
namespace {

constexpr double record_bytes = 32;
constexpr double sorting = 2.5;  ///< the log, the ordered copy, and what the sort needs beside it
// means over the examples of the repository
constexpr double records_per_task = 30, records_per_request = 1.7, request_bytes = 200;

/// Iterations of each loop per iteration of its parents.
class Trips {
  public:
    explicit Trips(const BoundProgram& program) : of_(program.statements.size(), 1) {
        std::vector<LoopValues> middle(program.statements.size());
        for (size_t i = 0; i < program.statements.size(); ++i) {
            const BoundStatement& statement = program.statements[i];
            if (statement.parent >= 0) {
                of_[i] = of_[static_cast<size_t>(statement.parent)];
                middle[i] = middle[static_cast<size_t>(statement.parent)];
            }
            if (statement.kind != BoundStatement::Kind::loop) continue;
            const BoundLoop& loop = program.loops[statement.index];
            const int64_t first = value(loop.first, middle[i]), last = value(loop.last, middle[i]);
            of_[i] *= last >= first ? static_cast<double>(last) - static_cast<double>(first) + 1 : 0;
            middle[i].push(first + (last - first) / 2);
        }
    }
    double of(size_t statement) const { return of_[statement]; }

  private:
    static int64_t value(const BoundExpr& expression, const LoopValues& loops) {
        try {
            const int64_t result = expression.eval(loops);
            constexpr int64_t limit = int64_t{1} << 60;
            return std::clamp(result, -limit, limit);
        } catch (const UserError&) {  // the run will say so, if it comes to this iteration
            return 0;
        }
    }
    std::vector<double> of_;
};

double tensor_bytes(const std::vector<TensorSpec>& specs) {
    double bytes = 0;
    for (const TensorSpec& spec : specs) {
        double elements = 1;
        for (const int64_t extent : spec.shape) elements *= static_cast<double>(extent);
        bytes += elements * std::max(1, bit_width(spec.elem) / 8);
    }
    return bytes;
}

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

RunEstimate estimate_run(const BoundProgram& program, const SimulationOptions& options) {
    RunEstimate estimate;
    const Trips trips(program);
    double records = 0;
    for (size_t i = 0; i < program.statements.size(); ++i) {
        if (program.statements[i].kind != BoundStatement::Kind::task) continue;
        const BoundTask& task = program.tasks[program.statements[i].index];
        estimate.tasks += trips.of(i);
        double moved = 0;
        for (const auto* list : {&task.inputs, &task.outputs}) {
            for (const uint32_t region : *list) moved += static_cast<double>(program.regions[region].extent);
        }
        const double per_task =
            records_per_task + static_cast<double>(task.deps.size()) +
            moved / request_bytes * (records_per_request + (options.record_accesses ? 1 : 0));
        records += trips.of(i) * per_task;
    }
    if (options.record_events) estimate.event_bytes = records * record_bytes * sorting;
    if (options.mode == Mode::timing) return estimate;
    double memory = static_cast<double>(program.ddr_bytes) + static_cast<double>(program.l2_bytes);
    for (const uint64_t bytes : program.l1_bytes) memory += static_cast<double>(bytes);
    constexpr double with_written_bits = 9.0 / 8;
    estimate.values_bytes =
        memory * with_written_bits + tensor_bytes(program.inputs) + tensor_bytes(program.outputs);
    return estimate;
}

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

uint64_t ordering_bytes(uint64_t records) {
    return static_cast<uint64_t>(static_cast<double>(records) * record_bytes * (sorting - 1));
}

}  // namespace kpu::runtime
