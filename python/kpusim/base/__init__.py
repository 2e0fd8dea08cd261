"""All that each part of the package uses: arguments, arrays, options, progress, extras."""
