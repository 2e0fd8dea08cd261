// Records of the program about its tensors: where each is, for the host and for readers.
#include "compiler/emit/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/diagnostics.hpp"
#include "compiler/emit/tiles.hpp"

namespace kpu::compiler {
namespace {

using graph::ValueId;

class Tensors {
  public:
    explicit Tensors(Emission& emission) : out_(emission), memory_(emission.plan.memory) {}

    void run() {
        for (const graph::Port& port : out_.graph.inputs) add_port(port, proto::Tensor::INPUT);
        for (const graph::Port& port : out_.graph.outputs) add_port(port, proto::Tensor::OUTPUT);
        add_intermediates();
    }

  private:
    void add_port(const graph::Port& port, proto::Tensor::Role role) {
        const graph::Value& value = out_.graph.value(port.value);
        View view;
        std::string buffer = "weights";
        if (value.constant() || value.elements() == 0) {
            view.strides = row_major(shape_of(value));
            if (value.elements() > 0)  // else it is the host's alone
                view.offset =
                    out_.constants.place(whole_block(out_.graph, port.value)) * 8 / bit_width(value.elem);
        } else {
            view = memory_.views[port.value];
            buffer = out_.program.message()
                         .buffer(static_cast<int>(out_.buffers.host.at(view.storage).index))
                         .name();
        }
        const Dims whole = shape_of(value);
        std::vector<int64_t> shape, strides;
        for (size_t d = 0; d < whole.rank; ++d) {
            const size_t from = port.perm.empty() ? d : static_cast<size_t>(port.perm[d]);
            shape.push_back(whole[from]);
            strides.push_back(view.strides[from]);
        }
        if (value.shape.rank == 0) shape.clear(), strides.clear();
        if (out_.plan.inferences > 1) repeat(port, shape, strides);
        proto::Tensor& tensor = out_.program.tensor(port.name, role, value.elem, shape, buffer,
                                                    view.offset * bit_width(value.elem) / 8);
        for (const int64_t stride : strides) tensor.add_stride(stride);
        tensor.set_follows(static_cast<proto::Tensor::Follows>(port.follows));  // the numbers are the same
        tensor.set_plus(port.plus);
        if (value.quant) *tensor.mutable_quant() = quant_message(value.quant);
        if (value.quant && value.quant.kind != proto::Quant::PER_TENSOR && !port.perm.empty())
            tensor.mutable_quant()->set_axis(std::find(port.perm.begin(), port.perm.end(), value.quant.axis) -
                                             port.perm.begin());
        if (value.quant && value.quant.kind != proto::Quant::PER_TENSOR && out_.plan.inferences > 1)
            tensor.mutable_quant()->set_axis(tensor.quant().axis() + 1);
        // small floats are the same on both sides; files have no numbers for them as types that is converted
        if (value.elem != port.elem || !is_small_float(port.elem)) tensor.set_host_elem(host_elem(port));
    }
    /// Repeats a first dimension: the inferences. A constant output is the same in all.
    void repeat(const graph::Port& port, std::vector<int64_t>& shape, std::vector<int64_t>& strides) const {
        const graph::Value& value = out_.graph.value(port.value);
        if (shape.size() >= max_rank)
            throw UserError(
                fmt::format("`{}` has {} dimensions, and --inferences would give it one more than {}. Fix: "
                            "compile one inference.",
                            port.name, shape.size(), max_rank));
        int64_t step = 0;
        if (!value.constant()) {
            const Storage& storage = memory_.storages[memory_.views[port.value].storage];
            step = static_cast<int64_t>(host_step(storage)) * 8 / bit_width(value.elem);
        }
        shape.insert(shape.begin(), static_cast<int64_t>(out_.plan.inferences));
        strides.insert(strides.begin(), step);
    }

    /// Adds tensors between operations: where they are, for readers, and so that their buffer is no output of
    /// its own.
    void add_intermediates() {
        std::set<std::string> names;  // a port need not be called as its value
        for (const proto::Tensor& port : out_.program.message().tensor()) names.insert(port.id());
        for (ValueId id = 0; id < out_.graph.values.size(); ++id) {
            const graph::Value& value = out_.graph.value(id);
            if (value.constant() || memory_.internal[id]) continue;
            const View& view = memory_.views[id];
            const Storage& storage = memory_.storages[view.storage];
            if (storage.input || storage.output || storage.first > storage.last) continue;
            std::vector<int64_t> shape(value.shape.begin(), value.shape.end());
            const int64_t at =
                static_cast<int64_t>(storage.address) + view.offset * bit_width(value.elem) / 8;
            const char* buffer = storage.home == Home::l2 ? "resident" : "activations";
            std::string name = value.name;
            while (!names.insert(name).second) name += ".inner";
            auto& tensor =
                out_.program.tensor(name, proto::Tensor::INTERMEDIATE, value.elem, shape, buffer, at);
            for (size_t d = 0; d < value.shape.rank; ++d) tensor.add_stride(view.strides[d]);
            if (value.quant) *tensor.mutable_quant() = quant_message(value.quant);
        }
    }

    Emission& out_;
    const MemoryPlan& memory_;
};

}  // namespace

void add_tensors(Emission& emission) { Tensors(emission).run(); }

}  // namespace kpu::compiler
