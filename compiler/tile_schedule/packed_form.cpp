// Form (b): the structures of the original runtime, back to back.
#include <fmt/format.h>

#include "compiler/tile_schedule/form_parts.hpp"

namespace kpu::tile_schedule {
namespace {

constexpr size_t header_bytes = 4;
enum Type : uint8_t { type_load = 0, type_execute = 1, type_store = 2 };
constexpr size_t body_bytes[] = {24, 28, 24};

class PackedReader {
  public:
    PackedReader(std::string_view bytes, Schedule& schedule) : bytes_(bytes), schedule_(schedule) {}

    void read() {
        while (at_ < bytes_.size()) {
            const uint8_t type = read_op_header();
            if (body_bytes[type] > bytes_.size() - at_)
                fail(fmt::format("the file ends in the middle of the op, {} bytes are missing",
                                 body_bytes[type] - (bytes_.size() - at_)));
            if (type == type_load) {
                Load op;
                for (uint32_t* field : {&op.tensor_id, &op.tile_row, &op.tile_col, &op.dst_addr, &op.bytes})
                    *field = u32();
                op.buffer = buffer();
                schedule_.ops.emplace_back(op);
            } else if (type == type_execute) {
                Execute op;
                for (uint32_t* field : {&op.m, &op.n, &op.k, &op.a_addr, &op.b_addr, &op.acc_addr})
                    *field = u32();
                op.buffer = buffer();
                schedule_.ops.emplace_back(op);
            } else {
                read_store();
            }
        }
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw UserError(fmt::format("{}: op {}, at byte {}: {}. Fix: write the schedule again.",
                                    schedule_.origin, schedule_.ops.size(), at_, what));
    }

    uint8_t u8() { return static_cast<uint8_t>(bytes_[at_++]); }
    uint32_t u32() {
        uint32_t value = 0;
        for (int shift = 0; shift < 32; shift += 8) value |= uint32_t{u8()} << shift;
        return value;
    }
    int32_t buffer() {
        const auto value = static_cast<int32_t>(u32());
        if (value < -1) fail(fmt::format("its buffer is {}, and there are -1 none, 0 and up", value));
        return value;
    }
    void zeros() {
        for (int i = 0; i < 3; ++i) {
            if (u8() != 0) fail("its padding is not zero");
        }
    }

    uint8_t read_op_header() {
        if (bytes_.size() - at_ < header_bytes) fail("the file ends in the middle of the op's header");
        const uint8_t type = u8();
        if (type > type_store)
            fail(fmt::format("its type is {}, and there are 0 LOAD, 1 EXECUTE, 2 STORE", type));
        zeros();
        return type;
    }

    void read_store() {
        Store op;
        for (uint32_t* field : {&op.tensor_id, &op.tile_row, &op.tile_col, &op.src_addr, &op.bytes})
            *field = u32();
        const uint8_t activation = u8();
        if (activation > 1)
            fail(fmt::format("its activation is {}, and there are 0 none, 1 relu", activation));
        op.activation = static_cast<Activation>(activation);
        zeros();
        schedule_.ops.emplace_back(op);
    }

    std::string_view bytes_;
    Schedule& schedule_;
    size_t at_ = 0;
};

class Writer {
  public:
    explicit Writer(const std::string& origin) : origin_(origin) {}

    std::string write(const Schedule& schedule) {
        for (const Op& op : schedule.ops) {
            if (const auto* load = std::get_if<Load>(&op)) {
                size(load->bytes);
                word(type_load);
                for (const uint32_t field :
                     {load->tensor_id, load->tile_row, load->tile_col, load->dst_addr, load->bytes})
                    word(field);
                word(static_cast<uint32_t>(load->buffer));
            } else if (const auto* execute = std::get_if<Execute>(&op)) {
                word(type_execute);
                for (const uint32_t field : {execute->m, execute->n, execute->k, execute->a_addr,
                                             execute->b_addr, execute->acc_addr})
                    word(field);
                word(static_cast<uint32_t>(execute->buffer));
            } else {
                const auto& store = std::get<Store>(op);
                if (store.buffer != -1)
                    throw UserError(
                        fmt::format("{}: op {} is a STORE with buffer {}, which the packed form has no "
                                    "place for. Fix: write another form.",
                                    schedule.origin, index_, store.buffer));
                size(store.bytes);
                word(type_store);
                for (const uint32_t field : {store.tensor_id, store.tile_row, store.tile_col, store.src_addr,
                                             store.bytes, static_cast<uint32_t>(store.activation)})
                    word(field);
            }
            ++index_;
        }
        return std::move(bytes_);
    }

  private:
    void size(uint32_t bytes) const {
        if (bytes == 0)
            throw UserError(fmt::format(
                "{}: the bytes of op {} are not known. Fix: give the schedule its header.", origin_, index_));
    }
    void word(uint32_t value) {
        for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(value >> shift);
    }
    const std::string& origin_;
    size_t index_ = 0;
    std::string bytes_;
};

}  // namespace

bool is_packed(std::string_view bytes) {
    return bytes.size() >= header_bytes && static_cast<uint8_t>(bytes[0]) <= type_store &&
           bytes.substr(1, 3) == std::string_view("\0\0\0", 3);
}

void read_packed(std::string_view bytes, Schedule& schedule) { PackedReader(bytes, schedule).read(); }

std::string write_packed(const Schedule& schedule) { return Writer(schedule.origin).write(schedule); }

}  // namespace kpu::tile_schedule
