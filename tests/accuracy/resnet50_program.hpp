#pragma once

#include "isa/module.hpp"

namespace kpu::accuracy {

/// ResNet-50 (v1.5, 224x224, int8, batch 1) as a tile program for one engine with 256 KiB of L1 and 2 MiB of
/// L2: every convolution and the fully connected layer at their real shapes, 4.09 GMAC, 25.5 MB of weights. A
/// layer goes over slabs of 64 output channels, whose weights come from DDR to L2 once; over blocks of output
/// rows; and over chunks of input channels, accumulated in i32. Results are requantised, residuals added.
/// Activations of up to 512 KiB stay in L2, larger ones go to DDR. Two slots for everything that moves, so
/// that moving and computing overlap. Left out: batch normalisation (folded), the ReLUs (with the
/// requantisation), the average pool (0.02 % of the bytes).
Module resnet50();

}  // namespace kpu::accuracy
