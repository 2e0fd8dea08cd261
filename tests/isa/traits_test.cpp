// What rows tell compilers agrees with the rest of them: a column that does not is read by code that finds nothing there.
#include <gtest/gtest.h>

#include "isa/opcodes.hpp"

namespace kpu {
namespace {

bool has(const OpcodeSpec& spec, std::string_view attribute) {
    for (const AttrSpec& attr : spec.attributes) {
        if (attr.name == attribute) return true;
    }
    return false;
}

/// The attributes that say what an element depends on; empty: none, or one of several.
std::vector<std::string_view> attributes_of(Needs needs) {
    switch (needs) {
        case Needs::row:
        case Needs::before:
        case Needs::gathered:
        case Needs::picked:
            return {"axis"};
        case Needs::block:
            return {"axis", "block_size"};
        case Needs::window:
            return {"pads", "strides", "dilations"};
        case Needs::pool:
            return {"kernel_shape", "pads", "strides"};
        case Needs::resized:
            return {"sizes", "scales"};
        case Needs::permuted:
            return {"perm"};
        case Needs::sliced:
            return {"starts", "ends", "axes", "steps"};
        case Needs::padded:
            return {"pads", "mode"};
        case Needs::out_of_pixels:
        case Needs::into_pixels:
            return {"block"};
        default:
            return {};
    }
}

TEST(Traits, AreOfTheRowsAttributes) {
    for (const OpcodeSpec& spec : opcode_table()) {
        for (const std::string_view name : attributes_of(spec.traits.needs))
            EXPECT_TRUE(has(spec, name)) << spec.name << " " << name;
        if (spec.traits.needs == Needs::reduced) {
            EXPECT_TRUE(has(spec, "keepdims") && (has(spec, "axes") || has(spec, "axis"))) << spec.name;
        }
        for (const std::string_view name : {"perm", "target_shape", "kernel_shape", "block", "groups"})
            EXPECT_FALSE(spec.traits.any_order && has(spec, name)) << spec.name << " " << name;
    }
}

TEST(Traits, AreOfTheRowsOperands) {
    for (const OpcodeSpec& spec : opcode_table()) {
        const Traits& traits = spec.traits;
        const bool product = traits.needs == Needs::matrix || traits.needs == Needs::window;
        EXPECT_EQ(spec.macs != nullptr, product) << spec.name;
        EXPECT_EQ(spec.window_rank > 0, traits.needs == Needs::window) << spec.name;
        if (traits.elementwise) {
            EXPECT_TRUE(traits.needs == Needs::place && traits.grouping == Grouping::link) << spec.name;
            EXPECT_FALSE(traits.converts || traits.copies || traits.vectors) << spec.name;
        }
        const bool of_two = traits.in_steps == InSteps::by_constant || traits.of_low == OfLow::low_of_first ||
                            traits.of_low == OfLow::low_if_positive;
        EXPECT_TRUE(!of_two || spec.inputs.size() == 2) << spec.name;
        EXPECT_TRUE(!traits.vectors || spec.inputs.size() > 1) << spec.name;
        EXPECT_LT(traits.places, spec.inputs.size()) << spec.name;
        EXPECT_TRUE(!traits.reorders || (traits.copies && spec.outputs.size() == 1)) << spec.name;
        EXPECT_TRUE(traits.shares == Shares::nothing || traits.copies) << spec.name;
    }
}

TEST(Traits, OtherFormsOfProductsAreOpcodes) {
    for (const OpcodeSpec& spec : opcode_table()) {
        if (!spec.traits.sums_form.empty()) {
            ASSERT_TRUE(find_opcode(spec.traits.sums_form)) << spec.name;
            EXPECT_TRUE(opcode(*find_opcode(spec.traits.sums_form)).accumulates) << spec.name;
        }
        if (!spec.traits.group_form.empty()) {
            ASSERT_TRUE(find_opcode(spec.traits.group_form)) << spec.name;
            EXPECT_TRUE(opcode(*find_opcode(spec.traits.group_form)).group_scales) << spec.name;
        }
    }
}

}  // namespace
}  // namespace kpu
