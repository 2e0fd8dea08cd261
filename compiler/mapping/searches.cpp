#include "compiler/mapping/searches.hpp"

#include <type_traits>

namespace kpu::compiler {
namespace {

/// Collects bytes of one thing after another; what has no fixed size begins with its length.
class Content {
  public:
    template <class T>
    std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>> add(T value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    void add(const std::string& text) {
        add(text.size());
        bytes_ += text;
    }
    template <class T>
    void add(const std::vector<T>& list) {
        add(list.size());
        for (const T& of : list) add(of);
    }
    void add(const Dims& dims) {
        add(dims.rank);
        for (const int64_t extent : dims) add(extent);
    }
    void add(const Window& of) { add(of.axis), add(of.step), add(of.extent), add(of.before); }
    void add(const Axis& of) {
        add(of.name), add(of.extent), add(of.walk), add(of.whole), add(of.single), add(of.quantum),
            add(of.independent);
        add(of.least_last);
    }
    void add(const BoundAttr& of) {
        add(of.name), add(of.integer), add(of.real), add(of.ints), add(of.reals), add(of.text), add(of.type);
    }
    std::string take() { return std::move(bytes_); }

  private:
    std::string bytes_;
};

bool same_steps(const BoundQuant& a, const BoundQuant& b) {
    return a.kind == b.kind && a.scales == b.scales && a.zero_points == b.zero_points;
}

/// Adds an operand; of its steps only which operands have the same.
void add_operand(Content& content, const TilingRequest& request, size_t operand) {
    const TileOperand& of = request.op.operands[operand];
    const graph::Value& value = request.graph.value(of.value);
    content.add(of.windows), content.add(of.place);
    content.add(value.elem), content.add(value.shape), content.add(value.constant());
    size_t first = 0;
    while (!same_steps(request.graph.value(request.op.operands[first].value).quant, value.quant)) ++first;
    content.add(first);
    content.add(request.homes[operand]), content.add(request.strides[operand]);
}

}  // namespace

std::string content_of(const TilingRequest& request) {
    Content content;
    content.add(request.op.axes);
    content.add(request.op.operands.size());
    for (size_t i = 0; i < request.op.operands.size(); ++i) add_operand(content, request, i);
    content.add(request.op.nodes.size());
    for (const TileNode& of : request.op.nodes) {
        const graph::Node& node = request.graph.nodes[of.node];
        content.add(node.opcode), content.add(node.attrs.list);
        for (const graph::ValueId id : node.inputs) content.add(request.graph.value(id).elem);
        for (const graph::ValueId id : node.outputs) content.add(request.graph.value(id).elem);
        content.add(of.inputs), content.add(of.outputs);
    }
    content.add(request.op.anchor);
    content.add(request.arena_bytes), content.add(request.staging_bytes), content.add(request.spare_bytes),
        content.add(request.first);
    content.add(request.keep), content.add(request.more);
    return content.take();
}

std::vector<Tiling> Searches::find(const std::string& content,
                                   const std::function<std::vector<Tiling>()>& search) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (const auto known = known_.find(content); known != known_.end()) return known->second;
    }
    std::vector<Tiling> found = search();  // two threads may search the same: they find the same
    const std::lock_guard<std::mutex> lock(mutex_);
    return known_.emplace(content, std::move(found)).first->second;
}

}  // namespace kpu::compiler
