#include "runtime/host_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/random.hpp"
#include "base/text.hpp"
#include "runtime/host_boundary.hpp"
#include "values/compute.hpp"
#include "values/convert.hpp"
#include "values/scalar.hpp"

namespace kpu::runtime {
namespace {

uint64_t element_count(const TensorSpec& spec) {
    uint64_t count = 1;
    for (const int64_t extent : spec.shape) count *= static_cast<uint64_t>(extent);
    return count;
}

/// Returns a host tensor as a region of its buffer, so that the one gather and scatter serve it.
BoundRegion region_of(const BoundProgram& program, const TensorSpec& spec) {
    const BoundBuffer& buffer = program.buffers[spec.buffer];
    BoundRegion region;
    region.name = spec.name;
    region.buffer = spec.buffer;
    region.level = buffer.level;
    region.engine = buffer.engine;
    region.elem = spec.elem;
    // A tensor without strides is dense: its rank does not matter for copying.
    if (spec.strides.empty()) {
        region.shape.rank = region.strides.rank = 1;
        region.shape[0] = static_cast<int64_t>(element_count(spec));
        region.strides[0] = 1;
    } else {
        region.shape.rank = region.strides.rank = static_cast<uint8_t>(spec.shape.size());
        for (size_t i = 0; i < spec.shape.size(); ++i) {
            region.shape[i] = spec.shape[i];
            region.strides[i] = spec.strides[i];
        }
        region.dense = false;
    }
    region.extent = buffer.size - spec.offset;
    return region;
}

values::RegionView view_of(const BoundProgram& program, const TensorSpec& spec, const BoundRegion& region) {
    return {&region, program.buffers[spec.buffer].base + spec.offset};
}

template <class T>
void put(char* out, T value) {
    std::memcpy(out, &value, sizeof value);
}

/// Returns a number uniform in [-1, 1) with 24 random bits, which every float type then rounds once.
double unit_value(uint64_t random) { return static_cast<double>(random >> 40) * 0x1p-23 - 1.0; }

void put_random(char* out, ElemType type, uint64_t random) {
    switch (type) {
        case ElemType::f16:
            return put(out, values::f16_of(unit_value(random)));
        case ElemType::bf16:
            return put(out, values::bf16_of(unit_value(random)));
        case ElemType::f32:
            return put(out, static_cast<float>(unit_value(random)));
        case ElemType::i4:
            return put(out, static_cast<int8_t>(static_cast<int>(random & 15) - 8));
        default:
            if (is_posit(type) || is_small_float(type))
                return values::store_float(type, reinterpret_cast<uint8_t*>(out), 0, unit_value(random));
            std::memcpy(out, &random, static_cast<size_t>(bit_width(type) / 8));
    }
}

size_t dense_element_bytes(ElemType type) {
    return shares_bytes(type) ? 1 : static_cast<size_t>(bit_width(type)) / 8;
}

/// Returns dense elements of an input whose host array is all zeros.
std::string zeros_of(const TensorSpec& spec) {
    if (spec.converts())
        return to_device(spec, std::string(element_count(spec) * host_item_bytes(spec), '\0'), spec.name);
    return std::string(element_count(spec) * dense_element_bytes(spec.elem), '\0');
}

/// Returns the same of a random host array. Integers that only the host has become 0 or 1, which every use of
/// them takes: masks, kinds, indices.
std::string random_on_device(const TensorSpec& spec, uint64_t count, SplitMix64& random) {
    const size_t step = host_item_bytes(spec);
    std::string host(count * step, '\0');
    for (size_t at = 0; at < host.size(); at += step) {
        const uint64_t bits = random.next();
        if (spec.host == proto::HOST_F64) {
            put(&host[at], unit_value(bits));
        } else if (spec.host > proto::HOST_F32) {
            host[at] = static_cast<char>(bits >> 63);
        } else {
            put_random(&host[at], static_cast<ElemType>(spec.host), bits);
        }
    }
    return to_device(spec, host, spec.name);
}

std::string unknown_input(const BoundProgram& program, std::string_view name) {
    std::vector<std::string_view> names;
    for (const auto& spec : program.inputs) names.push_back(spec.name);
    if (names.empty())
        return fmt::format("the program has no inputs, so `{}` is not one. Fix: leave it out.", name);
    return fmt::format("`{}` is not an input of the program. Fix: did you mean `{}`? Inputs: {}.", name,
                       nearest_name(name, names), fmt::join(names, ", "));
}

/// Returns the bytes of an input that follows from the position.
std::string following(const TensorSpec& spec) {
    std::string dense(zeros_of(spec).size(), '\0');
    auto* to = reinterpret_cast<uint8_t*>(dense.data());
    const int64_t last = spec.shape.empty() ? 1 : spec.shape.back();
    for (int64_t i = 0; i < static_cast<int64_t>(element_count(spec)); ++i) {
        const bool up_to = spec.follows == proto::Tensor::UP_TO;
        const int64_t number = !up_to ? spec.number : i % last <= spec.number ? 1 : 0;
        if (is_integer(spec.elem))
            values::store_saturated(spec.elem, to, i, number);
        else
            values::store_float(spec.elem, to, i, static_cast<double>(number));
    }
    return dense;
}

/// Returns the element type that all typed regions of a buffer have, or u8.
ElemType type_of(const BoundProgram& program, uint32_t buffer) {
    ElemType type = ElemType::none;
    for (const BoundRegion& region : program.regions) {
        if (region.buffer != buffer || !region.typed()) continue;
        if (type != ElemType::none && type != region.elem) return ElemType::u8;
        type = region.elem;
    }
    return type == ElemType::none ? ElemType::u8 : type;
}

}  // namespace

std::vector<TensorSpec> stored_tensors(const BoundProgram& program) {
    std::vector<TensorSpec> specs;
    std::set<std::string> names;
    const auto add = [&](TensorSpec spec) {
        if (names.insert(spec.name).second) specs.push_back(std::move(spec));
    };
    for (const auto* list : {&program.inputs, &program.outputs}) {
        for (const TensorSpec& spec : *list) add(spec);
    }
    if (program.module) {
        for (const proto::Tensor& tensor : program.module->program.tensor()) {
            if (tensor.buffer().empty()) continue;  // lives in the graph only
            TensorSpec spec;
            spec.name = tensor.id();
            spec.buffer = static_cast<uint32_t>(
                std::find_if(program.buffers.begin(), program.buffers.end(),
                             [&](const BoundBuffer& buffer) { return buffer.name == tensor.buffer(); }) -
                program.buffers.begin());
            spec.offset = static_cast<uint64_t>(tensor.offset());
            spec.elem = static_cast<ElemType>(tensor.elem());
            spec.shape.assign(tensor.shape().begin(), tensor.shape().end());
            spec.strides.assign(tensor.stride().begin(), tensor.stride().end());
            spec.declared = true;
            add(std::move(spec));
        }
    }
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
        TensorSpec spec;
        spec.name = program.buffers[i].name;
        spec.buffer = i;
        spec.elem = type_of(program, i);
        const uint64_t bits = program.buffers[i].size * 8;
        if (bits % static_cast<uint64_t>(bit_width(spec.elem)) != 0) spec.elem = ElemType::u8;
        spec.shape = {static_cast<int64_t>(bits / static_cast<uint64_t>(bit_width(spec.elem)))};
        add(std::move(spec));
    }
    return specs;
}

HostTensors::HostTensors(const BoundProgram& program) : program_(program), inputs_(program.inputs.size()) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (program.inputs[i].follows == proto::Tensor::FREE) continue;
        inputs_[i].dense = following(program.inputs[i]);
        inputs_[i].set = true;
    }
}

const TensorSpec& HostTensors::check(std::string_view name, const NpyArray& array,
                                     const std::string& origin) const {
    const auto found = std::find_if(program_.inputs.begin(), program_.inputs.end(),
                                    [&](const TensorSpec& spec) { return spec.name == name; });
    if (found == program_.inputs.end()) throw UserError(unknown_input(program_, name));
    if (found->follows != proto::Tensor::FREE)
        throw UserError(
            fmt::format("{}: input `{}` follows from the parameter `position`. Fix: leave it out, and give "
                        "--param position=N.",
                        origin, name));
    if (found->converts()) {
        check_npy_dtype(array, host_dtype(*found), host_type_name(*found), origin);
    } else {
        check_npy_type(array, found->elem, origin);
    }
    const bool fits =
        found->declared ? array.shape == found->shape : array.elements() == element_count(*found);
    if (!fits) {
        throw UserError(fmt::format(
            "{}: input `{}` has shape ({}), {} elements, but the array has shape ({}), {} elements. "
            "Fix: give an array of that shape.",
            origin, name, fmt::join(found->shape, ", "), element_count(*found), fmt::join(array.shape, ", "),
            array.elements()));
    }
    return *found;
}

void HostTensors::set(std::string_view name, const NpyArray& array, const std::string& origin) {
    const TensorSpec& spec = check(name, array, origin);
    Input& input = inputs_[static_cast<size_t>(&spec - program_.inputs.data())];
    input.beyond = {};
    input.dense = spec.converts() ? to_device(spec, array.data, origin, &input.beyond) : array.data;
    input.set = true;
    input.converted_finite = !spec.converts() || not_finite(spec, array.data) == 0;
    input.made_on_place = false;
}

bool HostTensors::finite() const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
        const TensorSpec& spec = program_.inputs[i];
        if (!inputs_[i].converted_finite || (!spec.converts() && not_finite(spec, inputs_[i].dense) > 0))
            return false;
    }
    return true;
}

std::vector<InputRange> HostTensors::out_of_range() const {
    std::vector<InputRange> found;
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].beyond.all() > 0) found.push_back({&program_.inputs[i], inputs_[i].beyond});
    }
    return found;
}

std::vector<std::string> HostTensors::missing() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (!inputs_[i].set) names.push_back(program_.inputs[i].name);
    }
    return names;
}

bool HostTensors::is_large(const TensorSpec& spec) const {
    constexpr uint64_t large_bytes = 16 << 20;
    return spec.strides.empty() && !shares_bytes(spec.elem) && !spec.converts() &&
           element_count(spec) * dense_element_bytes(spec.elem) >= large_bytes;
}

void HostTensors::fill_zero() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].set) continue;
        const TensorSpec& spec = program_.inputs[i];
        inputs_[i].made_on_place = is_large(spec);
        if (!inputs_[i].made_on_place) inputs_[i].dense = zeros_of(spec);
        inputs_[i].set = true;
    }
}

void HostTensors::fill_random(uint64_t seed) {
    uint64_t first = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
        Input& input = inputs_[i];
        if (input.set) continue;
        const TensorSpec& spec = program_.inputs[i];
        const uint64_t count = element_count(spec);
        input.random = input.set = true;
        input.seed = seed;
        input.first = first;
        first += count;
        input.made_on_place = is_large(spec);
        if (input.made_on_place) continue;
        const size_t step = dense_element_bytes(spec.elem);
        SplitMix64 random(seed);
        random.skip(input.first);
        if (spec.converts()) {
            input.dense = random_on_device(spec, count, random);
            continue;
        }
        input.dense.resize(count * step);
        for (size_t at = 0; at < input.dense.size(); at += step)
            put_random(&input.dense[at], spec.elem, random.next());
    }
}

/// Places the bytes of a large input that tasks reach, or the others.
void HostTensors::place_part(values::MemoryImage& memory, size_t i, bool reached) {
    constexpr uint64_t block_bytes = 1 << 20;
    const TensorSpec& spec = program_.inputs[i];
    const Input& input = inputs_[i];
    const BoundBuffer& buffer = program_.buffers[spec.buffer];
    values::MemoryLevel& level = memory.level(buffer.level, buffer.engine);
    const uint64_t step = dense_element_bytes(spec.elem);
    const uint64_t end = spec.offset + element_count(spec) * step;
    if (reach_.empty()) reach_ = reach_of_buffers(program_);
    const std::vector<ByteRange>& reach = reach_[spec.buffer];
    std::string block;
    for (const ByteRange& range :
         reached ? inside(reach, spec.offset, end) : outside(reach, spec.offset, end)) {
        const uint64_t last = range.last - spec.offset;
        for (uint64_t at = range.first - spec.offset; at < last;) {
            // whole elements around the bytes wanted
            const uint64_t begin = at / step * step;
            const uint64_t stop = std::min(last, begin + block_bytes);
            block.assign((stop - begin + step - 1) / step * step, '\0');
            SplitMix64 random(input.seed);
            random.skip(input.first + begin / step);
            for (size_t b = 0; input.random && b < block.size(); b += step)
                put_random(&block[b], spec.elem, random.next());
            level.write(buffer.base + spec.offset + at, block.data() + (at - begin), stop - at);
            at = stop;
        }
    }
}

void HostTensors::place_rest(values::MemoryImage& memory, std::optional<uint32_t> buffer) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (buffer && program_.inputs[i].buffer != *buffer) continue;
        if (std::exchange(inputs_[i].rest_missing, false)) place_part(memory, i, false);
    }
}

void HostTensors::place(values::MemoryImage& memory) {
    for (const DataImage& image : program_.data) {
        const BoundBuffer& buffer = program_.buffers[image.buffer];
        values::MemoryLevel& level = memory.level(buffer.level, buffer.engine);
        image.bytes->read_once([&](uint64_t at, std::string_view block) {
            level.write(buffer.base + image.offset + at, block.data(), block.size());
        });
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
        const TensorSpec& spec = program_.inputs[i];
        if (!inputs_[i].set && is_large(spec)) inputs_[i].made_on_place = true;
        if (inputs_[i].made_on_place) {
            place_part(memory, i, true);
            inputs_[i].rest_missing = true;
            continue;
        }
        if (element_count(spec) == 0) continue;
        const BoundRegion region = region_of(program_, spec);
        const auto view = view_of(program_, spec, region);
        const std::string zeros = inputs_[i].set ? std::string() : zeros_of(spec);
        const std::string& dense = inputs_[i].set ? inputs_[i].dense : zeros;
        values::scatter(memory, view, reinterpret_cast<const uint8_t*>(dense.data()));
    }
}

NpyArray read_view(const values::MemoryImage& memory, const values::RegionView& view) {
    NpyArray array;
    array.dtype = npy_dtype(view.region->elem);
    array.shape.assign(view.region->shape.begin(), view.region->shape.end());
    array.data.resize(values::dense_bytes(*view.region));
    values::gather(memory, view, reinterpret_cast<uint8_t*>(array.data.data()));
    return array;
}

void write_view(values::MemoryImage& memory, const values::RegionView& view, const NpyArray& array,
                const std::string& origin) {
    check_npy_type(array, view.region->elem, origin);
    const std::vector<int64_t> shape(view.region->shape.begin(), view.region->shape.end());
    if (array.shape != shape) {
        throw UserError(fmt::format(
            "{}: region `{}` has shape ({}) but the array has shape ({}). Fix: reshape the array.", origin,
            view.region->name, fmt::join(shape, ", "), fmt::join(array.shape, ", ")));
    }
    values::scatter(memory, view, reinterpret_cast<const uint8_t*>(array.data.data()));
}

NpyArray read_tensor(const BoundProgram& program, const TensorSpec& spec, const values::MemoryImage& memory) {
    NpyArray array;
    array.dtype = npy_dtype(spec.elem);
    if (element_count(spec) > 0) {
        const BoundRegion region = region_of(program, spec);
        array = read_view(memory, view_of(program, spec, region));
    }
    array.shape = spec.shape;
    if (spec.converts()) {
        array.dtype = host_dtype(spec);
        array.data = to_host(spec, array.data);
    }
    return array;
}

Diagnostics numbers_not_finite(const BoundProgram& program, const values::MemoryImage& memory) {
    Diagnostics found;
    for (const TensorSpec& spec : program.outputs) {
        if (!is_float(spec.elem)) continue;
        const uint64_t count = not_finite(spec, read_tensor(program, spec, memory).data);
        if (count == 0) continue;
        found.info({},
                   fmt::format("output `{}`: {} of {} numbers are NaN or infinite, those of the inputs are "
                               "not. Fix: if that is not meant, compute in a type of a wider range; f16 ends "
                               "at 65504.",
                               spec.name, count, element_count(spec)));
    }
    return found;
}

Diagnostics integers_cut(const BoundProgram& program, const values::MemoryImage& memory) {
    Diagnostics found;
    for (const TensorSpec& spec : program.outputs) {
        if (spec.host != proto::HOST_I64 && spec.host != proto::HOST_U64) continue;
        if (element_count(spec) == 0) continue;
        const BoundRegion region = region_of(program, spec);
        const std::string dense = read_view(memory, view_of(program, spec, region)).data;
        const uint64_t count = at_the_ends(spec, dense);
        if (count == 0) continue;
        found.warning(
            {}, fmt::format("output `{}`: {} of {} integers are the least or the greatest of 32 bits, to "
                            "which the device cuts what lies beyond. Fix: if they should be larger, "
                            "give smaller inputs.",
                            spec.name, count, element_count(spec)));
    }
    return found;
}

}  // namespace kpu::runtime
