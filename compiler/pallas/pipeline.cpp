#include "compiler/pallas/pipeline.hpp"

#include <algorithm>
#include <map>

#include "base/diagnostics.hpp"
#include "compiler/pallas/body.hpp"
#include "compiler/pallas/overwritten.hpp"

namespace kpu::compiler::pallas {
namespace {

/// Window of a blocked operand: its slots, where its block starts now, and what is on its way.
struct Window {
    const Operand* operand = nullptr;
    RefPlace place;
    std::string semaphore;
    std::vector<std::string> starts;  ///< variables
    std::string fresh;                ///< bool: the block was copied for this step and nobody waited yet
    std::string busy;                 ///< for an output: copies on their way
    std::string line;                 ///< line of its copies
    bool constant = false;            ///< its block is always the same
    bool loaded = false;              ///< for an output: its block begins as what the array holds
    bool is_output() const { return operand->role == Operand::Role::output; }
    bool starts_full() const { return !is_output() || loaded; }
    int64_t bytes() const {
        return kernel::elements_of(place.shape) * kernel::tile_bytes(stored(place.type));
    }
};

class CallLowering {
  public:
    CallLowering(const Export& program, const Call& call)
        : program_(program), call_(call), body_(call, out_) {}

    LoweredCall run(const std::string& name) {
        out_.reserve(std::min<size_t>(call_.body.equations.size(), 1 << 14) + 32);
        out_.set_source(call_.line);
        declare_arrays();
        place_operands();
        for (const int variable : call_.scratch) {
            const VariableType& type = call_.type_of(variable);
            if (type.in_ddr())
                throw UserError(fmt::format(
                    "{}: scratch in HBM. Fix: take it as scratch of VMEM, or as an output.", call_.line));
            body_.place_ref(variable, body_.scratch(type, "scratch"));
        }
        read_whole_operands();
        make_grid();
        if (single_)
            one_step();
        else
            steps();
        result_.text = out_.take_text(name);
        return std::move(result_);
    }

  private:
    // ---- operands

    void declare_arrays() {
        std::map<size_t, KernelOperand> used;
        std::vector<size_t> order;
        for (const Operand& operand : call_.operands) {
            const auto [at, inserted] =
                used.try_emplace(operand.array, KernelOperand{operand.array, false, false});
            if (inserted) order.push_back(operand.array);
            (operand.role == Operand::Role::output ? at->second.writes : at->second.reads) = true;
        }
        for (const size_t array : order) {
            const KernelOperand& operand = used.at(array);
            const char* access = operand.reads && operand.writes ? "read_write"
                                 : operand.writes                ? "write"
                                                                 : "read";
            const Array& whole = program_.arrays[array];
            arrays_[array] =
                out_.buffer("a_" + whole.name, access, stored(whole.type), kernel::elements_of(whole.shape));
            result_.operands.push_back(operand);
        }
    }

    void check_array(const Operand& operand) const {
        const Array& array = program_.arrays[operand.array];
        const bool same = kernel::elements_of(array.shape) == kernel::elements_of(operand.shape) &&
                          (operand.ref == no_variable || call_.type_of(operand.ref).type == array.type);
        if (!same)
            throw UserError(
                fmt::format("{}: operand of array `{}` has another type or size. Fix: export it again.",
                            call_.line, array.name));
    }

    void place_operands() {
        for (const Operand& operand : call_.operands) {
            check_array(operand);
            const std::string& name = program_.arrays[operand.array].name;
            if (operand.role == Operand::Role::bound) continue;
            const VariableType& type = call_.type_of(operand.ref);
            if (!operand.block) {
                RefPlace place;
                place.type = type.type;
                place.shape = operand.shape;
                if (type.in_ddr()) {
                    place.in_ddr = true;
                    place.buffer = arrays_.at(operand.array);
                } else {
                    place.buffer = out_.buffer("w_" + name, "workgroup", stored(type.type),
                                               kernel::elements_of(operand.shape));
                    whole_.push_back(&operand);
                }
                body_.place_ref(operand.ref, place);
                continue;
            }
            Window window;
            window.operand = &operand;
            window.place.type = type.type;
            window.place.shape = type.shape;
            window.constant =
                std::all_of(operand.block->map.results.begin(), operand.block->map.results.end(),
                            [](const Atom& atom) { return atom.is_literal(); });
            window.place.slots = window.constant ? 1 : operand.block->buffers;
            window.loaded = is_aliased(operand) && !is_overwritten(call_.body, operand.ref, type.shape);
            windows_.push_back(std::move(window));
        }
        const bool one = steps_known() == 1;
        for (Window& window : windows_) {
            if (one) window.place.slots = 1;
            const std::string& name = program_.arrays[window.operand->array].name;
            check_block(window);
            window.place.buffer = out_.buffer("w_" + name, "workgroup", stored(window.place.type),
                                              kernel::elements_of(window.place.shape) * window.place.slots);
            window.semaphore = out_.buffer("s_" + name, "workgroup", Type::u32, window.place.slots);
            const std::vector<Equation>& map = window.operand->block->map.equations;
            window.line = fmt::format("{}, the block of `{}` where its index map says",
                                      map.empty() ? call_.line : map.back().line, name);
        }
    }

    /// True if its array is that of an input too, which was copied there before the call.
    bool is_aliased(const Operand& operand) const {
        return std::any_of(call_.aliases.begin(), call_.aliases.end(),
                           [&](const auto& pair) { return &call_.operands[pair.second] == &operand; });
    }

    void check_block(const Window& window) const {
        int64_t count = 1;
        for (const BlockDim& dim : window.operand->block->dims) count *= dim.size;
        if (count != kernel::elements_of(window.place.shape))
            throw UserError(
                fmt::format("{}: a block and its ref differ in size. Fix: export it again.", call_.line));
    }

    /// Returns the number of steps of a static grid; -1: not known.
    int64_t steps_known() const {
        int64_t steps = 1;
        for (const GridAxis& axis : call_.grid) {
            if (axis.bound >= 0) return -1;
            steps = std::min<int64_t>(steps * axis.size, int64_t{1} << 40);
        }
        if (steps > INT32_MAX)
            throw UserError(
                fmt::format("{}: a grid of {} steps. Fix: use larger blocks.", call_.line, steps));
        return steps;
    }

    /// Reads prefetch operands, operands without blocks, and bounds: copied before the first step.
    void read_whole_operands() {
        std::vector<std::pair<const Operand*, std::string>> copied;
        for (const Operand& operand : call_.operands) {
            if (operand.role != Operand::Role::bound) continue;
            bounds_[&operand] =
                out_.buffer("n_" + program_.arrays[operand.array].name, "workgroup", Type::i32, 1);
            copied.emplace_back(&operand, bounds_[&operand]);
        }
        for (const Operand* operand : whole_)
            if (operand->role != Operand::Role::output)
                copied.emplace_back(operand, body_.ref_place(operand->ref).buffer);
        if (!copied.empty() || !whole_.empty())
            whole_semaphore_ = out_.buffer("s_whole", "workgroup", Type::u32, 1);
        int64_t bytes = 0;
        for (const auto& [operand, buffer] : copied) {
            const std::string window = whole_window(*operand);
            out_.line("async_copy({}, {}, {}, {}, {}[0i32])", arrays_.at(operand->array), buffer, window,
                      window, whole_semaphore_);
            bytes += kernel::elements_of(operand->shape) *
                     kernel::tile_bytes(stored(program_.arrays[operand->array].type));
        }
        if (bytes > 0) out_.line("wait({}, 0i32, {})", whole_semaphore_, index_text(bytes));
    }

    void write_whole_operands() {
        for (const Operand* operand : whole_) {
            if (operand->role != Operand::Role::output) continue;
            const std::string window = whole_window(*operand);
            out_.line("async_copy({}, {}, {}, {}, {}[0i32])", body_.ref_place(operand->ref).buffer,
                      arrays_.at(operand->array), window, window, whole_semaphore_);
            out_.line("wait({}, 0i32, {})", whole_semaphore_,
                      index_text(kernel::elements_of(operand->shape) *
                                 kernel::tile_bytes(stored(program_.arrays[operand->array].type))));
        }
    }

    static std::string whole_window(const Operand& operand) {
        if (operand.shape.size() > kernel::max_copy_rank)
            return fmt::format("window{{{}}}()", kernel::elements_of(operand.shape));
        return operand.shape.empty() ? "window()" : fmt::format("window{{{}}}()", join(operand.shape));
    }

    // ---- grid

    void make_grid() {
        for (const GridAxis& axis : call_.grid) {
            if (axis.bound < 0)
                sizes_.push_back(index_text(axis.size));
            else
                sizes_.push_back(out_.let(
                    fmt::format("{}[0i32]", bounds_.at(&call_.operands[static_cast<size_t>(axis.bound)]))));
        }
        single_ = steps_known() == 1;
        for (size_t i = 0; i < call_.grid.size(); ++i) {
            const std::string name = out_.fresh(fmt::format("g{}", i));
            if (!single_) out_.line("let {} = 0i32", name);
            grid_.push_back(single_ ? "0i32" : name);
        }
        body_.set_grid(grid_, sizes_);
    }

    /// Returns the starts of a block at grid indices, as expressions.
    std::vector<std::string> starts_at(const Window& window, const std::vector<std::string>& at) {
        const BlockSpec& block = *window.operand->block;
        if (block.map.inputs.size() != at.size())
            throw UserError(fmt::format(
                "{}: an index map of another rank than the grid. Fix: export it again.", call_.line));
        for (size_t i = 0; i < at.size(); ++i) body_.name_variable(block.map.inputs[i], at[i]);
        body_.equations(block.map);
        std::vector<std::string> starts;
        for (size_t d = 0; d < block.dims.size(); ++d) {
            const BlockDim& dim = block.dims[d];
            const std::string index = body_.text(block.map.results[d]);
            if (dim.kind == BlockDim::Kind::blocked && dim.size != 1)
                starts.push_back(block.map.results[d].is_literal() && block.map.results[d].bits == 0
                                     ? "0i32"
                                     : fmt::format("{} * {}", index, index_text(dim.size)));
            else if (dim.kind == BlockDim::Kind::element && dim.low != 0)
                starts.push_back(fmt::format("{} - {}", index, index_text(dim.low)));
            else
                starts.push_back(index);
        }
        return starts;
    }

    /// Returns a slot, with the squeezed dimensions too.
    static std::string slot_window(const Window& window, const std::string& slot) {
        Shape slots{window.place.slots}, one{1};
        std::string zeros;
        for (const BlockDim& dim : window.operand->block->dims) {
            slots.push_back(dim.size);
            one.push_back(dim.size);
            zeros += ", 0i32";
        }
        return fmt::format("window{{{}, {}}}({}{})", join(slots), join(one), slot, zeros);
    }

    /// Copies a block between the array and a slot.
    void copy_block(const Window& window, const std::vector<std::string>& starts, const std::string& slot,
                    bool out) {
        const Operand& operand = *window.operand;
        Shape sizes;
        for (const BlockDim& dim : operand.block->dims) sizes.push_back(dim.size);
        const std::string outside = sizes.empty() ? "clipped()"
                                                  : fmt::format("clipped{{{}, {}}}({})", join(operand.shape),
                                                                join(sizes), fmt::join(starts, ", "));
        const std::string inside = slot_window(window, slot);
        const std::string& array = arrays_.at(operand.array);
        const std::string_view around = out_.set_source(window.line);
        if (out)
            out_.line("async_copy({}, {}, {}, {}, {}[{}])", window.place.buffer, array, inside, outside,
                      window.semaphore, slot);
        else
            out_.line("async_copy({}, {}, {}, {}, {}[{}])", array, window.place.buffer, outside, inside,
                      window.semaphore, slot);
        out_.set_source(around);
    }
    void load_block(const Window& window, const std::vector<std::string>& starts, const std::string& slot) {
        copy_block(window, starts, slot, false);
    }
    void store_block(const Window& window, const std::vector<std::string>& starts, const std::string& slot) {
        copy_block(window, starts, slot, true);
    }
    void wait_block(const Window& window, const std::string& slot) {
        out_.line("wait({}, {}, {})", window.semaphore, slot, index_text(window.bytes()));
    }

    // ---- steps

    void one_step() {
        for (const Window& window : windows_)
            if (window.starts_full()) load_block(window, starts_at(window, grid_), "0i32");
        for (Window& window : windows_) {
            if (window.starts_full()) wait_block(window, "0i32");
            body_.place_ref(window.operand->ref, window.place);
        }
        body_.equations(call_.body);
        for (const Window& window : windows_)
            if (window.is_output()) store_block(window, starts_at(window, grid_), "0i32");
        for (const Window& window : windows_)
            if (window.is_output()) wait_block(window, "0i32");
        write_whole_operands();
    }

    void steps() {
        std::string total = "1i32";
        for (const std::string& size : sizes_)
            total = total == "1i32" ? size : fmt::format("{} * {}", total, size);
        const std::string count = out_.let(total);
        for (Window& window : windows_) {
            if (window.place.slots > 1) {
                window.place.slot = out_.fresh("slot");
                out_.line("let {} = 0i32", window.place.slot);
            }
            if (window.is_output()) window.busy = out_.let("0i32");
            for (size_t d = 0; d < window.operand->shape.size(); ++d)
                window.starts.push_back(out_.let("0i32"));
            body_.place_ref(window.operand->ref, window.place);
        }
        out_.line("if {} > 0i32:", count);
        begin();
        const std::string step = out_.fresh("step");
        out_.line("loop {} in 0i32..{}:", step, count);
        const std::string more = out_.let(fmt::format("{} + 1i32 < {}", step, count));
        const std::vector<std::string> next = next_indices();
        std::vector<std::vector<std::string>> next_starts;
        std::vector<std::string> changes;
        for (Window& window : windows_) {
            next_starts.push_back(window.constant ? window.starts : starts_at(window, next));
            changes.push_back(window.constant ? "false" : changed(window, next_starts.back(), more));
        }
        for (size_t i = 0; i < windows_.size(); ++i)
            if (!windows_[i].is_output()) start_next(windows_[i], next_starts[i], changes[i]);
        for (const Window& window : windows_)
            if (!window.is_output()) await(window);
        body_.equations(call_.body);
        for (size_t i = 0; i < windows_.size(); ++i) {
            if (windows_[i].is_output())
                write_back(windows_[i], next_starts[i], changes[i], more);
            else
                advance(windows_[i], next_starts[i], changes[i]);
        }
        for (size_t i = 0; i < windows_.size(); ++i)
            if (!windows_[i].constant) set(windows_[i].starts, next_starts[i]);
        set(grid_, next);
        out_.close("endloop");
        for (const Window& window : windows_)
            if (window.is_output()) drain(window);
        write_whole_operands();
        out_.close("endif");
    }

    static std::string slot_of(const Window& window) {
        return window.place.slot.empty() ? "0i32" : window.place.slot;
    }
    static std::string slot_after(const Window& window) {
        return fmt::format("select({0} + 1i32 == {1}, 0i32, {0} + 1i32)", window.place.slot,
                           index_text(window.place.slots));
    }

    void set(const std::vector<std::string>& names, const std::vector<std::string>& values) {
        for (size_t i = 0; i < names.size(); ++i)
            if (names[i] != values[i]) out_.line("{} = {}", names[i], values[i]);
    }

    /// Begins. The first blocks have all the bandwidth: they are here before copies of the second ones start.
    void begin() {
        for (Window& window : windows_) {
            set(window.starts, starts_at(window, grid_));
            if (window.starts_full()) load_block(window, window.starts, slot_of(window));
        }
        for (Window& window : windows_) {
            if (window.starts_full()) wait_block(window, slot_of(window));
            if (!window.is_output() && !window.constant) window.fresh = out_.let("false");
        }
    }

    /// Returns the indices of the next step: the last axis goes first, and carries into the one before it.
    std::vector<std::string> next_indices() {
        std::vector<std::string> next(grid_.size());
        std::string carry;
        for (size_t i = grid_.size(); i-- > 0;) {
            const std::string moved =
                out_.let(carry.empty() ? grid_[i] + " + 1i32"
                                       : fmt::format("{} + select({}, 1i32, 0i32)", grid_[i], carry));
            carry = out_.let(fmt::format("{} == {}", moved, sizes_[i]));
            next[i] = out_.let(fmt::format("select({}, 0i32, {})", carry, moved));
        }
        return next;
    }

    /// Returns a bool: there is a next step, and its block is another one. The starts become variables.
    std::string changed(const Window& window, std::vector<std::string>& next, const std::string& more) {
        std::string differs;
        for (size_t d = 0; d < next.size(); ++d) {
            if (next[d] == "0i32") continue;
            next[d] = out_.let(next[d]);
            const std::string one = fmt::format("({} != {})", next[d], window.starts[d]);
            differs = differs.empty() ? one : fmt::format("{} | {}", differs, one);
        }
        return differs.empty() ? "false" : out_.let(fmt::format("{} & ({})", more, differs));
    }

    /// Starts the copy of the next block under this step, where there is a slot for it.
    void start_next(const Window& window, const std::vector<std::string>& next, const std::string& change) {
        if (window.constant || window.place.slots == 1) return;
        out_.line("if {}:", change);
        load_block(window, next, slot_after(window));
        out_.close("endif");
    }

    void await(const Window& window) {
        if (window.constant) return;
        out_.line("if {}:", window.fresh);
        wait_block(window, slot_of(window));
        out_.close("endif");
    }

    void advance(const Window& window, const std::vector<std::string>& next, const std::string& change) {
        if (window.constant) return;
        out_.line("{} = {}", window.fresh, change);
        out_.line("if {}:", change);
        if (window.place.slots > 1)
            out_.line("{} = {}", window.place.slot, slot_after(window));
        else
            load_block(window, next, slot_of(window));
        out_.close("endif");
    }

    /// Writes back when the block changes or nothing comes after it. A slot is free again when its copy is
    /// through; only then does the next block that begins full come, and is waited for: its semaphore counts
    /// nothing else.
    void write_back(Window& window, const std::vector<std::string>& next, const std::string& change,
                    const std::string& more) {
        out_.line("if {}:", change == "false" ? "!" + more : fmt::format("{} | !{}", change, more));
        store_block(window, window.starts, slot_of(window));
        out_.line("{0} = {0} + 1i32", window.busy);
        if (window.place.slots > 1) out_.line("{} = {}", window.place.slot, slot_after(window));
        out_.line("if {} == {}:", window.busy, index_text(window.place.slots));
        wait_block(window, slot_of(window));
        out_.line("{0} = {0} - 1i32", window.busy);
        out_.close("endif");
        if (change != "false")
            out_.line("forget({}, {})", window.place.buffer, slot_window(window, slot_of(window)));
        if (window.loaded && change != "false") {
            out_.line("if {}:", change);
            load_block(window, next, slot_of(window));
            wait_block(window, slot_of(window));
            out_.close("endif");
        }
        out_.close("endif");
    }

    void drain(const Window& window) {
        out_.line("while {} > 0i32:", window.busy);
        wait_block(window, window.place.slot.empty()
                               ? "0i32"
                               : fmt::format("({} - {} + {}) % {}", window.place.slot, window.busy,
                                             index_text(window.place.slots), index_text(window.place.slots)));
        out_.line("{0} = {0} - 1i32", window.busy);
        out_.close("endwhile");
    }

    const Export& program_;
    const Call& call_;
    KernelWriter out_;
    Body body_;
    LoweredCall result_;
    std::map<size_t, std::string> arrays_;
    std::map<const Operand*, std::string> bounds_;
    std::vector<const Operand*> whole_;
    std::string whole_semaphore_;
    std::vector<Window> windows_;
    std::vector<std::string> grid_, sizes_;
    bool single_ = false;
};

}  // namespace

LoweredCall lower_call(const Export& program, const Call& call, const std::string& kernel_name) {
    return CallLowering(program, call).run(kernel_name);
}

}  // namespace kpu::compiler::pallas
