#include "compiler/pallas/kernel_writer.hpp"

namespace kpu::compiler::pallas {

std::string KernelWriter::fresh(const std::string& name) {
    const int count = taken_[name]++;
    return count == 0 ? name : fresh(fmt::format("{}_{}", name, count));
}

void KernelWriter::write_source() {
    // the same text most often, or another of the export's
    if (source_.data() == written_source_.data() && source_.size() == written_source_.size()) return;
    if (source_ == written_source_) return;
    written_source_ = source_;
    std::string plain(source_);  // a kernel's text has no other characters
    for (char& c : plain)
        if (c < ' ' || c > '~' || c == '"') c = '?';
    body_.append("    line(\"").append(plain).append("\")\n");
}

std::string KernelWriter::buffer(const std::string& name, const char* access, Type type, int64_t count) {
    const std::string given = fresh(name);
    buffers_.push_back(fmt::format("{}: {} {}[{}]", given, access, kernel::name_of(type), count));
    return given;
}

void KernelWriter::let(std::string_view name, std::string_view value) {
    write_source();
    body_.append("    let ").append(name).append(" = ").append(value).append("\n");
}

std::string KernelWriter::let(std::string_view value) {
    const int count = temporaries_++;
    std::string name = count == 0 ? "t" : "t_" + std::to_string(count);
    let(name, value);
    return name;
}

std::string KernelWriter::variable(int number) {
    const auto at = static_cast<size_t>(number);
    if (at >= named_.size()) named_.resize(at + 1);
    std::string name = "v" + std::to_string(number);
    if (!named_[at]) {
        named_[at] = true;
        return name;
    }
    return fresh(name + "_");
}

std::string KernelWriter::take_text(const std::string& kernel) {
    body_.append("endkernel\n");
    body_.insert(0,
                 fmt::format("kernel {} rules(xla) workgroup(1) ({}):\n", kernel, fmt::join(buffers_, ", ")));
    return std::move(body_);
}

std::string join(const Shape& numbers) { return fmt::format("{}", fmt::join(numbers, ", ")); }
Shape strung(std::initializer_list<Shape> lists) {
    Shape all;
    for (const Shape& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
}

std::string braces(const Shape& numbers) { return numbers.empty() ? "" : "{" + join(numbers) + "}"; }

Type stored(Type type) {
    if (kernel::contains(kernel::tile_buffers, type)) return type;
    return kernel::contains(kernel::tile_signed, type) ? Type::i8 : Type::u8;
}

namespace {

std::string as_type(Type type, const std::string& value, bool keeps_bits) {
    return fmt::format(
        "{}({})", keeps_bits ? fmt::format("bitcast{{{}}}", kernel::name_of(type)) : kernel::name_of(type),
        value);
}

}  // namespace

std::string loaded(Type type, const std::string& value) {
    return stored(type) == type ? value : as_type(type, value, kernel::is_eighth(type));
}
std::string to_store(Type type, const std::string& value) {
    return stored(type) == type ? value : as_type(stored(type), value, kernel::is_eighth(type));
}

std::string literal(Type type, uint64_t bits) {
    switch (type) {
        case Type::boolean:
            return bits != 0 ? "true" : "false";
        case Type::f32:
            return fmt::format("bits(0x{:08x})", bits);
        case Type::u32:
            return fmt::format("{}", bits);
        case Type::i32: {
            const auto value = static_cast<int32_t>(static_cast<uint32_t>(bits));
            return value < 0 ? fmt::format("({}i32)", value) : fmt::format("{}i32", value);
        }
        case Type::f16:
        case Type::bf16:
            return fmt::format("bitcast{{{}}}(u16({}))", kernel::name_of(type), bits);
        default:
            return loaded(type, fmt::format("{}({})", kernel::name_of(stored(type)), bits));
    }
}

std::string Sum::text() const {
    if (expression.empty()) return index_text(number);
    return number == 0 ? expression : fmt::format("({} + {})", expression, index_text(number));
}

Sum Sum::plus(const Sum& other, int64_t times) const {
    Sum sum{expression, number + other.number * times};
    if (other.expression.empty()) return sum;
    const std::string more =
        times == 1 ? other.expression : fmt::format("{} * {}", other.expression, index_text(times));
    sum.expression = expression.empty() ? (times == 1 ? more : "(" + more + ")")
                                        : fmt::format("({} + {})", expression, more);
    return sum;
}

Shape RefView::shape() const {
    Shape result;
    for (const Dim& dim : dims)
        if (!dim.dropped) result.push_back(dim.size);
    return result;
}

Shape RefView::window_shape() const {
    Shape result;
    if (!place->slot.empty()) result.push_back(1);
    for (const Dim& dim : dims) result.push_back(dim.size);
    return result;
}

bool RefView::reshape(const Shape& to) {
    size_t kept = 0, same = 0;  // the first dimensions may stay as they are
    for (; kept < dims.size(); ++kept) {
        if (dims[kept].dropped) continue;
        if (same == to.size() || dims[kept].size != to[same]) break;
        ++same;
    }
    const auto rest = dims.begin() + static_cast<std::ptrdiff_t>(kept);
    const auto untouched = [](const Dim& dim) { return !dim.dropped && dim.is_whole(); };
    if (!std::all_of(rest, dims.end(), untouched)) return false;
    Shape before;
    for (auto dim = rest; dim != dims.end(); ++dim) before.push_back(dim->size);
    const Shape after(to.begin() + static_cast<std::ptrdiff_t>(same), to.end());
    if (kernel::elements_of(before) != kernel::elements_of(after)) return false;
    dims.erase(rest, dims.end());
    for (; same < to.size(); ++same) dims.push_back({{}, to[same], 1, false, to[same]});
    return true;
}

std::string RefView::window() const {
    Shape shape, sizes, strides;
    std::vector<std::string> starts;
    bool whole = place->slot.empty();
    if (!place->slot.empty()) {
        shape.push_back(place->slots);
        sizes.push_back(1);
        strides.push_back(1);
        starts.push_back(place->slot);
    }
    for (size_t i = 0; i < dims.size(); ++i) {
        shape.push_back(dims[i].extent);
        sizes.push_back(dims[i].size);
        strides.push_back(dims[i].stride);
        starts.push_back(dims[i].start.text());
        whole = whole && dims[i].is_whole();
    }
    if (whole) return fmt::format("window{{{}}}()", join(shape));
    return fmt::format("window{{{}, {}, {}}}({})", join(shape), join(sizes), join(strides),
                       fmt::join(starts, ", "));
}

}  // namespace kpu::compiler::pallas
