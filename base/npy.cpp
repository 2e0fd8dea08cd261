#include "base/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"
#include "base/text_output.hpp"

namespace kpu {

namespace {

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr size_t max_npy_rank = 32;

struct Dtype {
    std::string_view name;
    uint64_t bytes;
};
constexpr std::array<Dtype, 12> dtypes{{{"|b1", 1},
                                        {"|i1", 1},
                                        {"|u1", 1},
                                        {"<i2", 2},
                                        {"<u2", 2},
                                        {"<f2", 2},
                                        {"<i4", 4},
                                        {"<u4", 4},
                                        {"<f4", 4},
                                        {"<i8", 8},
                                        {"<u8", 8},
                                        {"<f8", 8}}};

uint64_t item_bytes(std::string_view dtype) {
    for (const Dtype& row : dtypes) {
        if (row.name == dtype) return row.bytes;
    }
    return 0;
}

/// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
  public:
    HeaderParser(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

    struct Header {
        std::optional<std::string> descr;
        std::optional<bool> fortran_order;
        std::optional<std::vector<int64_t>> shape;
    };

    Header parse() {
        Header header;
        expect('{');
        while (!accept('}')) {
            const std::string key = quoted();
            expect(':');
            if (key == "descr" && !header.descr) {
                if (peek() == '[') fail("structured arrays are not supported. Fix: save a plain array");
                header.descr = quoted();
            } else if (key == "fortran_order" && !header.fortran_order) {
                header.fortran_order = boolean();
            } else if (key == "shape" && !header.shape) {
                header.shape = tuple();
            } else {
                fail(fmt::format("unexpected key `{}` in the header", key));
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        if (peek() != '\0') fail("text after the header");
        return header;
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw UserError(fmt::format("{}: not a valid .npy file: {}.", origin_, what));
    }
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char c) {
        if (peek() != c || at_ >= text_.size()) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!accept(c)) fail(fmt::format("`{}` expected at byte {} of the header", c, at_));
    }
    std::string quoted() {
        const char quote = peek();
        if (quote != '\'' && quote != '"')
            fail(fmt::format("a string expected at byte {} of the header", at_));
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) fail("a string without end in the header");
        std::string value(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return value;
    }
    bool boolean() {
        peek();
        for (const bool value : {false, true}) {
            const std::string_view word = value ? "True" : "False";
            if (text_.substr(at_, word.size()) == word) {
                at_ += word.size();
                return value;
            }
        }
        fail("`fortran_order` is neither True nor False");
    }
    std::vector<int64_t> tuple() {
        std::vector<int64_t> values;
        expect('(');
        while (!accept(')')) {
            peek();
            int64_t value = 0;
            const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
            if (error != std::errc() || value < 0) fail("the shape holds something else than sizes");
            at_ = static_cast<size_t>(end - text_.data());
            values.push_back(value);
            if (values.size() > max_npy_rank) fail(fmt::format("more than {} dimensions", max_npy_rank));
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return values;
    }

    std::string_view text_;
    const std::string& origin_;
    size_t at_ = 0;
};

/// Returns the one spelling of a dtype: single bytes have no order, "=" is the order of this machine.
std::string canonical_dtype(std::string descr, const std::string& origin) {
    if (descr.size() == 3 && descr[2] == '1' &&
        std::string_view("<>=|").find(descr[0]) != std::string_view::npos) {
        descr[0] = '|';
    } else if (descr.size() == 3 && descr[0] == '=') {
        descr[0] = '<';
    }
    if (item_bytes(descr) != 0) return descr;
    if (descr == "|O" || descr == "O") {
        throw UserError(fmt::format(
            "{}: dtype `{}` holds Python objects, which are never unpickled. Fix: save a plain array.",
            origin, descr));
    }
    if (descr.size() == 3 && descr[0] == '>') {
        throw UserError(fmt::format("{}: big-endian dtype `{}`. Fix: a.astype(a.dtype.newbyteorder('<')).",
                                    origin, descr));
    }
    throw UserError(
        fmt::format("{}: dtype `{}` is not supported. Fix: use an integer or float dtype such as <f4, |i1.",
                    origin, descr));
}

/// Returns the element count, or nothing when its bytes overflow what a file can hold.
std::optional<uint64_t> checked_elements(const std::vector<int64_t>& shape, uint64_t item) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    const uint64_t most = static_cast<uint64_t>(INT64_MAX) / std::max<uint64_t>(1, item);
    uint64_t elements = 1;
    for (const int64_t size : shape) {
        if (static_cast<uint64_t>(size) > most / elements) return std::nullopt;
        elements *= static_cast<uint64_t>(size);
    }
    return elements;
}

}  // namespace

std::string_view npy_dtype(ElemType type) {
    switch (type) {
        case ElemType::i4:
        case ElemType::i8:
            return "|i1";
        case ElemType::u8:
        case ElemType::posit8:
        case ElemType::posit8_es1:
        case ElemType::posit8_es2:
        case ElemType::f8e4m3:
        case ElemType::f8e5m2:
        case ElemType::f6e2m3:
        case ElemType::f6e3m2:
        case ElemType::f4e2m1:
            return "|u1";
        case ElemType::i16:
            return "<i2";
        case ElemType::u16:
        case ElemType::bf16:
        case ElemType::posit16:
        case ElemType::posit16_es0:
        case ElemType::posit16_es2:
            return "<u2";
        case ElemType::i32:
            return "<i4";
        case ElemType::u32:
            return "<u4";
        case ElemType::f16:
            return "<f2";
        case ElemType::f32:
            return "<f4";
        case ElemType::none:
            break;
    }
    throw InternalError("no dtype for an untyped tensor");
}

uint64_t NpyArray::elements() const {
    uint64_t count = 1;
    for (const int64_t size : shape) count *= static_cast<uint64_t>(size);
    return count;
}

namespace {

/// The start of a file: an array without its data, and where the data follow.
struct Preamble {
    NpyArray array;
    uint64_t data_at = 0, data_bytes = 0;
    /// Refuses a file of `bytes` in all.
    void check_size(uint64_t bytes, const std::string& origin) const {
        if (bytes == data_at + data_bytes) return;
        const bool cut = bytes < data_at + data_bytes;
        throw UserError(fmt::format(
            "{}: {}: shape and dtype ask for {} bytes of data but {} follow the "
            "header. Fix: {}.",
            origin, cut ? "the .npy file is truncated" : "not a valid .npy file", data_bytes, bytes - data_at,
            cut ? "copy or save it again" : "write it with numpy.save, one array a file"));
    }
};

Preamble parse_preamble(std::string_view bytes, const std::string& origin) {
    const auto fail = [&origin](const std::string& what) {
        throw UserError(fmt::format("{}: not a valid .npy file: {}.", origin, what));
    };
    const char* const truncated = "the header is truncated. Fix: copy or save it again";
    if (bytes.substr(0, magic.size()) != magic)
        fail("it does not start with the NumPy magic. Fix: write it with numpy.save");
    if (bytes.size() < 8) fail(truncated);
    const auto byte = [&bytes](size_t i) {
        return static_cast<uint64_t>(static_cast<unsigned char>(bytes[i]));
    };
    const uint64_t major = byte(6);
    if (major < 1 || major > 3 || byte(7) != 0)
        fail(fmt::format("format version {}.{} is unknown. Fix: write it with numpy.save", major, byte(7)));
    const size_t length_bytes = major == 1 ? 2 : 4;
    const size_t header_at = 8 + length_bytes;
    if (bytes.size() < header_at) fail(truncated);
    uint64_t header_size = 0;
    for (size_t i = 0; i < length_bytes; ++i) header_size |= byte(8 + i) << (8 * i);
    if (header_size > bytes.size() - header_at) fail(truncated);

    const auto header = HeaderParser(bytes.substr(header_at, header_size), origin).parse();
    if (!header.descr || !header.fortran_order || !header.shape) {
        fail("the header lacks `descr`, `fortran_order` or `shape`. Fix: write it with numpy.save");
    }
    if (*header.fortran_order) {
        throw UserError(
            fmt::format("{}: the array is in Fortran order. Fix: save numpy.ascontiguousarray(a).", origin));
    }
    Preamble preamble{
        {canonical_dtype(*header.descr, origin), *header.shape, {}}, header_at + header_size, 0};
    const uint64_t item = item_bytes(preamble.array.dtype);
    const auto elements = checked_elements(preamble.array.shape, item);
    if (!elements) fail("the shape overflows");
    preamble.data_bytes = *elements * item;
    return preamble;
}

}  // namespace

NpyArray parse_npy(std::string_view bytes, const std::string& origin) {
    Preamble preamble = parse_preamble(bytes, origin);
    preamble.check_size(bytes.size(), origin);
    preamble.array.data = bytes.substr(preamble.data_at);
    return std::move(preamble.array);
}

std::string read_npy_bytes(const std::string& path, const std::function<void(const NpyArray&)>& accept) {
    constexpr size_t most_header = 1 << 16;
    InputFile file(path);
    std::string bytes;
    file.read(most_header, bytes);
    const Preamble preamble = parse_preamble(bytes, path);
    accept(preamble.array);
    if (const auto size = file.size()) preamble.check_size(*size, path);
    const uint64_t total = preamble.data_at + preamble.data_bytes;
    if (bytes.size() <= total) file.read(total + 1 - bytes.size(), bytes);  // one more: nothing may follow
    preamble.check_size(bytes.size(), path);
    return bytes;
}

NpyArray read_npy(const std::string& path) {
    return parse_npy(read_npy_bytes(path, [](const NpyArray&) {}), path);
}

namespace {

/// Returns "<i2" is int16 to NumPy's users.
std::string numpy_name(std::string_view dtype) {
    if (dtype.size() < 3) return std::string(dtype);
    const std::string bits = std::to_string((dtype[2] - '0') * 8);
    switch (dtype[1]) {
        case 'i':
            return "int" + bits;
        case 'u':
            return "uint" + bits;
        case 'f':
            return "float" + bits;
        default:
            return "bool";
    }
}

}  // namespace

void check_npy_dtype(const NpyArray& array, std::string_view dtype, std::string_view type,
                     const std::string& origin) {
    if (array.dtype == dtype) return;
    throw UserError(
        fmt::format("{}: the array is {} but {} is needed for element type {}. Fix: save it as {}.", origin,
                    numpy_name(array.dtype), numpy_name(dtype), type, numpy_name(dtype)));
}

void check_npy_type(const NpyArray& array, ElemType type, const std::string& origin) {
    check_npy_dtype(array, npy_dtype(type), name_of(type), origin);
    const int bits = type == ElemType::f4e2m1                               ? 4
                     : type == ElemType::f6e2m3 || type == ElemType::f6e3m2 ? 6
                                                                            : 8;
    for (size_t i = 0; bits < 8 && i < array.data.size(); ++i) {
        const auto pattern = static_cast<uint8_t>(array.data[i]);
        if (pattern >> bits == 0) continue;
        throw UserError(
            fmt::format("{}: element {} is {} but {} has {} bits. Fix: save bit patterns below {}.", origin,
                        i, pattern, name_of(type), bits, 1 << bits));
    }
    if (type != ElemType::i4) return;
    for (size_t i = 0; i < array.data.size(); ++i) {
        const auto value = static_cast<int8_t>(array.data[i]);
        if (value < -8 || value > 7) {
            throw UserError(fmt::format("{}: element {} is {} but i4 holds -8..7. Fix: clip the values.",
                                        origin, i, value));
        }
    }
}

namespace {

std::string format_dtype(std::string_view dtype, const std::vector<int64_t>& shape, std::string_view data) {
    const auto elements = checked_elements(shape, item_bytes(dtype));
    if (!elements || *elements * item_bytes(dtype) != data.size() || shape.size() > max_npy_rank) {
        throw InternalError(fmt::format("{} bytes do not fit the shape of a .npy array", data.size()));
    }
    std::string sizes;
    for (const int64_t size : shape) sizes += fmt::format(sizes.empty() ? "{}" : ", {}", size);
    if (shape.size() == 1) sizes += ',';
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", dtype, sizes);
    // NumPy aligns the data to 64 bytes, with spaces and a final line break
    constexpr size_t prefix = 10, alignment = 64;
    header.append(alignment - 1 - (prefix + header.size()) % alignment, ' ');
    header += '\n';
    std::string out(magic);
    out += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
    out += header;
    out += data;
    return out;
}

}  // namespace

std::string format_npy(ElemType type, const std::vector<int64_t>& shape, std::string_view data) {
    return format_dtype(npy_dtype(type), shape, data);
}

std::string format_npy(const NpyArray& array) { return format_dtype(array.dtype, array.shape, array.data); }

void write_npy(const std::string& path, ElemType type, const std::vector<int64_t>& shape,
               std::string_view data) {
    write_file(path, format_npy(type, shape, data));
}

void write_npy(const std::string& path, std::string_view dtype, const std::vector<int64_t>& shape,
               std::string_view data) {
    write_file(path, format_dtype(dtype, shape, data));
}

}  // namespace kpu
