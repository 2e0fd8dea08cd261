#include "compiler/pipeline/mapping_file.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/diagnostics.hpp"
#include "base/json.hpp"
#include "base/read_file.hpp"
#include "base/text_output.hpp"

namespace kpu::pipeline {
namespace {

using nlohmann::json;

constexpr size_t largest_file = 16 << 20;
constexpr const char* device_name = "__device";  ///< no operation has this name

class Reader {
  public:
    explicit Reader(const std::string& path) : path_(path) {}

    compiler::MappingWishes read() {
        const json document = parsed();
        if (!document.is_object()) fail("it is not a JSON object", "write {\"OPERATION\": {...}}");
        std::vector<compiler::MappingWish> wishes;
        compiler::DeviceWish device;
        for (const auto& [name, fields] : document.items()) {
            if (name == device_name)
                device = device_wish(fields);
            else
                wishes.push_back(wish(name, fields));
        }
        return compiler::MappingWishes(std::move(wishes), device);
    }

  private:
    json parsed() const {
        const std::string text = read_file(path_, largest_file);  // what it says is said with a Fix
        try {
            return parse_json(text);
        } catch (const UserError& error) {
            fail(error.what(), "write JSON as --write-mapping does");
        }
    }

    compiler::DeviceWish device_wish(const json& fields) const {
        if (!fields.is_object())
            fail(fmt::format("`{}` has no {{...}}", device_name),
                 "write {\"engines\": 2, \"staging_bytes\": 65536}");
        compiler::DeviceWish result;
        for (const auto& [field, value] : fields.items()) {
            const std::string where = fmt::format("`{}` of `{}`", field, device_name);
            if (field == "engines")
                result.engines = integer(where, value);
            else if (field == "staging_bytes")
                result.staging_bytes = integer(where, value);
            else
                fail(fmt::format("`{}` has a field `{}`, which is unknown", device_name, field),
                     "fields are engines, staging_bytes");
        }
        return result;
    }

    compiler::MappingWish wish(const std::string& name, const json& fields) const {
        if (!fields.is_object())
            fail(fmt::format("`{}` has no {{...}}", name), "write {\"tile\": {\"h\": 8}}");
        compiler::MappingWish result;
        result.pattern = name;
        for (const auto& [field, value] : fields.items()) {
            const std::string where = fmt::format("`{}` of `{}`", field, name);
            if (field == "tile") {
                result.tile = sizes(where, value);
            } else if (field == "engines") {
                result.engines = sizes(where, value);
            } else if (field == "in_flight") {
                result.in_flight = integer(where, value);
            } else if (field == "output") {
                result.output = home(where, value);
            } else if (field == "strips") {
                result.strips = integer(where, value);
                if (*result.strips < 1) fail(where + " is below 1", "write 1 or more");
            } else if (field == "fuse") {
                if (!value.is_boolean()) fail(where + " is neither true nor false", "write one of them");
                result.fuse = value.get<bool>();
            } else {
                fail(fmt::format("`{}` has a field `{}`, which is unknown", name, field),
                     "fields are tile, engines, in_flight, output, strips, fuse");
            }
        }
        return result;
    }

    std::map<std::string, int64_t> sizes(const std::string& where, const json& value) const {
        if (!value.is_object()) fail(where + " has no sizes by axis", "write such as {\"h\": 8}");
        std::map<std::string, int64_t> result;
        for (const auto& [axis, size] : value.items())
            result[axis] = integer(fmt::format("`{}` in {}", axis, where), size);
        return result;
    }

    int64_t integer(const std::string& where, const json& value) const {
        if (!value.is_number_integer()) fail(where + " is not an integer", "write one, 1 or more");
        if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)
            fail(where + " is beyond 64 bits", "write a smaller one");
        return value.get<int64_t>();
    }

    compiler::Home home(const std::string& where, const json& value) const {
        if (value.is_string() && value.get<std::string>() == "L2") return compiler::Home::l2;
        if (value.is_string() && value.get<std::string>() == "DDR") return compiler::Home::ddr;
        fail(where + " is neither \"L2\" nor \"DDR\"", "write one of them");
    }

    [[noreturn]] void fail(const std::string& what, const std::string& fix) const {
        throw UserError(fmt::format("--mapping {}: {}. Fix: {}.", path_, what, fix));
    }

    const std::string& path_;
};

/// Names where an operation's result goes; none: to the host.
const char* output_home(const compiler::Lowered& lowered, const compiler::PlannedOp& op) {
    for (size_t i = 0; i < op.op.operands.size(); ++i) {
        const compiler::TileOperand& operand = op.op.operands[i];
        if (operand.place != compiler::Place::output) continue;
        const compiler::Storage& storage =
            lowered.plan.memory.storages[lowered.plan.memory.views[operand.value].storage];
        if (storage.input || storage.output) return nullptr;
        return op.homes[i] == compiler::Home::l2 ? "L2" : "DDR";
    }
    return nullptr;
}

json mapping_of(const compiler::Lowered& lowered, const compiler::PlannedOp& op) {
    json result = json::object();
    for (size_t a = 0; a < op.op.axes.size(); ++a) {
        const compiler::Axis& axis = op.op.axes[a];
        if (axis.extent > 1) result["tile"][axis.name] = op.tiling.tile[a];
        if (op.tiling.split[a] > 1) result["engines"][axis.name] = op.tiling.split[a];
    }
    result["in_flight"] = op.tiling.depth;
    if (const char* home = output_home(lowered, op); home != nullptr) result["output"] = home;
    return result;
}

}  // namespace

compiler::MappingWishes read_mapping(const std::string& path) { return Reader(path).read(); }

void write_mapping(const compiler::Lowered& lowered, const Division& division, const std::string& path) {
    json document = json::object();
    if (division.is_part)
        document[device_name] = {{"engines", division.target.engines.size()},
                                 {"staging_bytes", division.target.staging_bytes}};
    for (const compiler::PlannedOp& op : lowered.plan.ops) {  // each strip has tiles of its own
        document[op.op.name] = op.strips > 0 ? json{{"strips", op.strips}} : mapping_of(lowered, op);
    }
    write_file(path, json_text(document, 2) + "\n");
}

}  // namespace kpu::pipeline
