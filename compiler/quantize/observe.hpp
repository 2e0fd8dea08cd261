#pragma once
// Observation of a float network on samples.
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/samples.hpp"

namespace kpu::quantize {

/// Executes the graph on every sample, several at a time; look(notes, sample, value, tensor) sees each float value that is
/// no constant.
/// Result: the notes of each worker.
template <class Notes, class Look>
std::vector<Notes> observe(const graph::Graph& graph, const Samples& samples, const Notes& empty,
                           const Look& look) {
    constexpr size_t most_workers = 8;  // each holds the values of a sample
    struct Worker {
        Worker(const graph::Graph& graph, Notes notes_)
            : engine(values::make_fast_backend()), executor(graph, *engine), notes(std::move(notes_)) {}
        std::unique_ptr<values::ComputeBackend> engine;
        graph::GraphExecutor executor;
        Notes notes;
    };
    std::vector<std::unique_ptr<Worker>> workers(workers_for(samples.count(), most_workers));
    for (auto& worker : workers) worker = std::make_unique<Worker>(graph, empty);
    parallel_for(samples.count(), workers.size(), [&](size_t number, size_t sample) {
        Worker& worker = *workers[number];
        const std::vector<graph::Data> arrays = samples.load(sample);
        std::vector<graph::Data> inputs;
        for (size_t k = 0; k < graph.inputs.size(); ++k)
            inputs.push_back(graph::from_host(graph, graph.inputs[k], arrays[k]));
        worker.executor.run(inputs, [&](graph::ValueId id, const values::Tensor& tensor) {
            if (is_float(tensor.type)) look(worker.notes, sample, id, tensor);
        });
    });
    std::vector<Notes> notes;
    for (auto& worker : workers) notes.push_back(std::move(worker->notes));
    return notes;
}

}  // namespace kpu::quantize
