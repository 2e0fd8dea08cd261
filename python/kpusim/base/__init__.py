"""Everything that each part of the package uses and none is about: arguments, arrays, options, progress, extras."""
