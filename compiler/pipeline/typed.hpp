#pragma once
// A network in the types of a device, before anything of the device's sizes counts: the first half of a compilation.
#include <any>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/pipeline/compile.hpp"
#include "compiler/pipeline/numbers.hpp"

namespace kpu::pipeline {

struct Typed {
    graph::Graph graph;
    ElemType precision = ElemType::none;  ///< type of the products
    std::vector<Diagnostic> notes;        ///< notes on all that was decided on the way
    std::optional<Measured> measured;     ///< if errors were
    /// Absent constants as of graph::Graph, which quantization makes anew.
    std::map<std::string, std::string> absent;
    std::string device;  ///< properties of the device that counted: the same text, the same graph
};

/// Returns the options of passes for a device, as far as both halves need them.
passes::Options pass_options(values::ComputeBackend& backend, const CompileOptions& chosen,
                             const compiler::Target& target, ElemType precision);
/// Prints what --print-after asks for, or writes it to the file of --print-graph. `head` says which model it is.
/// `options` must outlive it.
passes::AfterPass after_pass(const CompileOptions& options, const graph::TextHead& head);

/// The network of `import`, or what `place` (of LoadRequest::kept) has of it if nothing that counts is another. What is decided for the
/// is decided for the user goes to `notes`, also before an error. Throws UserError.
std::shared_ptr<const Typed> typed(const Import& import, const CompileOptions& options, std::any* place,
                                   const std::string& origin, const compiler::Target& target,
                                   Diagnostics& notes, const graph::TextHead& head);

}  // namespace kpu::pipeline
