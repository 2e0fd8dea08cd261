#pragma once
// What compilers ask of an opcode before they move, join, cut or round it. Each question is a column of its row, so that
// a new opcode is treated as others with the same answers. Defaults are what holds of everything.

#include <cstdint>
#include <string_view>

namespace kpu {

/// The part of the operands that an element of Y depends on: along what an operation can be computed tile by tile.
enum class Needs : uint8_t {
    image,          ///< all with its index of the first dimension
    place,          ///< the element at its place of each operand; smaller operands are broadcast
    block,          ///< block formats: elements of its block, and their scale
    matrix,         ///< a row of A, a column of B
    window,         ///< a window of X, with W: convolutions
    pool,           ///< a window of X, each channel for itself
    row,            ///< all along `axis`
    before,         ///< all up to its place along `axis`: running sums
    reduced,        ///< all along `axes` or `axis`, which Y lacks or has with size 1
    resized,        ///< neighbours of where X is scaled to Y
    permuted,       ///< one element of X: that of `perm`
    sliced,         ///< one element of X: that of `starts` and `steps`
    padded,         ///< one element of X: that of `pads`, or none
    gathered,       ///< elements of X by an index for all that lies after it
    picked,         ///< one element of X, by an index of its own
    out_of_pixels,  ///< one element of X: of the channels of a pixel (`block`)
    into_pixels,    ///< one element of X: of the pixels of a block
};

/// Its part in a group of nodes that are computed together, and stay on chip between each other.
enum class Grouping : uint8_t {
    none,
    anchor,  ///< begins one
    link,    ///< follows in one: results like X, element by element
};

/// Whether tensors may share memory, as far as attributes and strides let them.
enum class Shares : uint8_t {
    nothing,
    input,   ///< results are regions of the first operand
    output,  ///< operands are regions of the result
};

/// The fate of a very low operand, which a mask puts in the place of minus infinity.
enum class OfLow : uint8_t {
    unknown,
    low,              ///< low, and minus infinity of minus infinity; of any data operand
    low_of_first,     ///< the same, of the first operand
    low_if_positive,  ///< the same of the first, if the second is a positive constant
    absorbed,         ///< the result is what minus infinity makes
    never_low,        ///< the same, and no result is ever low
};

/// The loss by arithmetic in steps (integers with a scale).
enum class InSteps : uint8_t {
    floats,        ///< an error of a step may become anything: computed in floats
    by_constant,   ///< smooth if the second operand is a constant
    smooth,        ///< an error of a step stays one of about a step
    exact,         ///< nothing is lost
    interpolated,  ///< results are in the operands' steps; in mode nearest some of the operands' elements
    moved,         ///< results are some of the operands' elements
};

/// Whether a scale above 0 of each channel, the last dimension, can be taken out: f(s * X) = s * f(X).
enum class Homogeneous : uint8_t {
    no,
    first,     ///< out of the first operand alone
    together,  ///< out of all data operands at once
};

/// Whether results are finite.
enum class Finite : uint8_t {
    unknown,
    of_finite,  ///< if all data operands are
    always,
};

/// The columns of an opcode that compilers read; those of time, types and shapes are in isa/opcodes.hpp.
struct Traits {
    Needs needs = Needs::image;
    Grouping grouping = Grouping::none;
    Shares shares = Shares::nothing;
    OfLow of_low = OfLow::unknown;
    InSteps in_steps = InSteps::floats;
    Homogeneous homogeneous = Homogeneous::no;
    Finite finite = Finite::unknown;
    bool elementwise = false;  ///< Y[i] = f of operands at i, whose shapes are broadcast in graphs
    bool requantizes =
        false;  ///< integers with scales are read as real numbers, results rounded to the steps of Y
    bool converts = false;   ///< elements of X in another type
    bool copies = false;     ///< results are elements of its operands, or means of a few
    bool reorders = false;   ///< Y is all elements of X, in another order or shape
    bool vectors = false;    ///< operands after X are one number for each channel or index along `axis`
    bool any_order = false;  ///< dimensions may be permuted, and `axis`, `axes`, `pads`, `sizes` with them
    bool strips = false;     ///< some rows of Y are the same opcode, attributes adapted, on some rows of X
    bool bounds = false;     ///< Y = X within `min_val` (0) and `max_val` (infinity)
    bool probabilities = false;   ///< results along `axis` are 0 or more, with sum 1
    uint8_t places = 0;           ///< the operand that says where in a picture X is read; 0: none
    std::string_view sums_form;   ///< products: the opcode whose result is the accumulators; "" none
    std::string_view group_form;  ///< products: the opcode with a scale for each group of K; "" none
};

}  // namespace kpu
