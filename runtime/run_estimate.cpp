#include "runtime/run_estimate.hpp"

#include <algorithm>

#include "isa/reach.hpp"

namespace kpu::runtime {
namespace {

constexpr double record_bytes = 32;
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
            records_per_task + static_cast<double>(task.deps.size() + task.carried.size()) +
            moved / request_bytes * (records_per_request + (options.record_accesses ? 1 : 0));
        records += trips.of(i) * per_task;
    }
    if (options.record_events) estimate.event_bytes = records * record_bytes;
    if (options.mode == Mode::timing) return estimate;
    double memory = 0;
    for (const auto& ranges : reach_of_buffers(program))
        for (const ByteRange& range : ranges) memory += static_cast<double>(range.last - range.first);
    constexpr double with_written_bits = 9.0 / 8;
    // host arrays: of what tasks reach, each byte at most once as input and once as output
    const double host = std::min(tensor_bytes(program.inputs), memory) + tensor_bytes(program.outputs);
    estimate.values_bytes = memory * with_written_bits + host;
    return estimate;
}

}  // namespace kpu::runtime
