#include "tests/model/random_program.hpp"

#include <algorithm>

namespace kpu::model {

using builder::Expr;
using builder::Region;
using builder::Task;

namespace {

constexpr int64_t input_tiles = 16;
constexpr double scale = 0.0625;

}  // namespace

RandomProgram::RandomProgram(const proto::Platform& platform, uint64_t seed, bool careless, bool all_opcodes,
                             bool strided)
    : random_(seed),
      careless_(careless),
      all_opcodes_(all_opcodes),
      strided_(strided),
      side_(16 * draw(1, 3)),
      engines_(platforms::engines_of(platform)),
      program_("random" + std::to_string(seed)) {
    input_ = program_.buffer("INPUT", Level::ddr, input_tiles * bytes_of(ElemType::i8));
    const auto arena = [&](int64_t size) {
        Arena a;
        a.size = size;
        return a;
    };
    ddr_ = arena(1 << 18);
    ddr_.buffer = program_.buffer("DDR", Level::ddr, ddr_.size);
    l2_ = arena(std::min<int64_t>(1 << 18, static_cast<int64_t>(platform.l2().size_bytes()) / 2));
    l2_.buffer = program_.buffer("L2", Level::l2, l2_.size);
    for (size_t k = 0; k < engines_.size(); ++k) {
        l1_.push_back(
            arena(std::min<int64_t>(1 << 17, static_cast<int64_t>(engines_[k].get().l1().size_bytes()) / 2)));
        l1_.back().buffer =
            program_.l1_buffer("L1_" + std::to_string(k), static_cast<int64_t>(k), l1_.back().size);
    }
    for (const char* op : {"first", "second", "third"}) ops_.push_back(program_.op(op, "random"));
    for (int i = 0; i < 3; ++i) load();
    statements(draw(4, 14));
}

void RandomProgram::statements(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (scopes_.size() < 3 && chance(15)) {
            loop();
        } else if (!tokens_.empty() && chance(6)) {
            program_.wait({tokens_[static_cast<size_t>(draw(0, static_cast<int64_t>(tokens_.size()) - 1))]});
        } else {
            task();
        }
    }
}

void RandomProgram::loop() {
    const int64_t first = draw(0, 2), trip = draw(1, 5), window = draw(1, 3);
    const size_t outer = scopes_.size();
    program_.loop(name("i"), first, first + trip - 1, window, [&](Expr variable) {
        scopes_.push_back({variable - first, trip, window});
        load();
        statements(draw(2, 6));
        scopes_.pop_back();
    });
    // its tiles are of its iterations; its tokens go on, for all of them
    tiles_.erase(std::remove_if(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return t.depth > outer; }),
                 tiles_.end());
}

void RandomProgram::task() {
    switch (draw(0, 9)) {
        case 0:
        case 1:
            return load();
        case 2:
        case 3:
            return move();
        case 4:
            return save();
        case 5:
        case 6:
        case 7:
            return product();
        case 8:
            return vector_work();
        default:
            return narrow();
    }
}

/// Loads from the input, to L2 or straight to an L1.
void RandomProgram::load() {
    const bool direct = chance(40);
    const auto engine = static_cast<unsigned>(draw(0, static_cast<int64_t>(engines_.size()) - 1));
    const auto to = target(direct ? Level::l1 : Level::l2, engine, ElemType::i8);
    if (!to) return;
    Expr index = draw(0, input_tiles - 1);
    for (const Scope& scope : scopes_) index = index + scope.index * draw(0, 3);
    Tile source;
    source.level = Level::ddr;
    source.buffer = input_;
    source.offset = index % input_tiles * bytes_of(ElemType::i8);
    finish(program_.transfer(name("load"), region(tiles_[*to]), region(source)), {}, *to,
           direct ? UnitKind::sdma : UnitKind::sdma, 0);
}

/// Moves between two levels, in any direction.
void RandomProgram::move() {
    const auto from_level = static_cast<Level>(draw(0, 2));
    const auto to_level = static_cast<Level>(draw(0, 2));
    if (from_level == to_level) return;
    const ElemType type = chance(80) ? ElemType::i8 : ElemType::i32;
    const auto from = written_tile(from_level, type);
    const auto engine = static_cast<unsigned>(draw(0, static_cast<int64_t>(engines_.size()) - 1));
    const auto to = target(to_level, engine, type);
    if (!from || !to) return;
    finish(program_.transfer(name("move"), region(tiles_[*to]), region(tiles_[*from])), {*from}, *to,
           UnitKind::sdma, 0);
}

/// Saves from L1 to L2 by a store, sometimes on to DDR.
void RandomProgram::save() {
    const auto from = written_tile(Level::l1, ElemType::i8);
    const auto to = target(Level::l2, 0, ElemType::i8);
    if (!from || !to) return;
    finish(program_.store(name("save"), region(tiles_[*to]), region(tiles_[*from])), {*from}, *to,
           UnitKind::cstl, 0);
    const auto out = target(Level::ddr, 0, ElemType::i8);
    if (!out || chance(50)) return;
    finish(program_.transfer(name("out"), region(tiles_[*out]), region(tiles_[*to])), {*to}, *out,
           UnitKind::sdma, 0);
}

/// Adds a matrix product in one L1, into i8 or accumulating in i32.
void RandomProgram::product() {
    const auto a = written_tile(Level::l1, ElemType::i8);
    if (!a) return;
    const unsigned engine = tiles_[*a].engine;
    const auto b = written_tile(Level::l1, ElemType::i8, static_cast<int>(engine));
    const bool wide = chance(60);
    const auto y = target(Level::l1, engine, wide ? ElemType::i32 : ElemType::i8);
    if (!b || !y || *y == *a || *y == *b) return;
    std::vector<Region> inputs{region(tiles_[*a]), region(tiles_[*b])};
    std::vector<size_t> reads{*a, *b};
    const Region out = region(tiles_[*y]);
    if (wide && tiles_[*y].written && chance(70)) {
        inputs.push_back(out);
        reads.push_back(*y);
    }
    Task work = program_.compute(wide ? "gemm.acc" : "gemm", inputs, {out}, name("product"));
    if (!wide) work.attr("accum_type", ElemType::i32);
    finish(work, reads, *y, UnitKind::nmu, engines_[engine].get().array().count());
}

/// Adds relu or add, in an L1, or in L2 on any engine.
void RandomProgram::vector_work() {
    const Level level = chance(70) ? Level::l1 : Level::l2;
    const auto a = written_tile(level, ElemType::i8);
    if (!a) return;
    const unsigned engine = tiles_[*a].engine;
    const auto b = written_tile(level, ElemType::i8, static_cast<int>(engine));
    const auto y = chance(30) && writable(tiles_[*a]) ? a : target(level, engine, ElemType::i8);
    if (!b || !y) return;
    const uint32_t units = level == Level::l1 ? engines_[engine].get().vector().cstl_count() : 0;
    if (all_opcodes_ && *y != *a && *y != *b && chance(80)) {
        bool uses_b = false;
        const Task work = any_vector_task(tiles_[*a], tiles_[*b], tiles_[*y], uses_b);
        finish(work, uses_b ? std::vector<size_t>{*a, *b} : std::vector<size_t>{*a}, *y, UnitKind::cstl,
               units);
    } else if (chance(50)) {
        finish(program_.compute("relu", {region(tiles_[*a])}, {region(tiles_[*y])}, name("relu")), {*a}, *y,
               UnitKind::cstl, units);
    } else {
        finish(program_.compute("add", {region(tiles_[*a]), region(tiles_[*b])}, {region(tiles_[*y])},
                                name("add")),
               {*a, *b}, *y, UnitKind::cstl, units);
    }
}

Task RandomProgram::any_vector_task(const Tile& a, const Tile& b, const Tile& y, bool& uses_b) {
    constexpr const char* unary[] = {"sigmoid", "tanh", "exp",        "abs",  "neg",
                                     "gelu",    "silu", "leaky_relu", "clamp"};
    constexpr const char* binary[] = {"sub", "mul", "div", "min", "max"};
    if (chance(40)) return view_task(a, b, y, uses_b);
    if (chance(40)) {
        uses_b = true;
        const char* op = binary[draw(0, 4)];
        return program_.compute(op, {region(a), region(b)}, {region(y)}, name(op));
    }
    const char* op = unary[draw(0, 8)];
    Task task = program_.compute(op, {region(a)}, {region(y)}, name(op));
    if (op == std::string("leaky_relu")) task.attr("alpha", 0.25);
    if (op == std::string("clamp")) task.attr("min_val", -1.5).attr("max_val", 2.0);
    return task;
}

/// Views from whole tiles, halves and insides of tiles into a whole tile.
Task RandomProgram::view_task(const Tile& a, const Tile& b, const Tile& y, bool& uses_b) {
    const int64_t half = side_ / 2;
    switch (draw(0, 5)) {
        case 0:
            return program_.compute("transpose", {region(a)}, {region(y)}, name("transpose"))
                .attr("perm", {1, 0});
        case 1:
            return program_.compute("reshape", {region(a)}, {region(y)}, name("reshape"))
                .attr("target_shape", {side_, -1});
        case 2:
            return program_.compute("slice", {region(a)}, {region(y)}, name("slice"))
                .attr("starts", {-1})
                .attr("ends", {-side_ - 1})
                .attr("axes", {draw(0, 1)})
                .attr("steps", {-1});
        case 3:
            uses_b = true;
            return program_
                .compute("concat", {rows(a, 0, half), rows(b, half, half)}, {region(y)}, name("concat"))
                .attr("axis", 0);
        case 4:
            return program_
                .compute("split", {region(a)}, {rows(y, 0, half), rows(y, half, half)}, name("split"))
                .attr("axis", 0)
                .attr("split_sizes", {half, half});
        default:
            return program_.compute("pad", {rows(a, 1, side_ - 2)}, {region(y)}, name("pad"))
                .attr("pads", {1, 0, 1, 0})
                .attr("mode", chance(50) ? "edge" : "constant");
    }
}

/// Narrows i32 sums back to i8.
void RandomProgram::narrow() {
    const auto from = written_tile(Level::l1, ElemType::i32);
    if (!from) return;
    const unsigned engine = tiles_[*from].engine;
    const auto to = target(Level::l1, engine, ElemType::i8);
    if (!to || engines_[engine].get().vector().vpu_count() == 0) return;
    finish(program_.compute("requant", {region(tiles_[*from])}, {region(tiles_[*to])}, name("narrow")),
           {*from}, *to, UnitKind::vpu, engines_[engine].get().vector().vpu_count());
}

std::optional<size_t> RandomProgram::written_tile(Level level, ElemType type, int engine) {
    std::vector<size_t> found;
    for (size_t i = 0; i < tiles_.size(); ++i) {
        const Tile& tile = tiles_[i];
        const bool here = level != Level::l1 || engine < 0 || tile.engine == static_cast<unsigned>(engine);
        if (tile.written && tile.level == level && tile.type == type && here) found.push_back(i);
    }
    if (found.empty()) return std::nullopt;
    return found[static_cast<size_t>(draw(0, static_cast<int64_t>(found.size()) - 1))];
}

/// Loops between the tile and here must run one iteration at a time.
bool RandomProgram::writable(const Tile& tile) const {
    for (size_t d = tile.depth; d < scopes_.size(); ++d)
        if (scopes_[d].window > 1) return false;
    return true;
}

std::optional<size_t> RandomProgram::target(Level level, unsigned engine, ElemType type) {
    if (chance(40)) {
        if (const auto tile = new_tile(level, engine, type)) return tile;
    }
    std::vector<size_t> found;
    for (size_t i = 0; i < tiles_.size(); ++i) {
        const Tile& tile = tiles_[i];
        if (tile.level == level && tile.type == type && (level != Level::l1 || tile.engine == engine) &&
            writable(tile))
            found.push_back(i);
    }
    if (found.empty()) return new_tile(level, engine, type);
    return found[static_cast<size_t>(draw(0, static_cast<int64_t>(found.size()) - 1))];
}

std::optional<size_t> RandomProgram::new_tile(Level level, unsigned engine, ElemType type) {
    Arena& arena = level == Level::l1 ? l1_[engine] : level == Level::l2 ? l2_ : ddr_;
    const bool keep_all = level == Level::ddr;
    Expr slot = 0;
    int64_t copies = 1;
    for (const Scope& scope : scopes_) {
        const int64_t count = keep_all ? scope.trip : scope.window;
        slot = slot * count + (keep_all ? scope.index : scope.index % count);
        copies *= count;
    }
    const int64_t bytes = bytes_of(type);
    if (arena.used + copies * bytes > arena.size) return std::nullopt;
    Tile tile;
    tile.level = level;
    tile.engine = level == Level::l1 ? engine : 0;
    tile.type = type;
    tile.buffer = arena.buffer;
    tile.offset = slot * bytes + arena.used;
    tile.depth = scopes_.size();
    arena.used += copies * bytes;
    tiles_.push_back(tile);
    return tiles_.size() - 1;
}

Region RandomProgram::region(const Tile& tile) {
    const double unit = tile.type == ElemType::i32 ? scale * scale : scale;
    builder::TensorType type = builder::tensor(tile.type, {side_, side_}).quant(builder::per_tensor(unit));
    if (strided_ && chance(25)) type = type.strides({1, side_});
    return program_.region(name("r"), tile.buffer, tile.offset, type);
}

Region RandomProgram::rows(const Tile& tile, int64_t first, int64_t count) {
    const int64_t row = bytes_of(tile.type) / side_;
    return program_.region(name("rows"), tile.buffer, tile.offset + first * row,
                           builder::tensor(tile.type, {count, side_}).quant(builder::per_tensor(scale)));
}

void RandomProgram::finish(Task task, const std::vector<size_t>& reads, size_t write, UnitKind unit,
                           uint32_t units) {
    std::vector<Task> after;
    const auto add = [&](const Task& token) {
        const bool known = std::any_of(after.begin(), after.end(),
                                       [&](const Task& t) { return t.statement() == token.statement(); });
        if (!known && !(careless_ && chance(25))) after.push_back(token);
    };
    for (const size_t r : reads)
        if (tiles_[r].writer) add(*tiles_[r].writer);
    Tile& target = tiles_[write];
    if (target.writer) add(*target.writer);
    for (const Task& reader : target.readers) add(reader);
    if (!after.empty()) task.after(after);
    if (chance(60)) task.op(ops_[static_cast<size_t>(draw(0, 2))]);
    if (chance(4)) task.sync();
    if (units > 0 && chance(15)) task.resource(unit, draw(0, units - 1));
    for (const size_t r : reads)
        if (r != write) tiles_[r].readers.push_back(task);
    target.written = true;
    target.writer = task;
    target.readers.clear();
    tokens_.push_back(task);
}

}  // namespace kpu::model
