// Tensors of ONNX files: raw bytes, typed fields, external data.
#include "compiler/onnx/model/tensors.hpp"

#include <algorithm>
#include <boost/iostreams/device/mapped_file.hpp>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/checked.hpp"
#include "base/host_memory.hpp"
#include "compiler/onnx/model/stand_in.hpp"
#include "compiler/onnx/operand.hpp"

namespace kpu::onnx {
namespace {

namespace fs = std::filesystem;
using ::onnx::TensorProto;

constexpr int64_t most_elements = int64_t{1} << 40;

int64_t count_elements(const Parsed& parsed, const TensorProto& proto) {
    int64_t elements = 1;
    for (const int64_t size : proto.dims()) {
        if (size < 0)
            parsed.refuse("tensor `{}` has a dimension of {}. Fix: export the model again.", proto.name(),
                          size);
        const auto product = checked_mul(elements, size);
        if (!product || *product > most_elements) {
            parsed.refuse("tensor `{}` claims more than {} elements. Fix: export the model again.",
                          proto.name(), most_elements);
        }
        elements = *product;
    }
    return elements;
}

/// Returns the bytes of the elements as files have them.
uint64_t stored_bytes(Type type, uint64_t elements) {
    const auto bits = static_cast<uint64_t>(packed_bits(type));
    return bits > 0 ? (elements * bits + 7) / 8 : elements * element_bytes(type);
}

template <class To, class Field>
std::vector<uint8_t> converted(const Field& field) {
    std::vector<uint8_t> bytes(static_cast<size_t>(field.size()) * sizeof(To));
    size_t at = 0;
    for (const auto value : field) {
        const To narrow = static_cast<To>(value);
        std::memcpy(bytes.data() + at, &narrow, sizeof narrow);
        at += sizeof narrow;
    }
    return bytes;
}

/// Returns the typed field that a type uses, as the bytes that raw_data would have.
std::vector<uint8_t> field_bytes(const TensorProto& proto, Type type) {
    switch (type) {
        case Type::f32:
            return converted<float>(proto.float_data());
        case Type::f64:
            return converted<double>(proto.double_data());
        case Type::i64:
            return converted<int64_t>(proto.int64_data());
        case Type::u64:
            return converted<uint64_t>(proto.uint64_data());
        case Type::u32:
            return converted<uint32_t>(proto.uint64_data());
        default:
            break;
    }
    switch (element_bytes(type)) {
        case 4:
            return converted<int32_t>(proto.int32_data());
        case 2:
            return converted<uint16_t>(proto.int32_data());
        default:
            return converted<uint8_t>(proto.int32_data());
    }
}

graph::Data unpacked(const graph::Data& packed, Type type, uint64_t elements) {
    std::vector<uint8_t> bytes(elements);
    const auto bits = static_cast<uint64_t>(packed_bits(type));
    const Type of_bits = type == Type::f4e2m1 ? Type::u4 : type;
    for (uint64_t i = 0; i < elements; ++i)
        bytes[i] = static_cast<uint8_t>(wrapped(of_bits, packed.bytes[i * bits / 8] >> (i * bits % 8)));
    return graph::make_data(std::move(bytes));
}

// ---- external data

struct Place {
    std::string location;
    uint64_t offset = 0;
    uint64_t length = UINT64_MAX;  ///< not told
};

Place place_of(const Parsed& parsed, const TensorProto& proto) {
    Place place;
    for (const auto& entry : proto.external_data()) {
        const std::string& text = entry.value();
        if (entry.key() == "location") place.location = text;
        if (entry.key() != "offset" && entry.key() != "length") continue;
        uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || end != text.data() + text.size())
            parsed.refuse("tensor `{}`: {} `{}` is not a number. Fix: export the model again.", proto.name(),
                          entry.key(), text);
        (entry.key() == "offset" ? place.offset : place.length) = number;
    }
    return place;
}

/// Returns the file, which lies below the folder of the model: neither its name nor a link leads out.
fs::path inner_path(const Parsed& parsed, const TensorProto& proto, const std::string& location) {
    const fs::path relative(location);
    bool inside = relative.is_relative() && !relative.empty() && !parsed.folder.empty();
    for (const fs::path& part : relative) inside = inside && part != "..";
    std::error_code failed;
    const fs::path folder = fs::canonical(parsed.folder.empty() ? "." : parsed.folder, failed);
    const fs::path wanted = fs::path(parsed.folder) / relative;
    const fs::path file = fs::canonical(wanted, failed);
    inside = inside && !failed &&
             std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
    if (!inside) {
        parsed.refuse(
            "tensor `{}`: its external data `{}` is not below the model's folder. Fix: put the file there, "
            "and "
            "name it by a relative path without `..`.",
            proto.name(), location);
    }
    if (!fs::is_regular_file(file, failed))
        parsed.refuse("tensor `{}`: its external data `{}` is not a regular file. Fix: name a file.",
                      proto.name(), location);
    return file;
}

const graph::Data& mapped(Parsed& parsed, const TensorProto& proto, const std::string& location) {
    if (const auto given = parsed.given.find(location); given != parsed.given.end()) return given->second;
    const std::string path = inner_path(parsed, proto, location).string();
    graph::Data& file = parsed.files[path];
    if (file) return file;
    std::error_code failed;
    if (fs::file_size(path, failed) == 0 || failed) return file = graph::make_data({});
    try {
        auto mapping = std::make_shared<boost::iostreams::mapped_file_source>(path);
        file.bytes = reinterpret_cast<const uint8_t*>(mapping->data());
        file.size = mapping->size();
        file.owner = std::move(mapping);
    } catch (const std::exception&) {  // its text says less than errno
        parsed.refuse("{} cannot be read ({}). Fix: name a file that can be.", path, std::strerror(errno));
    }
    return file;
}

/// True if nothing is there, where a file might be.
bool is_missing(const Parsed& parsed, const std::string& location) {
    const fs::path relative(location);
    if (parsed.given.count(location) > 0 || relative.is_absolute() || relative.empty()) return false;
    if (std::find(relative.begin(), relative.end(), "..") != relative.end()) return false;
    std::error_code failed;
    return parsed.folder.empty() || !fs::exists(fs::path(parsed.folder) / relative, failed);
}

graph::Data external(Parsed& parsed, const TensorProto& proto, const Place& place, uint64_t bytes) {
    const graph::Data& file = mapped(parsed, proto, place.location);
    const uint64_t length = place.length == UINT64_MAX ? bytes : place.length;
    if (place.offset > file.size || length > file.size - place.offset) {
        parsed.refuse(
            "tensor `{}`: its external data ends at byte {} of `{}`, which has {}. Fix: copy the file again.",
            proto.name(), static_cast<double>(place.offset) + static_cast<double>(length), place.location,
            file.size);
    }
    if (length != bytes)
        parsed.refuse("tensor `{}` needs {} bytes, its external data has {}. Fix: export the model again.",
                      proto.name(), bytes, length);
    return {file.owner, file.bytes + place.offset, bytes};
}

/// Returns the bytes as the file has them; none: `tensor` gets the reason.
graph::Data stored(Parsed& parsed, const TensorProto& proto, uint64_t bytes, Tensor& tensor) {
    if (proto.data_location() == TensorProto::EXTERNAL) {
        const Place place = place_of(parsed, proto);
        if (!is_missing(parsed, place.location)) return external(parsed, proto, place, bytes);
        tensor.absent = fmt::format("its external data `{}` is not there", place.location);
        return {};
    }
    graph::Data data;
    if (proto.has_raw_data()) {
        data = {parsed.message, reinterpret_cast<const uint8_t*>(proto.raw_data().data()),
                proto.raw_data().size()};
    } else {
        data = graph::make_data(field_bytes(proto, tensor.type));
    }
    if (data.size == 0 && bytes > 0) tensor.absent = "the file has none of its bytes";
    return data;
}

void check_room(const Parsed& parsed, const Tensor& tensor, uint64_t bytes) {
    const uint64_t room = available_bytes();
    if (room > 0 && bytes > room / 2)
        parsed.refuse("tensor `{}` {}{} has {} bytes, and {}. Fix: check the model.", tensor.name,
                      name_of(tensor.type), text_of(tensor.shape), bytes, tensor.absent);
}

}  // namespace

std::shared_ptr<const Tensor> read_tensor(Parsed& parsed, const TensorProto& proto) {
    auto tensor = std::make_shared<Tensor>();
    tensor->name = proto.name();
    tensor->type = proto.data_type() >= 0 && proto.data_type() < 255 ? static_cast<Type>(proto.data_type())
                                                                     : Type::undefined;
    tensor->shape.assign(proto.dims().begin(), proto.dims().end());
    if (proto.has_segment())
        parsed.refuse("tensor `{}` is a segment of a tensor. Fix: export it whole.", proto.name());
    const auto elements = static_cast<uint64_t>(count_elements(parsed, proto));
    if (element_bytes(tensor->type) == 0) return tensor;  // refused where it is used, by name
    const uint64_t bytes = stored_bytes(tensor->type, elements);
    graph::Data data = stored(parsed, proto, bytes, *tensor);
    const bool absent = !tensor->absent.empty();
    if (absent) {
        check_room(parsed, *tensor, bytes);
        data = stand_in(tensor->type, tensor->shape, ++parsed.stand_ins);
    } else if (data.size != bytes) {
        parsed.refuse("tensor `{}` {}{} needs {} bytes, the file has {}. Fix: export the model again.",
                      proto.name(), name_of(tensor->type), text_of(tensor->shape), bytes, data.size);
    }
    if (packed_bits(tensor->type) > 0) {
        if (!absent) data = unpacked(data, tensor->type, elements);
        tensor->nibbles = tensor->type == Type::u4;
        if (tensor->nibbles) tensor->type = Type::u8;
    } else if (reinterpret_cast<uintptr_t>(data.bytes) % element_bytes(tensor->type) != 0) {
        data = graph::make_data({data.bytes, data.bytes + data.size});  // engines read whole elements
    }
    tensor->data = std::move(data);
    return tensor;
}

}  // namespace kpu::onnx
