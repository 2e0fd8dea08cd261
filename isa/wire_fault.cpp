#include "isa/wire_fault.hpp"

#include <fmt/format.h>
#include <google/protobuf/wire_format_lite.h>

#include "base/utf8.hpp"

namespace kpu {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Wire = google::protobuf::internal::WireFormatLite;

constexpr int deepest_wire = 100;  ///< limit of protobuf's own reader

/// A message that is being read, and the ones around it.
struct Frame {
    const Frame* outer;
    const Descriptor* type;
    const FieldDescriptor* field;  ///< field of `outer` that it is; null: the whole
    int index;                     ///< its index among the field's elements

    std::string path() const {
        if (outer == nullptr) return type->name();
        const std::string before = outer->path() + "." + field->name();
        return field->is_repeated() ? fmt::format("{}[{}]", before, index) : before;
    }
};

class WireWalk {
  public:
    explicit WireWalk(std::string_view bytes) : bytes_(bytes) {}

    /// Throws WireFault.
    void visit(uint64_t begin, uint64_t end, const Frame& frame, int depth) {
        frame_ = &frame;
        if (depth > deepest_wire)
            fail(begin, fmt::format("messages are nested deeper than {}", deepest_wire));
        const FieldDescriptor* counted = nullptr;
        int index = 0;
        for (at_ = begin; at_ < end;) {
            const uint64_t start = at_;
            const uint64_t tag = varint(start, end, 5);
            if (tag > UINT32_MAX || tag >> 3 == 0) fail(start, "no field begins like this");
            const auto number = static_cast<int>(tag >> 3);
            const auto wire = static_cast<Wire::WireType>(tag & 7);
            const FieldDescriptor* field = frame.type->FindFieldByNumber(number);
            if (field == nullptr)
                fail(start, fmt::format("message {} has field {}, which this version does not know",
                                        frame.type->name(), number));
            index = field == counted ? index + 1 : 0;
            counted = field;
            skip(*field, wire, start, end);
            if (field->message_type() == nullptr) continue;
            const uint64_t next = at_;
            visit(body_, next, {&frame, field->message_type(), field, index}, depth + 1);
            at_ = next;
            frame_ = &frame;
        }
    }

  private:
    [[noreturn]] void fail(uint64_t offset, std::string what) const {
        throw WireFault{offset, frame_->path(), std::move(what)};
    }

    uint64_t varint(uint64_t start, uint64_t end, int longest = 10) {
        uint64_t value = 0;
        for (int shift = 0; shift < 7 * longest; shift += 7) {
            if (at_ >= end) fail(start, "truncated in a number");
            const auto byte = static_cast<uint8_t>(bytes_[at_++]);
            value |= shift < 64 ? static_cast<uint64_t>(byte & 0x7f) << shift : 0;
            if (byte < 0x80) return value;
        }
        fail(start, fmt::format("a number has more than {} bytes", longest));
    }

    void skip_fixed(const FieldDescriptor& field, uint64_t size, uint64_t start, uint64_t end) {
        if (size > end - at_)
            fail(start,
                 fmt::format("truncated: field `{}` has {} bytes, {} follow", field.name(), size, end - at_));
        at_ += size;
    }

    /// Moves past the value of a field; of bytes with a length, the first is then at body_.
    void skip(const FieldDescriptor& field, Wire::WireType wire, uint64_t start, uint64_t end) {
        const auto own = Wire::WireTypeForFieldType(static_cast<Wire::FieldType>(field.type()));
        const bool packed = wire == Wire::WIRETYPE_LENGTH_DELIMITED && field.is_packable();
        if (wire != own && !packed)
            fail(start, fmt::format("field `{}` is written as wire type {}, it is of type {}", field.name(),
                                    static_cast<int>(wire), static_cast<int>(own)));
        if (wire == Wire::WIRETYPE_VARINT) {
            varint(start, end);
        } else if (wire == Wire::WIRETYPE_FIXED64 || wire == Wire::WIRETYPE_FIXED32) {
            skip_fixed(field, wire == Wire::WIRETYPE_FIXED64 ? 8 : 4, start, end);
        } else {
            const uint64_t size = varint(start, end, 5);
            body_ = at_;
            skip_fixed(field, size, start, end);
            if (packed) check_packed(field, own, start);
            if (field.type() == FieldDescriptor::TYPE_STRING && !is_valid_utf8(bytes_.substr(body_, size)))
                fail(start, fmt::format("field `{}` is not UTF-8", field.name()));
        }
    }

    void check_packed(const FieldDescriptor& field, Wire::WireType own, uint64_t start) {
        const uint64_t end = at_;
        for (at_ = body_; at_ < end;) {
            if (own == Wire::WIRETYPE_VARINT)
                varint(start, end);
            else
                skip_fixed(field, own == Wire::WIRETYPE_FIXED64 ? 8 : 4, start, end);
        }
    }

    std::string_view bytes_;
    uint64_t at_ = 0, body_ = 0;
    const Frame* frame_ = nullptr;
};

}  // namespace

std::optional<WireFault> find_wire_fault(std::string_view bytes, const Descriptor& type) {
    try {
        WireWalk(bytes).visit(0, bytes.size(), {nullptr, &type, nullptr, 0}, 0);
    } catch (WireFault& fault) {
        return std::move(fault);
    }
    return std::nullopt;
}

}  // namespace kpu
