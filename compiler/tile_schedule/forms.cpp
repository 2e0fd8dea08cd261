#include "compiler/tile_schedule/forms.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/tile_schedule/form_parts.hpp"

namespace kpu::tile_schedule {
namespace {

struct FormEntry {
    Form form;
    std::string_view name;
    bool (*is)(std::string_view);
    void (*read)(std::string_view, Schedule&);
    std::string (*write)(const Schedule&);
};

constexpr FormEntry entries[] = {
    {Form::text, "text", is_text, read_text, write_text},
    {Form::packed, "packed", is_packed, read_packed, write_packed},
    {Form::protobuf, "protobuf", is_protobuf, read_protobuf, write_protobuf},
    {Form::json, "json", is_json, read_json, write_json},
};

const FormEntry& entry_of(Form form) { return entries[static_cast<size_t>(form)]; }

/// Text says no sizes: with the header they are known.
void fill_bytes(Schedule& schedule) {
    for (Op& op : schedule.ops) {
        if (auto* load = std::get_if<Load>(&op)) {
            if (load->bytes == 0) load->bytes = schedule.header.format.operand_bytes();
        } else if (auto* store = std::get_if<Store>(&op)) {
            if (store->bytes == 0) store->bytes = schedule.header.format.acc_bytes();
        }
    }
}

}  // namespace

std::string_view name_of(Form form) { return entry_of(form).name; }

std::optional<Form> parse_form(std::string_view name) {
    for (const FormEntry& entry : entries) {
        if (entry.name == name) return entry.form;
    }
    return std::nullopt;
}

std::optional<Form> form_of(std::string_view bytes) {
    for (const FormEntry& entry : entries) {
        if (entry.is(bytes)) return entry.form;
    }
    return std::nullopt;
}

Schedule read_schedule(std::string_view bytes, const std::string& origin) {
    const auto form = form_of(bytes);
    if (!form) {
        throw UserError(
            fmt::format("{}: this is not a tile schedule. Fix: give one as text (`tile 32 f32`, then "
                        "tensors and ops), packed, protobuf or JSON.",
                        origin));
    }
    Schedule schedule;
    schedule.origin = origin;
    entry_of(*form).read(bytes, schedule);
    return schedule;
}

Header read_header(std::string_view text, const std::string& origin) {
    Schedule schedule;
    schedule.origin = origin;
    read_text(text, schedule);
    if (!schedule.ops.empty())
        throw UserError(
            fmt::format("{}:{}:1: error: a header has no ops. Fix: leave its tile, arena and tensor "
                        "lines here.",
                        origin, schedule.lines.front()));
    if (!schedule.has_header) throw UserError(fmt::format("{}: the header is empty.", origin));
    return std::move(schedule.header);
}

void set_header(Schedule& schedule, Header header) {
    if (schedule.has_header)
        throw UserError(
            fmt::format("{}: the schedule has a header. Fix: leave out --header.", schedule.origin));
    schedule.header = std::move(header);
    schedule.has_header = true;
    if (!schedule.lines.empty()) fill_bytes(schedule);
}

std::string write_schedule(const Schedule& schedule, Form form) { return entry_of(form).write(schedule); }

std::optional<Role> parse_role(std::string_view name) {
    for (const Role role : {Role::any, Role::input, Role::weight, Role::intermediate, Role::output}) {
        if (name == name_of(role)) return role;
    }
    return std::nullopt;
}

std::string HeaderBuilder::set_tile(uint64_t tile, ElemType elem) {
    if (std::string why = why_not_tile(tile); !why.empty()) return why;
    if (std::string why = why_not_elem(elem); !why.empty()) return why;
    header_.format.tile = static_cast<uint32_t>(tile);
    header_.format.elem = elem;
    return {};
}

std::string HeaderBuilder::add(Tensor tensor) {
    if (std::string why = why_not_tensor(tensor, header_.format); !why.empty()) return why;
    if (!ids_.insert(tensor.id).second)
        return fmt::format("tensor {} is declared twice. Fix: give each an id of its own.", tensor.id);
    if (!names_.insert(tensor.name).second)
        return fmt::format("the name `{}` stands for two tensors. Fix: rename one.", tensor.name);
    header_.tensors.push_back(std::move(tensor));
    return {};
}

void HeaderBuilder::sort() {
    std::sort(header_.tensors.begin(), header_.tensors.end(),
              [](const Tensor& a, const Tensor& b) { return a.id < b.id; });
}

}  // namespace kpu::tile_schedule
