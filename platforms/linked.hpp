#pragma once

#include <map>
#include <string>
#include <vector>

#include "platforms/linked_text.hpp"
#include "platforms/platform.hpp"
#include "platforms/schema.hpp"

namespace kpu::platforms {

/// Values of a platform that belong together: formulas over other fields, and groups that a factor scales. Formulas
/// stay formulas until every file and override is read, so that they follow whatever was changed.
class LinkedValues {
  public:
    /// The values of a file whose own fields are `said`. `platform` has them already: alone, or on top of the platform
    /// that it extends, which had `engines_before` entries of `engine`; further ones are copies of the one before.
    /// Throws UserError with the place.
    void add_file(Platform& platform, const Platform& said, int engines_before, const LinkedText& text,
                  schema::Fill fill);
    /// Plain values, formulas and scales of --set, in order. Throws UserError.
    void override_with(Platform& platform, const Overrides& overrides, schema::Fill fill);
    /// Computes every formula. Throws UserError: unknown names, circles, no value, out of range.
    void settle(Platform& platform, schema::Fill fill) const;

  private:
    struct Touched;
    void copy_formulas(Platform& platform, int from, int to, const Touched& touched);
    void scale(Platform& platform, const LinkedValue& scale, schema::Fill fill, Touched& touched);
    std::map<std::string, LinkedValue> formulas_;  ///< formulas by path, engines with their number
};

}  // namespace kpu::platforms
