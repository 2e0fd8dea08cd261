#pragma once
// Executes a kernel of rule set xla, a statement at a time.
#include <optional>
#include <random>
#include <set>

#include "values/kernel/lanes/batch.hpp"
#include "values/kernel/tiles/tile_copies.hpp"

namespace kpu::values::kernel {

class TileMachine {
  public:
    /// `storage`: one for each buffer that is not workgroup memory, in order. `races`: look for statements that touch
    /// what a copy on its way reads or writes.
    TileMachine(const Code& code, const std::vector<uint64_t>& scalars, const std::vector<Bytes>& storage,
                bool races);

    bool done() const { return done_; }
    uint32_t statement() const { return next_; }  ///< that step() executes
    /// Throws SimulationError that names the statement.
    void step();
    void observe(StepObserver& observer) { observer_ = &observer; }
    /// Runs without known values: what they would decide is chosen by this number.
    void without_values(uint64_t seed) { anywhere_.emplace(seed); }
    /// Copies that have to arrive before the next statement can be executed, by number.
    std::vector<uint64_t> awaited();
    const std::vector<KernelRace>& races() const { return copies_.races(); }

    // for debuggers
    const Tile& variable(uint32_t number) const { return variables_[number]; }
    Bytes bytes(uint32_t buffer) const { return storage_[buffer]; }
    bool is_semaphore(uint32_t buffer) const { return tiles_.semaphores[buffer]; }
    int64_t semaphore(uint32_t buffer, int64_t index) const { return copies_.count(buffer, index); }

  private:
    struct Frame {
        enum class Kind : uint8_t { block, loop, while_ } kind = Kind::block;
        uint32_t statement = 0, end = 0;  ///< its own, and the first after its body
        uint32_t after = 0;               ///< where to go on then
        int64_t value = 0, to = 0;        ///< loop
    };
    void settle();
    std::string first_race() const;
    void execute();
    void branch(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t);
    void enter_loop(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t);
    void store(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t);
    void copy(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t);
    void set_loop_variable(const Frame& frame);
    void release(const kpu::kernel::TileStatement& t);
    int64_t semaphore_index(const kpu::kernel::TileStatement& t, ExprIndex index);

    Tile value(ExprIndex index);
    /// Returns a place, bound or number of a semaphore.
    int64_t integer(ExprIndex index) { return integer_of(deciding(index)); }
    Tile deciding(ExprIndex index);
    Tile load(const TileExpr& expr);
    void note_leaving(uint32_t buffer, const Tile& tile);

    // tile_masked.cpp
    struct MaskedPlaces {
        std::vector<uint32_t> elements, lanes;  ///< elements of the buffer; lanes of the window
    };
    Tile masked_load(const TileExpr& expr);
    void masked_store(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t);
    MaskedPlaces masked_places(uint32_t buffer, ExprIndex window, const Tile& mask);
    void touch_each(uint32_t buffer, const MaskedPlaces& places, bool writes);

    void forget(const kpu::kernel::CodeStatement& s, const kpu::kernel::TileStatement& t);
    Shape starts_of(const TileExpr& window);
    void spread(const TileExpr& window, Shape& starts);
    ByteWindow access(uint32_t buffer, ExprIndex index);
    void count_work(const TileExpr& expr, const std::vector<Tile>& operands);

    const Code& code_;
    const kpu::kernel::TileCode& tiles_;
    std::vector<Bytes> storage_;  ///< bytes of every buffer
    std::vector<uint8_t> workgroup_;
    std::vector<Tile> variables_;
    std::vector<Tile> literals_;  ///< indexed by their number
    std::vector<Frame> frames_;
    std::optional<UnwrittenMap> unwritten_;  ///< nothing: nobody looks for it
    TileCopies copies_;
    std::set<std::pair<uint32_t, uint64_t>> written_back_;  ///< buffer and first byte of clipped targets
    uint32_t next_ = 0;
    bool done_ = false;
    StepObserver* observer_ = nullptr;
    std::optional<std::mt19937_64> anywhere_;  ///< nothing: there are values
};

}  // namespace kpu::values::kernel
