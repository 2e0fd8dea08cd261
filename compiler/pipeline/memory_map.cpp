// Where tensors live, as a table or as a picture: operations from left to right as wide as their predicted cycles,
// addresses from bottom to top.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/text_output.hpp"
#include "compiler/pipeline/compile.hpp"

namespace kpu::pipeline {
namespace {

/// Bytes of one tensor, from operation `first` to operation `last`.
struct Box {
    std::string name;
    uint64_t address = 0, bytes = 0;
    size_t first = 0, last = 0;
};
struct Band {
    std::string name;    ///< "L2 resident"
    uint64_t bytes = 0;  ///< its height
    std::vector<Box> boxes;
};

std::string name_of_op(const Compiled& compiled, size_t op) { return compiled.lowered.plan.ops[op].op.name; }

Band arena(const Compiled& compiled, const std::string& name, compiler::Home home, uint64_t bytes) {
    Band band{name, bytes, {}};
    for (const compiler::Storage& storage : compiled.lowered.plan.memory.storages) {
        const bool here = storage.home == home && !storage.input && !storage.output;
        if (here && storage.first <= storage.last && storage.last < compiled.lowered.plan.ops.size())
            band.boxes.push_back({storage.name, storage.address, storage.bytes, storage.first, storage.last});
    }
    return band;
}

/// Draws what the tiles of each operation take of an engine's L1: constants and inputs that stay, then a slot
/// for each iteration in flight. Two operations share an L1: the constants of the next come while this one
/// computes.
Band tiles(const Compiled& compiled, uint64_t bytes) {
    Band band{"L1 of an engine, tiles", bytes, {}};
    for (size_t op = 0; op < compiled.lowered.plan.ops.size(); ++op) {
        const compiler::Tiling& tiling = compiled.lowered.plan.ops[op].tiling;
        if (tiling.hoisted_bytes > 0)
            band.boxes.push_back({name_of_op(compiled, op) + ", kept", 0, tiling.hoisted_bytes, op, op});
        for (int slot = 0; slot < tiling.depth; ++slot)
            band.boxes.push_back({fmt::format("{}, slot {}", name_of_op(compiled, op), slot),
                                  tiling.hoisted_bytes + static_cast<uint64_t>(slot) * tiling.slot_bytes,
                                  tiling.slot_bytes, op, op});
    }
    return band;
}

/// Returns the weights that stay in L2 from one inference to the next.
Band held(const Compiled& compiled) {
    Band band{"L2, weights that stay", compiled.lowered.plan.held_bytes, {}};
    const size_t last = compiled.lowered.plan.ops.size() - 1;
    for (const compiler::PlannedOp& op : compiled.lowered.plan.ops) {
        for (size_t i = 0; i < op.op.operands.size(); ++i) {
            if (op.holds(i))
                band.boxes.push_back(
                    {compiled.lowered.plan.graph->value(op.op.operands[i].value).name, op.kept[i],
                     compiler::kept_bytes(*compiled.lowered.plan.graph, op.op, op.tiling, i), 0, last});
        }
    }
    return band;
}

std::vector<Band> bands_of(const Compiled& compiled, const compiler::Target& target) {
    const compiler::MemoryPlan& memory = compiled.lowered.plan.memory;
    std::vector<Band> bands{tiles(compiled, target.l1_bytes)};
    if (compiled.lowered.plan.resident_bytes > 0)
        bands.push_back(arena(compiled, "L2, tensors between operations", compiler::Home::l2,
                              compiled.lowered.plan.resident_bytes));
    if (compiled.lowered.plan.held_bytes > 0) bands.push_back(held(compiled));
    if (memory.ddr_bytes > 0)
        bands.push_back(
            arena(compiled, "DDR, tensors between operations", compiler::Home::ddr, memory.ddr_bytes));
    return bands;
}

/// Returns "L2: 2097152 bytes: table 16384, resident 802816, ...".
std::string buffers_text(const Compiled& compiled, const compiler::Target& target) {
    std::string text;
    const auto level = [&](proto::Level wanted, std::string_view name, uint64_t size) {
        std::string line;
        for (const proto::Buffer& buffer : compiled.lowered.emitted.module.program.buffer()) {
            if (buffer.level() != wanted) continue;
            line += fmt::format("{}{} {}", line.empty() ? "" : ", ", buffer.name(),
                                buffer.size().token(0).value());
        }
        text += fmt::format("{}, {} bytes: {}\n", name, size, line.empty() ? "nothing" : line);
    };
    level(proto::L1, "L1 of an engine", target.l1_bytes);
    level(proto::L2, "L2", target.l2_bytes);
    level(proto::DDR, "DDR", target.ddr_bytes);
    return text;
}

std::string table(const Compiled& compiled, const compiler::Target& target) {
    std::string text = buffers_text(compiled, target);
    for (const Band& band : bands_of(compiled, target)) {
        text += fmt::format("\n{}: {} bytes\n{:>12} {:>12}  {:<24} {:<24} {}\n", band.name, band.bytes,
                            "address", "bytes", "from", "to", "what");
        for (const Box& box : band.boxes)
            text += fmt::format("{:>12} {:>12}  {:<24} {:<24} {}\n", box.address, box.bytes,
                                name_of_op(compiled, box.first), name_of_op(compiled, box.last), box.name);
    }
    return text;
}

// ---- the picture

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

class Picture {
  public:
    Picture(const Compiled& compiled, const compiler::Target& target) : compiled_(compiled), target_(target) {
        double total = 0;
        for (const compiler::PlannedOp& op : compiled.lowered.plan.ops) {
            starts_.push_back(total);
            total += std::max(op.tiling.cycles, 1.0);
        }
        starts_.push_back(total);
    }

    std::string page() const {
        std::string text = fmt::format(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}: "
            "memory</title>\n<style>\n"
            "body{{font:14px sans-serif;margin:2em;max-width:1240px}} svg{{display:block;border:1px solid "
            "#999}}\n"
            "rect{{stroke:#333;stroke-width:.5}} text{{font-size:11px;pointer-events:none}} "
            "pre{{font-size:12px}}\n"
            "</style></head><body>\n<h1>{0}: memory</h1>\n"
            "<p>Operations from left to right, as wide as their predicted cycles; addresses from bottom to "
            "top. "
            "Point at a box for its name.</p>\n<pre>{1}</pre>\n",
            escaped(compiled_.lowered.emitted.module.program.name()),
            escaped(buffers_text(compiled_, target_)));
        for (const Band& band : bands_of(compiled_, target_)) text += picture(band);
        return text + "</body></html>\n";
    }

  private:
    static constexpr double width = 1200, height = 260;

    double x(size_t op) const { return starts_[op] / starts_.back() * width; }

    std::string picture(const Band& band) const {
        uint64_t top = std::max<uint64_t>(band.bytes, 1);
        for (const Box& box : band.boxes) top = std::max(top, box.address + box.bytes);
        std::string text = fmt::format("<h2>{} ({} bytes)</h2>\n<svg width=\"{}\" height=\"{}\">\n",
                                       escaped(band.name), band.bytes, width, height);
        for (size_t i = 0; i < band.boxes.size(); ++i) {
            const Box& box = band.boxes[i];
            const double left = x(box.first), wide = std::max(x(box.last + 1) - left, 0.5);
            const double high = std::max(double(box.bytes) / double(top) * height, 0.5);
            const double y = height - double(box.address) / double(top) * height - high;
            text += fmt::format(
                "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
                "fill=\"hsl({},60%,75%)\"><title>{}: "
                "{} bytes at {}, {} to {}</title></rect>\n",
                left, y, wide, high, i * 47 % 360, escaped(box.name), box.bytes, box.address,
                escaped(name_of_op(compiled_, box.first)), escaped(name_of_op(compiled_, box.last)));
            const auto letters = static_cast<size_t>(wide / 7);
            if (high > 14 && letters > 3)
                text += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n", left + 3, y + 12,
                                    escaped(box.name.substr(0, letters)));
        }
        return text + "</svg>\n";
    }

    const Compiled& compiled_;
    const compiler::Target& target_;
    std::vector<double> starts_;  ///< start of each operation, predicted cycles; then the end
};

}  // namespace

void write_memory_map(const Compiled& compiled, const compiler::Target& target, const std::string& path) {
    write_file(path, ends_with(path, ".html") ? Picture(compiled, target).page() : table(compiled, target));
}

}  // namespace kpu::pipeline
