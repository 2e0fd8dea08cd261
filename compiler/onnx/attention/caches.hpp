#pragma once
// Caches of keys, values and states: tensors that some rows of are written anew.
#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// First places of each batch's new rows.
struct Starts {
    Sizes known;                      ///< starts of each batch, when they are constants
    std::optional<ValueId> computed;  ///< i32 [B]
    /// Returns the one that all batches have.
    std::optional<int64_t> same() const;
    /// Returns a text for Call::once: others of this text are the same.
    std::string text() const;
};

/// Returns the starts from an operand with one number for each of `batch` batches, or one for all of them;
/// `plus` is added.
Starts starts_of(Call& call, size_t operand, int64_t batch, int64_t plus = 0);

/// Refuses, in a model for many positions, numbers that are not the position + `plus` at each of them.
void check_position(Call& call, ValueId numbers, int64_t plus);
/// Chooses the form that the position needs: it has the keys of the first one that holds all that count.
ValueId chosen_form(Call& call, const std::vector<ValueId>& forms);
/// Returns how many keys each form of what reads such a cache of so many rows reads.
Sizes keys_of_forms(const Call& call, int64_t rows);

/// Returns `cache` with the rows of `update` along `axis` from the starts on; its first dimension is the
/// batch. What leaves a circular cache at its end goes on at its beginning.
ValueId written(Call& call, ValueId cache, ValueId update, size_t axis, const Starts& starts,
                bool circular = false);

/// A cache in integers: bytes, of which two numbers share one if they have 4 bits, 8 above their value, the first the lower.
struct CacheSteps {
    int64_t bits = 0;
    ValueId scale = 0;  ///< one number, or [1, groups, 1, size]
    bool quantized() const { return bits != 0; }
    int64_t width(int64_t size) const { return bits == 4 ? size / 2 : size; }
};

/// Returns what the attribute (NONE, PER_TENSOR, PER_CHANNEL), kv_cache_bit_width and the operand `scale`
/// say.
CacheSteps cache_steps_of(Call& call, std::string_view attribute, size_t scale, int64_t groups, int64_t size);
/// Returns the nearest steps of x, saturating; x itself if the cache has no steps.
ValueId steps_of(Call& call, const CacheSteps& steps, ValueId x);
/// Returns the numbers that steps stand for.
ValueId numbers_of(Call& call, const CacheSteps& steps, ValueId x, ElemType elem);

}  // namespace kpu::onnx
