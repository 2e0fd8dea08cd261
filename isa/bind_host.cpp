// The host's view of a program: inputs to give, outputs to take, bytes that stand in memory before the start.
#include <fmt/format.h>

#include <algorithm>

#include "isa/binder.hpp"

namespace kpu {
namespace {

/// Use of a buffer by the tasks, in the order of the text.
struct BufferUse {
    bool read = false, written = false;
    bool read_first = false;              ///< read before anything in the text wrote it
    ElemType read_type = ElemType::none;  ///< type its readers have; u8 when they differ or one is untyped
    ElemType write_type = ElemType::none;
};

void merge_type(ElemType& seen, ElemType type, bool first) {
    if (type == ElemType::none) type = ElemType::u8;
    seen = first || seen == type ? type : ElemType::u8;
}

std::vector<BufferUse> uses_of(const BoundProgram& program, const std::set<uint32_t>& filled) {
    std::vector<BufferUse> uses(program.buffers.size());
    for (const uint32_t buffer : filled) uses[buffer].written = true;
    std::vector<bool> typed(uses.size(), false);  // written by a task, so that write_type counts
    for (const BoundTask& task : program.tasks) {
        for (const uint32_t index : task.inputs) {
            const BoundRegion& region = program.regions[index];
            BufferUse& use = uses[region.buffer];
            use.read_first = use.read_first || !use.written;
            merge_type(use.read_type, region.elem, !use.read);
            use.read = true;
        }
        for (const uint32_t index : task.outputs) {
            const BoundRegion& region = program.regions[index];
            BufferUse& use = uses[region.buffer];
            merge_type(use.write_type, region.elem, !typed[region.buffer]);
            typed[region.buffer] = true;
            use.written = true;
        }
    }
    for (size_t i = 0; i < uses.size(); ++i) uses[i].written = typed[i];
    return uses;
}

TensorSpec whole_buffer(const BoundProgram& program, uint32_t index, ElemType type) {
    const BoundBuffer& buffer = program.buffers[index];
    TensorSpec spec;
    spec.name = buffer.name;
    spec.buffer = index;
    const auto bits = static_cast<uint64_t>(bit_width(type));
    if (buffer.size * 8 % bits != 0) type = ElemType::u8;  // a trailing part of an element has no other type
    spec.elem = type;
    spec.shape = {static_cast<int64_t>(buffer.size * 8 / static_cast<uint64_t>(bit_width(type)))};
    return spec;
}

bool is_host_float(proto::HostElem host) {
    return host == proto::HOST_F16 || host == proto::HOST_BF16 || host == proto::HOST_F32 ||
           host == proto::HOST_F64;
}

/// True if host arrays of one type can become elements of the other: floats are rounded, or quantized;
/// integers stand for themselves, so they must not be quantized.
bool converts(proto::HostElem host, ElemType elem, bool quantized) {
    if (is_host_float(host)) return is_float(elem) ? !quantized : is_integer(elem) && quantized;
    return is_integer(elem) && !quantized;
}

}  // namespace

bool Binder::bind_host() {
    const size_t before = diagnostics_.error_count();
    bind_data();
    bind_tensors();
    bind_buffer_io();
    return diagnostics_.error_count() == before;
}

void Binder::add_image(uint32_t buffer, int64_t offset, const DataSection& bytes, const std::string& name) {
    const BoundBuffer& home = result_.buffers[buffer];
    if (static_cast<uint64_t>(offset) > home.size ||
        bytes.size() > home.size - static_cast<uint64_t>(offset)) {
        return error(module_.pos_of_buffer(buffer),
                     fmt::format("data `{}` ends at byte {} but buffer `{}` has {}. Fix: grow the buffer.",
                                 name, static_cast<uint64_t>(offset) + bytes.size(), home.name, home.size));
    }
    filled_.insert(buffer);
    result_.data.push_back({buffer, static_cast<uint64_t>(offset), &bytes});
}

void Binder::bind_data() {
    for (int i = 0; i < program_.data_size(); ++i) {
        const proto::Data& data = program_.data(i);
        if (static_cast<size_t>(i) >= module_.data.size() ||
            module_.data[static_cast<size_t>(i)].size() != data.size()) {
            error({module_.origin, 0, 0},
                  fmt::format("the bytes of data `{}` ({}) are missing. Fix: give the container or "
                              "side file that holds them.",
                              data.name(), data.size()));
            continue;
        }
        if (!data.buffer().empty()) {
            add_image(buffer_index_.at(data.buffer()), data.offset(), module_.data[static_cast<size_t>(i)],
                      data.name());
        }
    }
}

void Binder::bind_tensors() {
    for (const proto::Tensor& tensor : program_.tensor()) {
        if (tensor.buffer().empty()) continue;  // lives in the graph only: fused away
        const SourcePos pos{module_.origin, 0, 0};
        TensorSpec spec;
        spec.name = tensor.id();
        spec.buffer = buffer_index_.at(tensor.buffer());
        spec.offset = static_cast<uint64_t>(tensor.offset());
        spec.elem = static_cast<ElemType>(tensor.elem());
        spec.shape.assign(tensor.shape().begin(), tensor.shape().end());
        spec.strides.assign(tensor.stride().begin(), tensor.stride().end());
        spec.declared = true;
        described_.insert(spec.buffer);
        if (spec.elem == ElemType::none || tensor.shape_size() > max_rank) {
            error(pos, fmt::format("tensor `{}` has no element type or more than {} dimensions.", spec.name,
                                   max_rank));
            continue;
        }
        uint64_t needed = 1;  // elements up to past the last one, then bytes
        uint64_t elements = 1;
        for (size_t d = spec.shape.size(); d-- > 0;) {
            const auto extent = static_cast<uint64_t>(spec.shape[d]);
            const uint64_t stride = spec.strides.empty() ? elements : static_cast<uint64_t>(spec.strides[d]);
            uint64_t step = 0;
            if (__builtin_mul_overflow(extent - 1, stride, &step) ||
                __builtin_add_overflow(needed, step, &needed) ||
                __builtin_mul_overflow(elements, extent, &elements) || needed > max_level_bytes * 2) {
                needed = max_level_bytes * 2;
                break;
            }
        }
        const bool empty = std::count(spec.shape.begin(), spec.shape.end(), 0) > 0;
        needed = empty ? 0 : packed_bytes(spec.elem, needed);
        const BoundBuffer& home = result_.buffers[spec.buffer];
        if (spec.offset > home.size || needed > home.size - spec.offset) {
            error(pos, fmt::format(
                           "tensor `{}` needs {} bytes at {} but buffer `{}` has {}. Fix: grow the buffer.",
                           spec.name, needed, spec.offset, home.name, home.size));
            continue;
        }
        if (!bind_host_type(tensor, spec) || !bind_inferences(tensor, pos) || !bind_follows(tensor, spec))
            continue;
        const bool has_data = tensor.data() > 0;
        if (has_data && program_.data(static_cast<int>(tensor.data()) - 1).buffer().empty()) {
            static const DataSection none;
            const DataSection& bytes =
                tensor.data() - 1 < module_.data.size() ? module_.data[tensor.data() - 1] : none;
            if (!spec.strides.empty() || bytes.size() != needed) {
                error(pos, fmt::format("tensor `{}` needs {} dense bytes, its data has {}.", spec.name,
                                       needed, bytes.size()));
                continue;
            }
            add_image(spec.buffer, tensor.offset(), bytes, spec.name);
        }
        const bool weight_from_host = tensor.role() == proto::Tensor::WEIGHT && !has_data;
        if (tensor.role() == proto::Tensor::INPUT || weight_from_host) result_.inputs.push_back(spec);
        if (tensor.role() == proto::Tensor::OUTPUT) result_.outputs.push_back(std::move(spec));
    }
}

/// Declares what the host gives and takes once for each inference of a program that repeats itself. False:
/// reported. False: reported.
bool Binder::bind_inferences(const proto::Tensor& tensor, const SourcePos& pos) {
    const uint64_t inferences = program_.inferences();
    const bool of_host = tensor.role() == proto::Tensor::INPUT || tensor.role() == proto::Tensor::OUTPUT;
    if (inferences == 0 || !of_host) return true;
    const bool fits = tensor.shape_size() > 0 && static_cast<uint64_t>(tensor.shape(0)) == inferences;
    if (fits && inferences <= max_inferences) return true;
    error(pos, fmt::format("the program says that it makes {} inferences, but tensor `{}` is not there for "
                           "each of at most {}. "
                           "Fix: make its first dimension that, or take `inferences` out of the program.",
                           inferences, tensor.id(), max_inferences));
    return false;
}

/// Binds an input that follows from the position. False: reported.
bool Binder::bind_follows(const proto::Tensor& tensor, TensorSpec& spec) {
    if (tensor.follows() == proto::Tensor::FREE) return true;
    const auto& params = program_.param();
    const auto position = std::find_if(params.begin(), params.end(),
                                       [](const proto::Param& param) { return param.name() == "position"; });
    const bool fits = tensor.role() == proto::Tensor::INPUT && position != params.end() &&
                      std::abs(tensor.plus()) <= INT32_MAX && std::abs(position->max()) <= INT32_MAX;
    if (!fits) {
        error({module_.origin, 0, 0},
              fmt::format(
                  "tensor `{}` follows the position, but it is not an input, or the program has no parameter "
                  "`position` of 32 bits. Fix: take `follows` out of it.",
                  tensor.id()));
        return false;
    }
    spec.follows = tensor.follows();
    spec.number = params_[static_cast<size_t>(position - params.begin())] + tensor.plus();
    return true;
}

/// Finds the element type that the host's array is converted to. False: reported. False: reported.
bool Binder::bind_host_type(const proto::Tensor& tensor, TensorSpec& spec) {
    const proto::HostElem host = tensor.host_elem();
    if (host == proto::HOST_SAME || static_cast<int>(host) == static_cast<int>(spec.elem)) return true;
    const SourcePos pos{module_.origin, 0, 0};
    const bool quantized = tensor.quant().kind() != proto::Quant::NONE;
    const std::string_view name = std::string_view(proto::HostElem_Name(host));
    if (tensor.role() != proto::Tensor::INPUT && tensor.role() != proto::Tensor::OUTPUT) {
        error(pos, fmt::format("tensor `{}` has host_elem {}, but the host neither gives nor gets it. Fix: "
                               "leave host_elem to inputs and outputs.",
                               spec.name, name));
        return false;
    }
    if (!converts(host, spec.elem, quantized)) {
        error(pos,
              fmt::format("tensor `{}`: {} of the host cannot become {}{}. Fix: floats become floats, or "
                          "integers with quant; integers become integers without quant.",
                          spec.name, name, name_of(spec.elem), quantized ? " with quant" : ""));
        return false;
    }
    spec.host = host;
    if (!quantized) return true;
    const size_t before = diagnostics_.error_count();
    BoundRegion whole;
    whole.elem = spec.elem;
    whole.shape.rank = static_cast<uint8_t>(spec.shape.size());
    std::copy(spec.shape.begin(), spec.shape.end(), whole.shape.v.begin());
    bind_quant(tensor.quant(), false, whole, pos, {"tensor", spec.name, {}});
    spec.quant = std::move(whole.quant);
    return diagnostics_.error_count() == before;
}

/// Buffers that no tensor describes speak for themselves, by name; one that is read before anything gives it
/// bytes needs an input in any case.
void Binder::bind_buffer_io() {
    std::set<uint32_t> filled = filled_;
    for (const TensorSpec& spec : result_.inputs) filled.insert(spec.buffer);
    const std::vector<BufferUse> uses = uses_of(result_, filled);
    for (uint32_t i = 0; i < result_.buffers.size(); ++i) {
        const Level level = result_.buffers[i].level;
        if (level == Level::l1) continue;
        const BufferUse& use = uses[i];
        if (use.read_first) result_.inputs.push_back(whole_buffer(result_, i, use.read_type));
        if (use.written && described_.count(i) == 0 && (level == Level::ddr || !use.read)) {
            result_.outputs.push_back(whole_buffer(result_, i, use.write_type));
        }
    }
}

}  // namespace kpu
