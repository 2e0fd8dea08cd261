#pragma once
// ONNX models as graphs: every node becomes opcodes on whole tensors, or the import is refused.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "base/option.hpp"
#include "compiler/front_end.hpp"
#include "compiler/graph/graph.hpp"

namespace kpu::onnx {

struct ImportOptions {
    /// Sizes of dynamic dimensions by their name, or "INPUT.AXIS". Missing ones are 1, which the notes tell.
    std::map<std::string, int64_t> dims;
    /// Values of inputs by their name, as binding.hpp reads them: these are constants.
    std::map<std::string, std::string> bound;
    /// Positions that one program is for; none: the inputs say where it stands.
    graph::Positions positions;
    /// Size of the dynamic first dimension of each input, where `dims` has none for it; 0: as `dims` says.
    int64_t batch = 0;
    /// External data that is in memory, by its location; other locations are files.
    std::map<std::string, graph::Data> files;
};

/// Makes the options from the rows `dim`, `bind`, `positions` and `batch`. Throws UserError on what
/// contradicts itself.
ImportOptions import_options(const OptionValues& given);

using compiler::NodeSupport;

/// Throws UserError: what is wrong with the file, or one list of all nodes that cannot be imported. `nodes`, if not
/// null, gets what coverage() gives, in the latter case too.
graph::Graph import_model(const std::string& path, const ImportOptions& options, Diagnostics& notes,
                          std::vector<NodeSupport>* nodes = nullptr);
/// `folder`: where external data may lie; "": nowhere.
graph::Graph import_bytes(std::string_view bytes, const std::string& origin, const std::string& folder,
                          const ImportOptions& options, Diagnostics& notes,
                          std::vector<NodeSupport>* nodes = nullptr);

/// Lists every node, those of functions instead of their calls. A node after an unsupported one is looked at
/// as far as the file tells the shapes between them. Throws UserError on files that are no model.
std::vector<NodeSupport> coverage(const std::string& path, const ImportOptions& options, Diagnostics& notes);

/// Operators of the default domain that can be imported, by name.
struct KnownOperator {
    std::string_view type;
    int64_t since = 7;    ///< the first opset that has it, of those that are known
    int64_t until = 999;  ///< the last one
};
std::vector<KnownOperator> known_operators();

}  // namespace kpu::onnx
