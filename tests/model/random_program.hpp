#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "isa/builder.hpp"
#include "platforms/platform.hpp"

namespace kpu::model {

/// A legal program drawn from a seed: loads, moves between all levels, stores, products, vector work, loops
/// in loops, waits. Tasks that touch common bytes are ordered by tokens, unless `careless`: then some of the
/// tokens are missing.
class RandomProgram {
  public:
    /// `all_opcodes`: vector work of every class, not only relu and add. `strided`: tiles are also read and
    /// written column by column. Without either a seed gives the program that it always gave.
    RandomProgram(const proto::Platform& platform, uint64_t seed, bool careless, bool all_opcodes = false,
                  bool strided = false);
    const builder::Program& program() const { return program_; }

  private:
    /// A square of elements in a level, one copy for every iteration in flight of the loops around it.
    struct Tile {
        Level level = Level::l1;
        unsigned engine = 0;
        ElemType type = ElemType::i8;
        builder::Buffer buffer;
        builder::Expr offset{0};
        size_t depth = 0;  ///< loops around it
        bool written = false;
        std::optional<builder::Task> writer;
        std::vector<builder::Task> readers;
    };
    struct Scope {
        builder::Expr index;  ///< index of the iteration, from 0
        int64_t trip = 1, window = 1;
    };
    struct Arena {
        builder::Buffer buffer;
        int64_t size = 0, used = 0;
    };

    int64_t draw(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
    }
    bool chance(int percent) { return draw(1, 100) <= percent; }
    int64_t bytes_of(ElemType type) const { return side_ * side_ * (type == ElemType::i32 ? 4 : 1); }

    void statements(int64_t count);
    void loop();
    void task();
    void load();
    void move();
    void save();
    void product();
    void vector_work();
    /// Returns one task of a random vector opcode from tiles a and b into tile y.
    builder::Task any_vector_task(const Tile& a, const Tile& b, const Tile& y, bool& uses_b);
    builder::Task view_task(const Tile& a, const Tile& b, const Tile& y, bool& uses_b);
    void narrow();

    std::optional<size_t> written_tile(Level level, ElemType type, int engine = -1);
    std::optional<size_t> target(Level level, unsigned engine, ElemType type);
    std::optional<size_t> new_tile(Level level, unsigned engine, ElemType type);
    bool writable(const Tile& tile) const;
    builder::Region region(const Tile& tile);
    builder::Region rows(const Tile& tile, int64_t first, int64_t count);
    /// Orders the task after what it must follow, and remembers it as reader and writer.
    void finish(builder::Task task, const std::vector<size_t>& reads, size_t write, UnitKind unit,
                uint32_t units);
    std::string name(const char* prefix) { return prefix + std::to_string(names_++); }

    std::mt19937_64 random_;
    bool careless_, all_opcodes_, strided_;
    int64_t side_;
    platforms::Engines engines_;
    builder::Program program_;
    builder::Buffer input_;
    Arena ddr_, l2_;
    std::vector<Arena> l1_;
    std::vector<uint32_t> ops_;
    std::vector<Scope> scopes_;
    std::vector<Tile> tiles_;
    std::vector<builder::Task> tokens_;
    int names_ = 0;
};

}  // namespace kpu::model
