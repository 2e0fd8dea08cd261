#pragma once
// Filled in by the program form's implementation: a fluent C++ way to make a Module without text.
