// Forms (c), protobuf, and (d), JSON: both carry every field by its name.
#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/tile_schedule/form_parts.hpp"
#include "compiler/tile_schedule/tile_schedule.pb.h"
#include "isa/structure.hpp"

namespace kpu::tile_schedule {
namespace {

[[noreturn]] void fail(const Schedule& schedule, const std::string& where, const std::string& why) {
    throw UserError(fmt::format("{}: {}: {}", schedule.origin, where, why));
}

/// A tensor and a header with their words still as words.
struct TensorWords {
    std::string role, elem;
};

void add_tensor(HeaderBuilder& builder, Tensor tensor, const TensorWords& words, const Schedule& schedule) {
    const std::string where = fmt::format("tensor {}", tensor.id);
    const auto role = parse_role(words.role);
    if (!role)
        fail(schedule, where,
             fmt::format("`{}` is not a role. Fix: input, weight, intermediate, output.", words.role));
    const auto elem = parse_elem_type(words.elem);
    if (!elem) fail(schedule, where, fmt::format("`{}` is not an element type.", words.elem));
    tensor.role = *role;
    tensor.elem = *elem;
    if (const std::string why = builder.add(std::move(tensor)); !why.empty()) fail(schedule, where, why);
}

void set_format(HeaderBuilder& builder, Schedule& schedule, uint64_t tile, const std::string& elem,
                const std::string& arena, uint64_t arena_bytes) {
    const auto type = parse_elem_type(elem);
    if (!type)
        fail(schedule, "header",
             fmt::format("`{}` is not an element type. Fix: f32, f16, bf16 or i8.", elem));
    if (const std::string why = builder.set_tile(tile, *type); !why.empty()) fail(schedule, "header", why);
    if (arena != "l1" && arena != "l2")
        fail(schedule, "header", fmt::format("the arena is in `{}`. Fix: l1 or l2.", arena));
    schedule.header.format.arena = arena == "l1" ? Level::l1 : Level::l2;
    schedule.header.format.arena_bytes = arena_bytes;
    schedule.has_header = true;
}

std::string_view arena_name(const Format& format) { return format.arena == Level::l1 ? "l1" : "l2"; }

void check_buffer(const Schedule& schedule, int64_t buffer) {
    if (buffer < -1 || buffer > std::numeric_limits<int32_t>::max())
        fail(schedule, fmt::format("op {}", schedule.ops.size()),
             fmt::format("its buffer is {}. Fix: -1 for none, else 0 or more.", buffer));
}

void check_activation(const Schedule& schedule, uint64_t activation) {
    if (activation > 1)
        fail(schedule, fmt::format("op {}", schedule.ops.size()),
             fmt::format("its activation is {}. Fix: 0 for none, 1 for relu.", activation));
}

// ---- protobuf

template <class Message>
int32_t buffer_of(const Schedule& schedule, const Message& message) {
    if (!message.has_buffer()) return -1;
    check_buffer(schedule, message.buffer());
    return message.buffer();
}

Op op_of(const Schedule& schedule, const proto::TileOp& message) {
    switch (message.kind_case()) {
        case proto::TileOp::kLoad: {
            const auto& m = message.load();
            return Load{m.tensor_id(), m.tile_row(), m.tile_col(),
                        m.dst_addr(),  m.bytes(),    buffer_of(schedule, m)};
        }
        case proto::TileOp::kExecute: {
            const auto& m = message.execute();
            return Execute{m.m(), m.n(), m.k(), m.a_addr(), m.b_addr(), m.acc_addr(), buffer_of(schedule, m)};
        }
        case proto::TileOp::kStore: {
            const auto& m = message.store();
            check_activation(schedule, m.activation());
            return Store{m.tensor_id(),         m.tile_row(), m.tile_col(),
                         m.src_addr(),          m.bytes(),    static_cast<Activation>(m.activation()),
                         buffer_of(schedule, m)};
        }
        case proto::TileOp::KIND_NOT_SET:
            break;
    }
    fail(schedule, fmt::format("op {}", schedule.ops.size()), "it is neither load, execute nor store.");
}

void set_op(const Load& op, proto::TileOp& message) {
    auto& m = *message.mutable_load();
    m.set_tensor_id(op.tensor_id);
    m.set_tile_row(op.tile_row);
    m.set_tile_col(op.tile_col);
    m.set_dst_addr(op.dst_addr);
    m.set_bytes(op.bytes);
    if (op.buffer != -1) m.set_buffer(op.buffer);
}

void set_op(const Execute& op, proto::TileOp& message) {
    auto& m = *message.mutable_execute();
    m.set_m(op.m);
    m.set_n(op.n);
    m.set_k(op.k);
    m.set_a_addr(op.a_addr);
    m.set_b_addr(op.b_addr);
    m.set_acc_addr(op.acc_addr);
    if (op.buffer != -1) m.set_buffer(op.buffer);
}

void set_op(const Store& op, proto::TileOp& message) {
    auto& m = *message.mutable_store();
    m.set_tensor_id(op.tensor_id);
    m.set_tile_row(op.tile_row);
    m.set_tile_col(op.tile_col);
    m.set_src_addr(op.src_addr);
    m.set_bytes(op.bytes);
    m.set_activation(static_cast<uint32_t>(op.activation));
    if (op.buffer != -1) m.set_buffer(op.buffer);
}

// ---- JSON

using Json = nlohmann::json;

/// An object whose members are taken one by one; what is left over is an error.
class Members {
  public:
    Members(const Json& object, std::string where, const Schedule& schedule)
        : object_(object), where_(std::move(where)), schedule_(schedule) {
        if (!object.is_object()) fail(schedule_, where_, "it is not an object.");
    }

    uint64_t number(const char* name, uint64_t largest) {
        const Json& value = member(name);
        if (!value.is_number_unsigned() || value.get<uint64_t>() > largest)
            fail(schedule_, where_, fmt::format("`{}` is not a whole number from 0 to {}.", name, largest));
        return value.get<uint64_t>();
    }
    uint32_t u32(const char* name) { return static_cast<uint32_t>(number(name, UINT32_MAX)); }
    int32_t buffer() {
        if (!object_.contains("buffer")) return -1;
        const Json& value = member("buffer");
        if (!value.is_number_integer()) fail(schedule_, where_, "`buffer` is not a whole number.");
        const auto number = value.get<int64_t>();
        check_buffer(schedule_, number);
        return static_cast<int32_t>(number);
    }
    std::string text(const char* name) {
        const Json& value = member(name);
        if (!value.is_string()) fail(schedule_, where_, fmt::format("`{}` is not a string.", name));
        return value.get<std::string>();
    }
    std::string text(const char* name, std::string_view missing) {
        return has(name) ? text(name) : std::string(missing);
    }
    double real(const char* name) {
        const Json& value = member(name);
        if (!value.is_number()) fail(schedule_, where_, fmt::format("`{}` is not a number.", name));
        return value.get<double>();
    }
    const Json& list(const char* name) {
        const Json& value = member(name);
        if (!value.is_array()) fail(schedule_, where_, fmt::format("`{}` is not a list.", name));
        return value;
    }
    bool has(const char* name) const { return object_.contains(name); }
    void end() const {
        if (taken_ == object_.size()) return;
        for (const auto& [name, value] : object_.items()) {
            if (known_.find("|" + name + "|") == std::string::npos)
                fail(schedule_, where_, fmt::format("`{}` is not known here. Fix: remove it.", name));
        }
    }

  private:
    const Json& member(const char* name) {
        const auto found = object_.find(name);
        if (found == object_.end()) fail(schedule_, where_, fmt::format("`{}` is missing.", name));
        ++taken_;
        known_ += fmt::format("|{}|", name);
        return *found;
    }
    const Json& object_;
    std::string where_;
    const Schedule& schedule_;
    size_t taken_ = 0;
    std::string known_;
};

Op op_of(const Schedule& schedule, const Json& json) {
    Members members(json, fmt::format("op {}", schedule.ops.size()), schedule);
    const std::string kind = members.text("op");
    Op op;
    if (kind == "load") {
        op = Load{members.u32("tensor_id"), members.u32("tile_row"), members.u32("tile_col"),
                  members.u32("dst_addr"),  members.u32("bytes"),    members.buffer()};
    } else if (kind == "execute") {
        op = Execute{members.u32("m"),      members.u32("n"),        members.u32("k"), members.u32("a_addr"),
                     members.u32("b_addr"), members.u32("acc_addr"), members.buffer()};
    } else if (kind == "store") {
        const std::string activation = members.text("activation", "none");
        if (activation != "none" && activation != "relu")
            fail(schedule, fmt::format("op {}", schedule.ops.size()),
                 fmt::format("its activation is `{}`. Fix: none or relu.", activation));
        op = Store{members.u32("tensor_id"), members.u32("tile_row"),
                   members.u32("tile_col"),  members.u32("src_addr"),
                   members.u32("bytes"),     activation == "relu" ? Activation::relu : Activation::none,
                   members.buffer()};
    } else {
        fail(schedule, fmt::format("op {}", schedule.ops.size()),
             fmt::format("`{}` is not an op. Fix: load, execute or store.", kind));
    }
    members.end();
    return op;
}

std::string buffer_member(int32_t buffer) {
    return buffer == -1 ? "" : fmt::format(", \"buffer\": {}", buffer);
}

std::string json_line(const Op& op) {
    if (const auto* load = std::get_if<Load>(&op)) {
        return fmt::format(
            R"({{"op": "load", "tensor_id": {}, "tile_row": {}, "tile_col": {}, "dst_addr": {}, "bytes": {}{}}})",
            load->tensor_id, load->tile_row, load->tile_col, load->dst_addr, load->bytes,
            buffer_member(load->buffer));
    }
    if (const auto* execute = std::get_if<Execute>(&op)) {
        return fmt::format(
            R"({{"op": "execute", "m": {}, "n": {}, "k": {}, "a_addr": {}, "b_addr": {}, "acc_addr": {}{}}})",
            execute->m, execute->n, execute->k, execute->a_addr, execute->b_addr, execute->acc_addr,
            buffer_member(execute->buffer));
    }
    const auto& store = std::get<Store>(op);
    return fmt::format(
        R"({{"op": "store", "tensor_id": {}, "tile_row": {}, "tile_col": {}, "src_addr": {}, "bytes": {}, )"
        R"("activation": "{}"{}}})",
        store.tensor_id, store.tile_row, store.tile_col, store.src_addr, store.bytes,
        store.activation == Activation::relu ? "relu" : "none", buffer_member(store.buffer));
}

void read_json_tensor(HeaderBuilder& builder, const Json& json, const Schedule& schedule) {
    Members members(json, fmt::format("tensor entry {}", schedule.header.tensors.size()), schedule);
    Tensor tensor;
    tensor.id = members.u32("id");
    tensor.name = members.text("name");
    tensor.rows = members.u32("rows");
    tensor.cols = members.u32("cols");
    if (members.has("scale")) tensor.scale = members.real("scale");
    const TensorWords words{members.text("role"), members.text("elem", name_of(schedule.header.format.elem))};
    members.end();
    add_tensor(builder, std::move(tensor), words, schedule);
}

}  // namespace

bool is_protobuf(std::string_view bytes) {
    return bytes.size() > format_name.size() + 2 && bytes[0] == '\x0a' &&
           static_cast<size_t>(bytes[1]) == format_name.size() &&
           bytes.substr(2, format_name.size()) == format_name;
}

void read_protobuf(std::string_view bytes, Schedule& schedule) {
    const google::protobuf::LogSilencer silence;  // what is wrong with the bytes is said below
    proto::TileSchedule message;
    if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        throw UserError(
            fmt::format("{}: the protobuf form is damaged. Fix: write it again.", schedule.origin));
    check_known_fields(message, schedule.origin);
    if (message.format() != format_name)
        throw UserError(fmt::format("{}: the format is `{}`. Fix: this version reads `{}`.", schedule.origin,
                                    message.format(), format_name));
    if (message.has_header()) {
        const auto& header = message.header();
        HeaderBuilder builder(schedule.header);
        set_format(builder, schedule, header.tile(), header.elem(), header.arena(), header.arena_bytes());
        for (const auto& t : header.tensor()) {
            Tensor tensor{t.id(), t.name(), t.rows(), t.cols(), Role::any, ElemType::none, t.scale()};
            add_tensor(builder, std::move(tensor), {t.role(), t.elem()}, schedule);
        }
        builder.sort();
    }
    for (const auto& op : message.op()) schedule.ops.push_back(op_of(schedule, op));
}

std::string write_protobuf(const Schedule& schedule) {
    proto::TileSchedule message;
    message.set_format(std::string(format_name));
    if (schedule.has_header) {
        const Format& format = schedule.header.format;
        auto& header = *message.mutable_header();
        header.set_tile(format.tile);
        header.set_elem(std::string(name_of(format.elem)));
        header.set_arena(std::string(arena_name(format)));
        header.set_arena_bytes(format.arena_bytes);
        for (const Tensor& tensor : schedule.header.tensors) {
            auto& t = *header.add_tensor();
            t.set_id(tensor.id);
            t.set_name(tensor.name);
            t.set_rows(tensor.rows);
            t.set_cols(tensor.cols);
            t.set_role(std::string(name_of(tensor.role)));
            t.set_elem(std::string(name_of(tensor.elem)));
            t.set_scale(tensor.scale);
        }
    }
    for (const Op& op : schedule.ops) {
        auto& target = *message.add_op();
        std::visit([&](const auto& kind) { set_op(kind, target); }, op);
    }
    return message.SerializeAsString();
}

bool is_json(std::string_view bytes) {
    const size_t first = bytes.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && bytes[first] == '{';
}

void read_json(std::string_view bytes, Schedule& schedule) {
    Json json;
    try {
        json = Json::parse(bytes);
    } catch (const Json::parse_error& error) {
        throw UserError(fmt::format("{}: this is not JSON: byte {} is not expected. Fix: write it again.",
                                    schedule.origin, error.byte));
    } catch (const Json::out_of_range&) {
        throw UserError(fmt::format(
            "{}: a number is larger than any that JSON readers take. Fix: write it again.", schedule.origin));
    }
    Members members(json, "the schedule", schedule);
    if (const std::string format = members.text("format"); format != format_name)
        fail(schedule, "the schedule",
             fmt::format("the format is `{}`. Fix: this version reads `{}`.", format, format_name));
    if (members.has("tile")) {
        HeaderBuilder builder(schedule.header);
        const uint64_t bytes_of_arena =
            members.has("arena_bytes") ? members.number("arena_bytes", UINT64_MAX) : 0;
        set_format(builder, schedule, members.number("tile", UINT32_MAX), members.text("elem"),
                   members.text("arena", "l1"), bytes_of_arena);
        for (const Json& tensor : members.list("tensors")) read_json_tensor(builder, tensor, schedule);
        builder.sort();
    }
    for (const Json& op : members.list("ops")) schedule.ops.push_back(op_of(schedule, op));
    members.end();
}

std::string write_json(const Schedule& schedule) {
    std::string text = fmt::format("{{\"format\": \"{}\",\n", format_name);
    if (schedule.has_header) {
        const Format& format = schedule.header.format;
        text += fmt::format(" \"tile\": {}, \"elem\": \"{}\", \"arena\": \"{}\", \"arena_bytes\": {},\n",
                            format.tile, name_of(format.elem), arena_name(format), format.arena_bytes);
        text += " \"tensors\": [";
        for (const Tensor& tensor : schedule.header.tensors) {
            text += fmt::format(
                R"({}  {{"id": {}, "name": "{}", "rows": {}, "cols": {}, "role": "{}", "elem": "{}")",
                &tensor == schedule.header.tensors.data() ? "\n" : ",\n", tensor.id, tensor.name, tensor.rows,
                tensor.cols, name_of(tensor.role), name_of(tensor.elem));
            if (tensor.scale != 0) text += fmt::format(", \"scale\": {}", tensor.scale);
            text += '}';
        }
        text += "],\n";
    }
    text += " \"ops\": [";
    for (const Op& op : schedule.ops) {
        text += &op == schedule.ops.data() ? "\n  " : ",\n  ";
        text += json_line(op);
    }
    return text + "]}\n";
}

}  // namespace kpu::tile_schedule
