#include "compiler/emit/lane.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/supports.hpp"
#include "compiler/tile_op/transposed.hpp"

namespace kpu::compiler {

using builder::Expr;
using builder::Region;
using builder::Task;
using graph::Node;
using graph::Value;

namespace {

/// Programs have no infinities. The greatest double becomes one where it is rounded to any type.
double finite(double value) {
    constexpr double most = std::numeric_limits<double>::max();
    return std::clamp(value, -most, most);
}

void copy_attributes(Task& task, const OpcodeSpec& spec, const BoundAttrs& attrs) {
    for (const AttrSpec& attribute : spec.attributes) {
        const BoundAttr* value = attrs.find(attribute.name);
        if (value == nullptr) continue;
        const std::string name(attribute.name);
        switch (attribute.kind) {
            case AttrKind::integer:
                task.attr(name, value->integer);
                break;
            case AttrKind::real:
                task.attr(name, finite(value->real));
                break;
            case AttrKind::boolean:
                task.attr(name, value->integer != 0 ? "true" : "false");
                break;
            case AttrKind::elem_type:
                task.attr(name, value->type);
                break;
            case AttrKind::ints:
                task.attr(name, value->ints);
                break;
            case AttrKind::reals:
                task.attr(name, value->reals);
                break;
            case AttrKind::text:
            case AttrKind::word:
                task.attr(name, value->text.c_str());
                break;
        }
    }
}

}  // namespace

void Lane::load_hoisted(bool constants, Staged& staged) {
    beforehand_ = constants;
    for (size_t i = 0; i < op_.operands.size(); ++i) {
        if (!tiling_.hoisted[i] || value(i).constant() != constants || !is_moved(homes_[i])) continue;
        if (tiles_.parts(i) == 1) {
            hoisted_[i] = {load(i, Expr(0), 0, staged)};
            continue;
        }
        for (int64_t number = 0; number < tiles_.parts(i); ++number)
            at_part(number, [&] { hoisted_[i].push_back(load(i, Expr(0), number, staged)); });
    }
    beforehand_ = false;
}

void Lane::bring_kept() {
    beforehand_ = true;
    for (size_t i = 0; i < op_.operands.size(); ++i) {
        if (tiling_.keep[i] != Keep::stage) continue;
        for (int64_t number = 0; number < tiles_.parts(i); ++number) {
            const auto bring = [&] {
                fetch(i, tiles_.kept_part(i, number, half), tiles_.at_home(i, Expr(0)));
            };
            tiles_.parts(i) == 1 ? bring() : at_part(number, bring);
        }
    }
    beforehand_ = false;
}

void Lane::begin(const Expr& t, const Expr& slot, Staged& staged) {
    staged_ = &staged;
    sum_.reset();
    tiles_now_.assign(op_.operands.size(), std::nullopt);
    for (size_t i = 0; i < op_.operands.size(); ++i) {
        if (tiles_.in_table(i)) tiles_now_[i] = tiles_.in_table_of(i, value(i).elem, t);
        if (hoisted_[i].size() == 1) tiles_now_[i] = hoisted_[i][0];
    }
    if (!tiling_.cuts_sum(op_)) run_node(op_.nodes[op_.anchor], t, slot);
}

void Lane::part(int64_t number, const Expr& t, const Expr& slot) {
    at_part(number, [&] { add_part(op_.nodes[op_.anchor], number, t, slot); });
}

void Lane::end(const Expr& t, const Expr& slot) {
    if (sum_) narrow(op_.nodes[op_.anchor], slot);
    for (size_t n = 0; n < op_.nodes.size(); ++n) {
        if (n != op_.anchor) run_node(op_.nodes[n], t, slot);
    }
    for (size_t i = 0; i < op_.operands.size(); ++i) {
        if (op_.operands[i].place == Place::output) keep(i, *tiles_now_[i], slot, t);
    }
}

void Lane::copy_kept() {
    for (size_t i = 0; i < op_.operands.size(); ++i) {
        if (tiling_.keep[i] != Keep::whole) continue;
        const bool held = shared_.planned.holds(i);
        if (held && !out_.held_tiles[shared_.number].insert({static_cast<int64_t>(i)}).second) continue;
        const auto [to, from] = tiles_.whole(i);
        move(to, from, false);
    }
}

void Lane::queue_loads() {
    before_ = std::move(out_.loads[engine_]);
    out_.loads[engine_] = {};
}

Task Lane::finish(Task task, const std::vector<Span>& reads, const std::vector<Span>& writes,
                  const std::vector<Task>& others) {
    task.after(out_.order.add(task, reads, writes, others)).op(shared_.planned.number + 1);
    issued.push_back(task);
    return task;
}

Task Lane::move(const Tile& to, const Tile& from, bool store, const std::vector<Task>& others) {
    const std::vector<Span> reads = known(from.span), writes = known(to.span);
    Task task = finish(store ? out_.program.store("", to.region, from.region)
                             : out_.program.transfer("", to.region, from.region),
                       reads, writes, others);
    // tasks without an L1 would all stand in the first engine's token table
    const uint32_t l1 = out_.buffers.l1[engine_].index;
    if (engine_ > 0 && to.span.buffer != l1 && from.span.buffer != l1)
        task.decorate("seq_engine", Expr(static_cast<int64_t>(engine_)));
    return task;
}

void Lane::fetch(size_t operand, const Tile& to, const Tile& from) {
    if (beforehand_) return stream(operand, to, from);
    const bool into_l1 = to.span.buffer == out_.buffers.l1[engine_].index;
    const auto of = into_l1 ? &Loads::into_l1 : &Loads::into_l2;
    std::vector<Task> others;
    for (const auto& [number, task] : before_.*of) others.push_back(task);
    (out_.loads[engine_].*of).insert_or_assign(operand, move(to, from, false, others));
}

/// Large constants come from DDR one after the other, in as many pieces at once as it takes to keep DRAM busy: more would
/// close each other's pages.
void Lane::stream(size_t operand, const Tile& to, const Tile& from) {
    std::vector<Task>& streams = out_.streams;
    const bool from_ddr = from.span.buffer == out_.buffers.weights.index;
    const uint64_t bytes = tile_bytes(out_.graph, op_, operand, tiling_.tile);
    const bool queues = from_ddr && bytes >= large_constant;
    const auto at_once = static_cast<size_t>(out_.target.units_at_once(true));
    const int64_t count = out_.target.pieces(from_ddr, bytes, tiling_.lanes());
    const std::vector<Tile> parts = tiles_.pieces(from, count), ends = tiles_.pieces(to, count);
    for (size_t number = 0; number < parts.size(); ++number) {
        std::vector<Task> others;
        if (queues && streams.size() >= at_once) others.push_back(streams[streams.size() - at_once]);
        const Task task = move(ends[number], parts[number], false, others);
        if (queues) streams.push_back(task);
    }
}

std::vector<Span> Lane::known(const Span& span) const {
    if (span.buffer == out_.buffers.weights.index) return {};
    return {span};
}

Tile Lane::load(size_t operand, const Expr& slot, int64_t part, const Expr& t) {
    return load(operand, slot, part, *staged_, t);
}

Tile Lane::load(size_t operand, const Expr& slot, int64_t part, Staged& staged, const Expr& t) {
    if (homes_[operand] == Home::in_place) return tiles_.at_home(operand, t);
    const Tile from =
        is_in_ddr(homes_[operand]) ? in_l2(operand, slot, part, staged, t) : tiles_.at_home(operand, t);
    Tile to = tiles_.in_l1(operand, slot, part);
    fetch(operand, to, from);
    return to;
}

Tile Lane::in_l2(size_t operand, const Expr& slot, int64_t part, Staged& staged, const Expr& t) {
    const bool again = !slot.is_literal();  // each iteration of a loop would bring it
    if (const auto shared = tiles_.shared(operand, again)) {
        if (shared->second) fetch(operand, shared->first, tiles_.at_home(operand, t));
        return shared->first;
    }
    const std::vector<int64_t> identity = tiles_.identity(operand, part);
    if (tiling_.keep[operand] == Keep::stage) return tiles_.kept_part(operand, part, half);
    if (tiling_.keep[operand] != Keep::no) {
        Tile kept = tiles_.kept(operand, t);
        auto& there = shared_.planned.holds(operand) ? out_.held_tiles[shared_.number] : shared_.kept;
        if (tiling_.keep[operand] == Keep::tiles && there.insert(identity).second)
            fetch(operand, kept, tiles_.at_home(operand, t));
        return kept;
    }
    if (const auto found = staged.find(identity); found != staged.end()) return found->second;
    if (tiling_.chunked(op_, operand)) {
        stage_chunk(operand, slot, part, staged, t);
        return staged.at(identity);
    }
    Tile there = tiles_.staged(operand, slot, part, t);
    fetch(operand, there, tiles_.at_home(operand, t));
    staged.emplace(identity, there);
    return there;
}

void Lane::stage_chunk(size_t operand, const Expr& slot, int64_t part, Staged& staged, const Expr& t) {
    const int64_t number = part / tiling_.chunk, first = number * tiling_.chunk;
    const int64_t behind = std::min(first + tiling_.chunk, tiles_.parts(operand));
    Expr begin(0);
    at_parts(first, tiling_.chunk, [&] {
        fetch(operand, tiles_.staged(operand, slot, number, t), tiles_.at_home(operand, t));
        begin = tiles_.home_offset(operand, t);
    });
    for (int64_t of = first; of < behind; ++of) {
        at_part(of, [&] {
            staged.emplace(tiles_.identity(operand, of), tiles_.staged_part(operand, slot, of, begin));
        });
    }
}

void Lane::keep(size_t operand, const Tile& tile, const Expr& slot, const Expr& t) {
    const Tile home = tiles_.at_home(operand, t);
    if (homes_[operand] != Home::ddr) {
        move(home, tile, true);
        return;
    }
    const Tile staged = tiles_.staged(operand, slot, 0, t);
    move(staged, tile, true);
    move(home, staged, false);
}

void Lane::add_part(const TileNode& anchor, int64_t number, const Expr& t, const Expr& slot) {
    std::vector<std::optional<Tile>>& tiles = tiles_now_;
    const Node& node = out_.graph.nodes[anchor.node];
    std::vector<Region> inputs;
    std::vector<Span> reads;
    const size_t addend = node.spec().addend;
    for (size_t i = 0; i < addend; ++i) {
        const size_t operand = anchor.inputs[i];
        if (hoisted_[operand].size() > 1) {
            tiles[operand] = hoisted_[operand][static_cast<size_t>(number)];
        } else if (!tiles[operand] || tiles_.parts(operand) > 1) {
            tiles[operand] = load(operand, slot, number, t);
        }
        inputs.push_back(tiles[operand]->region);
        reads.push_back(tiles[operand]->span);
    }
    const ElemType sums = sum_type();
    const Tile result = sum_ ? *sum_ : tiles_.accumulator(anchor.outputs[0], sums, slot);
    if (sum_) {
        inputs.push_back(sum_->region);
        reads.push_back(sum_->span);
    } else if (anchor.inputs.size() > addend) {
        const size_t c = anchor.inputs[addend];
        if (tiles_.in_table(c)) tiles[c] = tiles_.in_table_of(c, sums, t);
        if (!tiles[c]) tiles[c] = load(c, slot, 0, t);
        inputs.push_back(tiles[c]->region);
        reads.push_back(tiles[c]->span);
    }
    const OpcodeSpec& spec = opcode(*find_opcode(graph::sums_opcode(node.spec())));
    Task task = out_.program.compute(std::string(spec.name), inputs, {result.region});
    BoundAttrs attrs = patched(anchor, node);
    for (BoundAttr& attribute : attrs.list) {
        if (attribute.name == "accum_type") attribute.type = sums;
    }
    copy_attributes(task, spec, attrs);
    finish(task, reads, {result.span});
    sum_ = result;
}

ElemType Lane::sum_type() const {
    const ElemType sums = accumulator_of(out_.graph, op_);
    return sums == ElemType::none ? value(op_.nodes[op_.anchor].outputs[0]).elem : sums;
}

void Lane::narrow(const TileNode& anchor, const Expr& slot) {
    std::vector<std::optional<Tile>>& tiles = tiles_now_;
    const size_t y = anchor.outputs[0];
    const ElemType sums = accumulator_of(out_.graph, op_);
    tiles[y] = tiles_.in_l1(y, slot, 0);
    if (sums == ElemType::none) return;  // the accumulator itself, with the scales of the result
    Tile from = *sum_;
    if (sums == ElemType::i32) from = tiles_.scaled_sum(anchor, slot);
    Task task =
        out_.program.compute(sums == ElemType::i32 ? "requant" : "cast", {from.region}, {tiles[y]->region});
    finish(task, {from.span}, {tiles[y]->span});
}

void Lane::run_node(const TileNode& tile, const Expr& t, const Expr& slot) {
    std::vector<std::optional<Tile>>& tiles = tiles_now_;
    const Node& node = out_.graph.nodes[tile.node];
    std::vector<Region> inputs, outputs;
    std::vector<Span> reads, writes;
    for (const size_t i : tile.inputs) {
        if (!tiles[i]) tiles[i] = load(i, slot, 0, t);
    }
    for (const size_t o : tile.outputs) {
        const size_t at = tiling_.place[o];
        tiles[o] = at == o ? tiles_.in_l1(o, slot, 0) : *tiles[at];
        outputs.push_back(tiles[o]->region);
        writes.push_back(tiles[o]->span);
    }
    for (size_t i = 0; i < tile.inputs.size(); ++i) {
        inputs.push_back(tiles_.as_operand(tile, i, *tiles[tile.inputs[i]]));
        for (const Span& span : known(tiles[tile.inputs[i]]->span)) reads.push_back(span);
    }
    if (const kernels::Operation* kernel = kernels::find(node.opcode)) {
        finish(launch(*kernel, tile, inputs, outputs), reads, writes);
        return;
    }
    Task task = out_.program.compute(std::string(node.spec().name), inputs, outputs);
    copy_attributes(task, node.spec(), patched(tile, node));
    finish(task, reads, writes);
}

Task Lane::launch(const kernels::Operation& kernel, const TileNode& tile, const std::vector<Region>& inputs,
                  const std::vector<Region>& outputs) {
    const Node& node = out_.graph.nodes[tile.node];
    kernels::Shapes in, out;
    for (const size_t i : tile.inputs) in.push_back(tiles_.shape(i));
    for (const size_t o : tile.outputs) out.push_back(tiles_.shape(o));
    const kernels::Launch of = kernel.launch(in, out, node.attrs);
    const kernels::Instance& instance = kernels::instance_of(kernel, data_type(out_.graph, node), of);
    carry(instance.body);
    out_.kernels.needs_values = out_.kernels.needs_values || instance.needs_values;
    Task task = out_.program.launch(instance.body.name(), inputs, outputs, of.workgroups, of.scalars);
    out_.kernels.launches[task.statement()] = of.work;
    return task;
}

/// The program has each kernel once, however many tasks launch it.
void Lane::carry(const proto::KernelBody& body) {
    if (!out_.kernels.carried.insert(body.name()).second) return;
    KPUProgram& program = out_.program.message();
    if (program.kernel_file_size() == 0) program.add_kernel_file()->set_path("operators.kern");
    *program.mutable_kernel_file(0)->add_kernel() = body;
}

BoundAttrs Lane::patched(const TileNode& tile, const Node& node) const {
    BoundAttrs attrs = node.attrs;
    bool cut = false;
    const Needs needs = node.spec().traits.needs;
    // a mean counts its padding, but not what a last window asks for beyond it
    const bool counted =
        node.attrs.integer("ceil_mode", 0) != 0 && node.attrs.integer("count_include_pad", 0) != 0;
    const bool transposed = node.spec().transposed;
    for (size_t d = 0; transposed && d < 2; ++d) {
        const Window& window = op_.operands[tile.inputs[0]].windows[d + 1];
        if (window.axis < 0) continue;
        crop_transposed(attrs, d, tiles_.shape(tile.inputs[1])[d], window, tiles_.part(tile.inputs[0], d + 1),
                        tiles_.part(tile.outputs[0], d + 1).size);
    }
    for (BoundAttr& attribute : attrs.list) {
        if (attribute.name == "pads" && !transposed) {
            // of images the first dimension is the batch, the last one channels
            const size_t count = attribute.ints.size() / 2, first = needs == Needs::padded ? 0 : 1;
            for (size_t d = 0; d < count; ++d) {
                if (op_.operands[tile.inputs[0]].windows[d + first].axis < 0) continue;
                const Part of = tiles_.part(tile.inputs[0], d + first);
                attribute.ints[d] = of.before;
                attribute.ints[d + count] =
                    counted ? std::min(of.behind, attribute.ints[d + count]) : of.behind;
                cut = !counted;
            }
        }
        if (needs == Needs::resized && attribute.name == "sizes") {
            for (size_t d = 0; d < attribute.ints.size(); ++d)
                attribute.ints[d] = tiles_.part(tile.outputs[0], d).size;
        }
        if (needs == Needs::window && attribute.name == "groups" && attribute.integer > 1) {
            for (size_t a = 0; a < op_.axes.size(); ++a) {
                if (op_.axes[a].name == "g") attribute.integer = tiles_.run(a).size;
            }
        }
    }
    for (BoundAttr& attribute :
         attrs.list) {  // what a last window asks for beyond the padding is in pads now
        if (cut && attribute.name == "ceil_mode") attribute.integer = 0;
    }
    return attrs;
}

}  // namespace kpu::compiler
